#!/usr/bin/python3
"""A guest and a native endpoint (Linux's Soft-RoCE in a VM) compared with two native endpoints, in the same VMs at the same
time.

Three VMs on one Ethernet, the test harness's hub: a guest, whose daemon has its link there, and two native endpoints. Each
round measures each pair one after the other. Only the ratio of the medians to that of the two native endpoints counts; it
is above 1 if the guest's pair is better. Prints a table, with the percentage of packets that the daemon retransmitted, and
writes build/bench/native.json, of Google Benchmark's shape for bench/compare. Needs the release build and what the VM tests
need (README.md), no privileges.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tools")]

from comparison import perftest  # noqa: E402  (the path above comes first)
from comparison.perftest import BANDWIDTH, LATENCY, Line, Metric  # noqa: E402
from harness import cases  # noqa: E402
from harness.cases import Case  # noqa: E402
from harness.cluster import Cluster, Setup  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from harness.vm import Vm  # noqa: E402

_GID_INDEX = 1  # the index of the IPv4 address in each VM
_OPTIONS = "-F -u 18"  # Soft-RoCE's time until it retransmits, long enough for a slow machine
_TITLES = ("guest writes", "native writes", "two natives")


def _line(name: str, title: str, program: str, options: str, metrics: tuple[Metric, ...], iterations: int) -> Line:
    return Line(name, title, program, options, metrics, (iterations,) * 3)


_LINES = (
    _line("write_bw", "ib_write_bw 64 KiB, 1 QP", "ib_write_bw", "--report_gbits -s 65536", BANDWIDTH, 400),
    _line("write_bw_8qp", "ib_write_bw 64 KiB, 8 QPs", "ib_write_bw", "--report_gbits -s 65536 -q 8", BANDWIDTH, 50),
    _line("write_lat", "ib_write_lat 8 B", "ib_write_lat", "-s 8", LATENCY, 500),
)


def _measure(line: Line, client: Vm, server: Vm) -> list[float]:
    command = f"{line.program} -d {{device}} -x {_GID_INDEX} {_OPTIONS} -n {line.iterations[0]} {line.options}"
    case = Case(line.name, server=command, client=f"{command} {{server}}", guard_s=120)
    return perftest.figures(line.metrics, cases.run(case, server, client)[1].output)


def _entries(line: Line, rounds: list[list[list[float]]], again: float) -> list[dict[str, Any]]:
    """Prints a line and returns its entries for the JSON; `rounds` by round, pair and metric."""
    entries = []
    for index, metric in enumerate(line.metrics):
        medians = [statistics.median(values[pair][index] for values in rounds) for pair in range(len(_TITLES))]
        gains = [metric.gain(ours, medians[-1]) for ours in medians[:-1]]
        title = f"{line.title}, {' '.join(filter(None, (metric.label, metric.unit)))}"
        print(f"{title:<44}", *(f"{value:14.3f}" for value in medians), *(f"{gain:10.2f}" for gain in gains), f"{again:8.2f}", flush=True)
        entries.append({"name": f"Native/{line.name}/{metric.label}".rstrip("/"), "run_type": "iteration", "unit": metric.unit,
                        **dict(zip(("guest_writes", "native_writes", "natives"), medians)),
                        **dict(zip(("gain_of_guest", "gain_towards_guest"), gains)), "repeated_percent": again, "rounds": rounds})
    return entries


def run(options: argparse.Namespace) -> None:
    """Measures every line."""
    setup = Setup(options.suite, doorbells=options.doorbells)
    logs = REPOSITORY / "build" / "vm-logs" / "native-bench"
    logs.mkdir(parents=True, exist_ok=True)
    benchmarks = []
    with Cluster(setup, logs, vm_count=1, native_count=2) as cluster:
        guest, (one, other) = cluster.vms[0], cluster.natives
        pairs = [(guest, one), (one, guest), (other, one)]
        print(f"{'':<44}", *(f"{title:>14}" for title in _TITLES), f"{'x natives':>10}", f"{'x natives':>10}", f"{'again %':>8}", flush=True)
        for line in _LINES:
            before = cluster.daemon.ctl("stats")["host"]["roce"]
            rounds = [[_measure(line, client, server) for client, server in pairs] for _ in range(options.rounds)]
            after = cluster.daemon.ctl("stats")["host"]["roce"]
            sent, repeated = (after[name] - before[name] for name in ("sent_pkts", "repeated"))
            benchmarks += _entries(line, rounds, 100 * repeated / sent)
    target = REPOSITORY / "build" / "bench" / "native.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"benchmarks": benchmarks}, indent=2), encoding="utf-8")


def main() -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--suite", default="trixie", help="the guests' Debian suite")
    parser.add_argument("--doorbells", choices=("trapped", "mapped"), help="the guest's; default: the daemon's")
    run(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
