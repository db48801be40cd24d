#!/usr/bin/python3
"""VM to VM: trapped doorbells, mapped doorbells and Soft-RoCE, in the same VMs at the same time; and an idle daemon's CPU
time.

Each round of a line measures the three one after the other; only the ratio of the medians counts. Prints a table and writes
build/bench/vm_to_vm.json, of Google Benchmark's shape for bench/compare. A failed line is reported and makes the exit code
1. Needs the release build and what the VM tests need (README.md), no privileges.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tools")]

from comparison import idle, report  # noqa: E402  (the path above comes first)
from comparison.machines import CONTENDERS, MAPPED, SOFT_ROCE, TRAPPED, Machines  # noqa: E402
from comparison.perftest import LINES, Line, Unreadable, measure  # noqa: E402
from harness import process  # noqa: E402
from harness.channel import GuestLost, GuestTimeout  # noqa: E402
from harness.daemon import REPOSITORY, expect_quiet_sandboxes  # noqa: E402
from harness.vm import acceleration  # noqa: E402

_IDLE = "idle"
_LOGS = REPOSITORY / "build" / "vm-logs" / "bench"
_BUSY_LOOP = ["nice", "-n", "12", "sh", "-c", "while :; do :; done"]
COMPARISON = report.Comparison("VmToVm", CONTENDERS, MAPPED,
                               {"gain_over_trapped": (TRAPPED,), "gain_over_soft_roce": (SOFT_ROCE,)})
_FAILURES = (AssertionError, GuestLost, GuestTimeout, RuntimeError, OSError, Unreadable)


def chosen(names: str) -> tuple[list[Line], bool]:
    """The lines of "a,b", and whether "idle" is among them. ArgumentTypeError names the valid ones."""
    known = {line.name: line for line in LINES}
    wanted = names.split(",")
    unknown = [name for name in wanted if name not in known and name != _IDLE]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no line '{unknown[0]}'; there are: {', '.join((*known, _IDLE))}")
    return [line for line in LINES if line.name in wanted], _IDLE in wanted


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """`count` processes that only use the CPU, beside everything else, at a lower priority."""
    loops = [process.start(_BUSY_LOOP, Path(os.devnull)) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            process.stop(loop, 5)


class Bench:
    """Measures and prints; keeps the JSON's contents, and whether a line failed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.benchmarks: list[dict[str, Any]] = []
        self.failed = False
        self._options = options

    def line(self, line: Line, machines: Machines) -> None:
        """Measures all rounds of one line."""
        once = functools.partial(measure, line, machines, scale=self._options.scale)
        outcome = report.compare(COMPARISON, line, self._options.rounds, once, _FAILURES)
        print(*report.rows(outcome), sep="\n", flush=True)
        self.benchmarks += report.entries(outcome)
        for contender, error in outcome.errors.items():
            self._fail(f"{line.name}, {contender}", error)

    def idle(self, case: idle.Case) -> None:
        """Measures one idle daemon."""
        entry: dict[str, Any] = {"name": f"VmToVm/idle/{case.title}", "run_type": "iteration"}
        try:
            percent = case.measure(self._options.idle_seconds)
            print(f"idle: {case.title:<60}{percent:8.3f} % of a core", flush=True)
            self.benchmarks.append({**entry, "percent_of_core": percent})
        except _FAILURES as error:
            self.benchmarks.append({**entry, "error_occurred": True, "error_message": str(error)})
            self._fail(case.title, str(error))

    def _fail(self, name: str, error: str) -> None:
        print(f"{name} failed: {error}", file=sys.stderr, flush=True)
        self.failed = True


def run(options: argparse.Namespace) -> int:
    """Measures the chosen lines; returns the exit code."""
    lines, with_idle = options.lines
    start = time.time()
    context = {**report.beginning(), "acceleration": acceleration(), "rounds": options.rounds, "scale": options.scale,
               "busy_loops": options.busy_loops}
    bench = Bench(options)
    with busy_loops(options.busy_loops):
        with Machines(options.suite, _LOGS / "vms") as machines:
            context["kernel"] = machines.vms[0].check("uname -r").strip()
            print(report.heading(COMPARISON), flush=True)
            for line in lines:
                bench.line(line, machines)
            for case in idle.of_machines(machines) if with_idle else ():
                bench.idle(case)
        for case in idle.of_daemons(_LOGS / "idle") if with_idle else ():
            bench.idle(case)
    report.save(context, bench.benchmarks, options.out)
    expect_quiet_sandboxes(_LOGS, start)
    return 1 if bench.failed else 0


def main() -> int:
    """Exit code 0, or 1 if a line failed. SIGTERM ends it like Ctrl-C, with everything cleaned up."""
    everything = ",".join((*(line.name for line in LINES), _IDLE))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=chosen, default=everything, metavar="A,B", help=f"of {everything}")
    parser.add_argument("--busy-loops", type=int, default=0, metavar="N", help="N busy loops (nice 12) run beside it")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="X times as many iterations")
    parser.add_argument("--idle-seconds", type=float, default=5.0, metavar="S", help="how long each idle daemon is watched")
    parser.add_argument("--suite", default="trixie", help="the guests' Debian suite")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench" / "vm_to_vm.json")
    options = parser.parse_args()
    return report.exit_code(lambda: run(options), _FAILURES)


if __name__ == "__main__":
    sys.exit(main())
