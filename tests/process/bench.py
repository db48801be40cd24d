#!/usr/bin/python3
"""Process mode: stock programs between two adapters and on one, beside UCX's and libfabric's shared memory, TCP, and UCX over
our adapters, in the same minutes.

Each round of a line measures all of them one after the other; only the ratio of the medians counts. Prints for each metric
"median (least-most)" of each, and how many times better two adapters are. Writes build/bench/process.json, of Google Benchmark's
shape for bench/compare. A failed line is reported and makes the exit code 1. Needs the release build, perftest, ucx-utils
and libfabric-bin, no privileges.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "vm"), str(_HERE.parents[1] / "tools")]

from comparison import report  # noqa: E402  (the path above comes first)
from comparison.perftest import Unreadable  # noqa: E402
from contenders import LINES, Contender, Line  # noqa: E402
from machine import REPOSITORY, Machine, listens  # noqa: E402

_FAILURES = (AssertionError, OSError, RuntimeError, Unreadable, ValueError, subprocess.TimeoutExpired)


def chosen(names: str) -> list[Line]:
    """The lines of "a,b". ArgumentTypeError names the valid ones."""
    known = {line.name: line for line in LINES}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no line '{unknown[0]}'; there are: {', '.join(known)}")
    return [line for line in LINES if line.name in names.split(",")]


class Bench:
    """Measures and prints; keeps the JSON's contents, and whether a line failed."""

    def __init__(self, machine: Machine, rounds: int, scale: float) -> None:
        self.benchmarks: list[dict[str, Any]] = []
        self.failed = False
        self._machine = machine
        self._rounds = rounds
        self._scale = scale
        self._ports = itertools.count(21000 + os.getpid() % 9000)

    def line(self, line: Line) -> None:
        """Measures all rounds of one line."""
        outcome = report.compare(line.comparison(), line, self._rounds, functools.partial(self._once, line), _FAILURES)
        print(*report.blocks(outcome), *aim_of(outcome, line), sep="\n", flush=True)
        self.benchmarks += report.entries(outcome)
        for contender, error in outcome.errors.items():
            print(f"{line.name}, {contender} failed: {error}", file=sys.stderr, flush=True)
            self.failed = True

    def _once(self, line: Line, contender: Contender) -> list[float]:
        port = next(each for each in self._ports if not listens(each))
        try:
            return contender.measure(line, self._machine, str(port), self._scale)
        finally:
            self._machine.kill_programs()


def aim_of(outcome: report.Outcome[Contender], line: Line) -> list[str]:
    """Whether the median between two adapters reaches the line's aim, as a line of text; nothing without an aim."""
    metric = line.metrics[0]
    median = outcome.median(outcome.comparison.ours, metric)
    if line.aim is None or median is None:
        return []
    verdict = "reached" if metric.gain(median, line.aim) > 1 else "not reached"
    return [f"  aim: {'above' if metric.more_is_better else 'below'} {line.aim:g} {metric.unit}: {verdict}"]


def run(options: argparse.Namespace) -> int:
    """Measures the chosen lines; returns the exit code."""
    context = {**report.beginning(), "rounds": options.rounds, "scale": options.scale, "kernel": platform.release()}
    machine = Machine()
    try:
        for node in (0, 1):
            started = machine.run("--start", node=node)
            assert started.returncode == 0, started.stdout
        bench = Bench(machine, options.rounds, options.scale)
        print("median (least-most), and how many times better two adapters are", flush=True)
        for line in options.lines:
            bench.line(line)
    finally:
        machine.close()
    report.save(context, bench.benchmarks, options.out)
    return 1 if bench.failed else 0


def main() -> int:
    """Exit code 0, or 1 if a line failed. SIGTERM ends it like Ctrl-C, with everything cleaned up."""
    everything = ",".join(line.name for line in LINES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=chosen, default=everything, metavar="A,B", help=f"of {everything}")
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="X times as many iterations")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench" / "process.json")
    options = parser.parse_args()
    return report.exit_code(lambda: run(options), (*_FAILURES, subprocess.CalledProcessError))


if __name__ == "__main__":
    sys.exit(main())
