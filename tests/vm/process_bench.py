#!/usr/bin/python3
"""Process mode beside Linux's Soft-RoCE: perftest between two adapters without a VM, and between two processes over a Soft-RoCE
device, in one VM with two processors, by turns.

All of it is emulated, so only the ratio of the medians has a meaning. It is above 1 if the adapters are faster. Prints a table and
writes build/bench/process_vm.json, of Google Benchmark's shape for bench/compare. A failed line is reported and makes the exit code
1. Needs the release build and what the VM tests need (README.md), no privileges.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tools")]

from comparison import perftest, report  # noqa: E402  (the path above comes first)
from comparison.perftest import BANDWIDTH, LATENCY, Metric, Unreadable  # noqa: E402
from comparison.report import Comparison  # noqa: E402
from harness import cases, soft_roce  # noqa: E402
from harness.cases import Case  # noqa: E402
from harness.channel import GuestLost, GuestTimeout  # noqa: E402
from harness.daemon import REPOSITORY, Adapter  # noqa: E402
from harness.ensemble import Ensemble  # noqa: E402
from harness.guest_programs import ENVIRONMENT, built, installed, pack  # noqa: E402
from harness.vm import Vm  # noqa: E402
from testbed import ensure  # noqa: E402

_FAILURES = (AssertionError, GuestLost, GuestTimeout, Unreadable)
_MEMORY_MIB = 1024
_HOME = "/tmp/node"
_USER = f"cd {_HOME} && {ENVIRONMENT} HOME={_HOME} XDG_RUNTIME_DIR={_HOME} setpriv --reuid=65534 --regid=65534 --clear-groups"


@dataclass(frozen=True)
class Contender:
    """`begins` is what comes before perftest's program, for the server and the client."""

    key: str
    title: str
    begins: tuple[str, str]
    options: str = ""


@dataclass(frozen=True)
class Line:
    """`iterations` of the adapters, and of Soft-RoCE."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    program: str
    iterations: tuple[int, int]


_ADAPTERS = Contender("two_adapters", "two adapters", (f"{_USER} pvrdma-run --node 0", f"{_USER} pvrdma-run --node 1"))
_SOFT_ROCE = Contender("soft_roce", "Soft-RoCE", ("", ""), f"-d {soft_roce.DEVICE} -u 18")  # long enough for a slow machine
_CONTENDERS = (_ADAPTERS, _SOFT_ROCE)
_COMPARISON = Comparison("ProcessVm", _CONTENDERS, _ADAPTERS, {"gain_over_soft_roce": (_SOFT_ROCE,)})
_LINES = (
    Line("write_bw", "64 KiB writes", BANDWIDTH, "ib_write_bw -s 65536 --report_gbits", (5_000, 400)),
    Line("write_lat", "an 8-byte write, one way", LATENCY, "ib_write_lat -s 8", (1_000, 500)),
    Line("read_lat", "an 8-byte read", LATENCY, "ib_read_lat -s 8", (5_000, 500)),
    Line("send_lat_events", "an 8-byte send, ends asleep", LATENCY, "ib_send_lat -s 8 -e", (500, 500)),
)


class Machine(Ensemble):
    """The VM, with the programs of process mode."""

    @property
    def vm(self) -> Vm:
        """The guest."""
        return self.vms[0]

    def _adapters(self) -> list[Adapter]:
        return []

    def _start(self) -> None:
        archive = self._run / "process.cpio"
        pack(archive, [*built("src/pvrdmad/pvrdmad", "src/pvrdma_run/pvrdma-run", "src/pvrdma_standin/pvrdma-standin",
                              "src/preload/libpvrdma-preload.so"), *installed("setpriv")])
        self._start_vms(ensure("trixie"), [dataclasses.replace(soft_roce.spec(1), archives=(archive,), memory_mib=_MEMORY_MIB, processors=2)])
        soft_roce.add_device(self.vm)
        self.vm.check(f"mkdir {_HOME} && chown 65534:65534 {_HOME}")

    def measure(self, line: Line, contender: Contender) -> list[float]:
        """The line's metrics, once."""
        program = f"{line.program} -F -n {line.iterations[_CONTENDERS.index(contender)]} {contender.options}"
        server, client = (f"{begin} {program}" for begin in contender.begins)
        case = Case(line.name, server=server, client=f"{client} 127.0.0.1", guard_s=120)
        return perftest.figures(line.metrics, cases.run(case, self.vm, self.vm)[1].output)


def main() -> int:
    """Exit code 0, or 1 if a line failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    context = report.beginning()
    benchmarks, failed = [], False
    with Machine(REPOSITORY / "build" / "vm-logs" / "process-bench") as machine:
        print(report.heading(_COMPARISON), flush=True)
        for line in _LINES:
            outcome = report.compare(_COMPARISON, line, options.rounds, functools.partial(machine.measure, line), _FAILURES)
            print(*report.rows(outcome), sep="\n", flush=True)
            benchmarks += report.entries(outcome)
            for contender, error in outcome.errors.items():
                print(f"{line.name}, {contender} failed: {error}", file=sys.stderr, flush=True)
                failed = True
    report.save(context, benchmarks, REPOSITORY / "build" / "bench" / "process_vm.json")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
