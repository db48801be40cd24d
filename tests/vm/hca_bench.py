#!/usr/bin/python3
"""Writes and reads between two adapters over the path hca, compared with perftest over the same RDMA device at the same
time.

One VM with two daemons that share its Soft-RoCE device (tests/vm/test_hca.py), all of it emulated, so only the ratio has a
meaning. Each round measures one after the other; only the ratio of the medians counts. It is above 1 if the adapters are
faster. Prints a table and writes build/bench/hca.json, of Google Benchmark's shape for bench/compare. Needs the release
build and what the VM tests need (README.md), no privileges.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tools")]

from comparison.perftest import table  # noqa: E402  (the path above comes first)
from harness import cases, soft_roce  # noqa: E402
from harness.cases import Case  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from harness.guest_programs import ENVIRONMENT  # noqa: E402
from harness.hca import HcaMachine  # noqa: E402

_SIZE = 65536
_SECONDS = 5
_WARM_UP_S = 20  # meanwhile an emulated processor registers 64 MiB for each VM
_CONNECTIONS = (1, 4)
_OPERATIONS = ["write", "read"]


def _ours(machine: HcaMachine, operation: str, connections: int) -> float:
    """Gb/s of 64 KiB writes or reads between the memory of VM-01 and VM-02."""
    a, b = (host.socket for host in machine.hosts)
    command = (f"{ENVIRONMENT} rc_perf --a {a} --b {b} --connections {connections} --depth 16 --size {_SIZE} --seconds {_SECONDS}"
               f" --warm-up {_WARM_UP_S}{' --read' if operation == 'read' else ''}")
    gbits = float(machine.vm.check(command, _WARM_UP_S + _SECONDS + 30)) * 8 / 1e9
    if "fetched" not in machine.hosts[0 if operation == "read" else 1].ctl("stats"):
        raise RuntimeError(f"nothing was fetched: the VMs' memory was not registered within {_WARM_UP_S} s")
    return gbits


def _reads(machine: HcaMachine, connections: int) -> float:
    """Gb/s of ib_read_bw between two processes in the VM, over its device."""
    command = f"ib_read_bw -d {soft_roce.DEVICE} -F -u 18 -s {_SIZE} -q {connections} -n {1600 // connections} --report_gbits"
    output = cases.run(Case("read_bw", server=command, client=f"{command} localhost", guard_s=120), machine.vm, machine.vm)[1].output
    return table(output)["BW average[Gb/sec]"]


def run(rounds: int, processors: int, operations: list[str]) -> None:
    """Measures each operation with each number of connections."""
    logs = REPOSITORY / "build" / "vm-logs" / "hca-bench"
    logs.mkdir(parents=True, exist_ok=True)
    benchmarks = []
    with HcaMachine(logs, processors=processors) as machine:
        print(f"{'64 KiB, Gb/s':<22} {'hca':>12} {'ib_read_bw':>12} {'ratio':>8}", flush=True)
        for operation, connections in itertools.product(operations, _CONNECTIONS):
            measured = [(_ours(machine, operation, connections), _reads(machine, connections)) for _ in range(rounds)]
            ours, theirs = (statistics.median(column) for column in zip(*measured))
            print(f"{operation + 's':<6} {connections:>2} connections {ours:12.3f} {theirs:12.3f} {ours / theirs:8.2f}", flush=True)
            benchmarks.append({"name": f"Hca/{operation}_bw/{connections}", "run_type": "iteration", "unit": "Gb/s", "ours": ours,
                               "read_bw": theirs, "gain": ours / theirs, "rounds": measured})
    target = REPOSITORY / "build" / "bench" / "hca.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"benchmarks": benchmarks}, indent=2), encoding="utf-8")


def main() -> int:
    """Exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", nargs="+", choices=_OPERATIONS, default=_OPERATIONS)
    parser.add_argument("--processors", type=int, default=2, help="of the VM")
    arguments = parser.parse_args()
    run(arguments.rounds, arguments.processors, arguments.operations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
