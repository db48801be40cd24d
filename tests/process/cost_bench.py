#!/usr/bin/python3
"""What process mode costs beside the traffic: making objects, connecting, starting a program, an idle context, and programs that use
no RDMA.

Prints for each line "median (least-most)" of all rounds and whether the median reaches its aim. Writes
build/bench/process_costs.json, of Google Benchmark's shape for bench/compare. A failed line is reported and makes the exit code
1. Needs the release build, gcc and make, no privileges.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "vm"), str(_HERE.parents[1] / "tools")]

from comparison import report  # noqa: E402  (the path above comes first)
from machine import PVRDMA_RUN, REPOSITORY, Machine, address_of, until  # noqa: E402

_FAILURES = (AssertionError, OSError, RuntimeError, ValueError, subprocess.TimeoutExpired)
_PORT = "7171"
_IDLE_S = 5
_COMPILATIONS = 12


@dataclass(frozen=True)
class Cost:
    """One line. `measure` takes a machine whose nodes run already, unless it is `cold`."""

    name: str
    title: str
    unit: str
    aim: float
    measure: Callable[[Machine], float]
    cold: bool = False


def _run(machine: Machine, *command: str, node: int = 0) -> str:
    done = machine.run(*command, node=node)
    assert done.returncode == 0, done.stdout
    return done.stdout


def _costs(machine: Machine) -> str:
    """programs/costs.c, compiled into the machine's folder."""
    program = machine.folder / "costs"
    if not program.exists():
        subprocess.run(["gcc", "-O1", "-o", program, _HERE / "programs/costs.c", "-lrdmacm", "-libverbs"], check=True)
    return str(program)


def _figure(output: str, name: str) -> float:
    found = re.search(rf"^{name} ([\d.]+)$", output, re.MULTILINE)
    assert found is not None, f"there is no figure '{name}': {output}"
    return float(found[1])


def _object(name: str) -> Callable[[Machine], float]:
    return lambda machine: _figure(_run(machine, _costs(machine), "objects"), name)


def _connect(machine: Machine) -> float:
    machine.popen(_costs(machine), "accept", address_of(0), _PORT)
    connects: list[str] = []

    def is_connected() -> bool:
        done = machine.run(_costs(machine), "connect", address_of(0), _PORT, node=1)
        connects.append(done.stdout)
        return done.returncode == 0  # a client that comes before its server listens is refused
    until(is_connected, "the client connects")
    return _figure(connects[-1], "connect")


def _duration_ms(machine: Machine, *command: str) -> float:
    start = time.monotonic()
    done = machine.run_plainly(*command)
    assert done.returncode == 0, done.stdout
    return (time.monotonic() - start) * 1000


def _start(machine: Machine) -> float:
    return _duration_ms(machine, str(PVRDMA_RUN), "--node", "0", "true") - _duration_ms(machine, "true")


def _cpu_s(pid: int) -> float:
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _idle_context(machine: Machine) -> float:
    """Of one core, above what the daemon uses without a context."""
    daemon = machine.processes()["pvrdmad"]

    def percent() -> float:
        before = _cpu_s(daemon)
        time.sleep(_IDLE_S)
        return (_cpu_s(daemon) - before) / _IDLE_S * 100
    without = percent()
    holder = machine.popen(_costs(machine), "hold")
    assert holder.stdout is not None and holder.stdout.readline() == "holds 0\n"
    return percent() - without


def _make(machine: Machine) -> float:
    """How much longer a program takes that uses no RDMA, in percent: make, with a compiler."""
    folder = machine.own_folder("make")
    shutil.copy(_HERE / "programs/loopback.c", folder / "source.c")
    names = " ".join(f"{number}.o" for number in range(_COMPILATIONS))
    (folder / "Makefile").write_text(f"all: {names}\n{names}:\n\tgcc -O1 -c -o $@ source.c\n", encoding="ascii")
    make = ("make", "--silent", "--no-builtin-rules", "--always-make", "-C", str(folder))
    plainly = _duration_ms(machine, *make)
    return (_duration_ms(machine, str(PVRDMA_RUN), "--node", "0", *make) / plainly - 1) * 100


COSTS = (
    Cost("create_qp", "make a QP", "us", 100, _object("create_qp")),
    Cost("reg_mr_4k", "register 4 KiB", "us", 60, _object("reg_mr_4k")),
    Cost("reg_mr_1m", "register 1 MiB", "us", 500, _object("reg_mr_1m")),
    Cost("connect", "connect by rdma_cm", "us", 1000, _connect),
    Cost("start_warm", "pvrdma-run true, all runs already", "ms", 5, _start),
    Cost("start_cold", "pvrdma-run true, nothing runs", "ms", 300, _start, cold=True),
    Cost("idle_context", "an idle context, of one core", "%", 1, _idle_context),
    Cost("make", "make and gcc, which use no RDMA", "%", 1, _make),
)


def chosen(names: str) -> list[Cost]:
    """The lines of "a,b". ArgumentTypeError names the valid ones."""
    known = {cost.name: cost for cost in COSTS}
    for name in names.split(","):
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no line '{name}'; there are: {', '.join(known)}")
    return [cost for cost in COSTS if cost.name in names.split(",")]


def _once(cost: Cost, warm: Machine) -> float:
    machine = Machine() if cost.cold else warm
    try:
        return cost.measure(machine)
    finally:
        machine.kill_programs()
        if cost.cold:
            machine.close()


def _line(cost: Cost, rounds: int, machine: Machine) -> dict[str, Any]:
    """Measures and prints a line; returns its entry of the JSON."""
    entry: dict[str, Any] = {"name": f"ProcessCosts/{cost.name}", "run_type": "iteration", "unit": cost.unit}
    try:
        values = [_once(cost, machine) for _ in range(rounds)]
    except _FAILURES as error:
        print(f"{cost.name} failed: {error}", file=sys.stderr, flush=True)
        return entry | {"error_occurred": True, "errors": str(error)}
    median = statistics.median(values)
    verdict = "reached" if median <= cost.aim else "not reached"
    figures = f"{median:,.2f} ({min(values):,.2f}-{max(values):,.2f}) {cost.unit}"
    print(f"{cost.title:<34}{figures:>34}   aim: below {cost.aim:g} {cost.unit}: {verdict}", flush=True)
    return entry | {"median": median, "rounds": values, "aim": cost.aim}


def run(options: argparse.Namespace) -> int:
    """Measures the chosen lines; returns the exit code."""
    context = {**report.beginning(), "rounds": options.rounds, "kernel": platform.release()}
    machine = Machine()
    try:
        for node in (0, 1):
            started = machine.run("--start", node=node)
            assert started.returncode == 0, started.stdout
        entries = [_line(cost, options.rounds, machine) for cost in options.lines]
    finally:
        machine.close()
    report.save(context, entries, options.out)
    return 1 if any("errors" in entry for entry in entries) else 0


def main() -> int:
    """Exit code 0, or 1 if a line failed. SIGTERM ends it like Ctrl-C, with everything cleaned up."""
    everything = ",".join(cost.name for cost in COSTS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=chosen, default=everything, metavar="A,B", help=f"of {everything}")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench" / "process_costs.json")
    options = parser.parse_args()
    return report.exit_code(lambda: run(options), (*_FAILURES, subprocess.CalledProcessError))


if __name__ == "__main__":
    sys.exit(main())
