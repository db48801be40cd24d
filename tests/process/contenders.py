"""The lines of the bench of process mode, those that each line compares, and how one of them is measured once.

Ours are perftest and UCX's rc_verbs over adapters. The others move the same bytes between two processes of this host: UCX and
libfabric through shared memory, libfabric over TCP, and bare TCP whose ends sleep. Their figures are named as perftest's columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from comparison import perftest
from comparison.perftest import BANDWIDTH, LATENCY, RATE, Metric, Unreadable
from comparison.report import Comparison
from machine import BUILD, PATIENT_UCX, Machine, listens

_MIB_TO_GB = 8 * 2**20 / 1e9  # UCX's MB/s are of 2^20 bytes
_HERE = "127.0.0.1"
_VERBS = PATIENT_UCX | {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "vmw_pvrdma0:1"}


@dataclass(frozen=True)
class Line:
    """What is measured. `perftest` is its program with options. `ucx` is a test of ucx_perftest, `size` what libfabric sends.
    `iterations` say which families of contenders take part. They are few: beside ten busy threads on each core an exchange takes
    milliseconds. `aim` is the project's, in the first metric's unit."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    perftest: str
    iterations: dict[str, int]
    ucx: str = ""
    size: int = 8
    aim: float | None = None

    def comparison(self) -> Comparison[Contender]:
        """The contenders of this line, and what ours is compared with."""
        present = tuple(each for each in CONTENDERS if each.family in self.iterations)
        groups = {name: tuple(each for each in group if each in present) for name, group in _GAINS.items()}
        return Comparison("Process", present, TWO_ADAPTERS, {name: group for name, group in groups.items() if group})


@dataclass(frozen=True)
class Contender:
    """`key` in the JSON, `title` in the table. Those of a family have the same number of iterations. `nodes` are the server's and
    the client's; without them the programs run without an adapter."""

    key: str
    title: str
    family: str
    run: Callable[[Contender, Line, Machine, str, int], list[float]] = field(repr=False)
    nodes: tuple[int, int] | None = None
    environment: dict[str, str] = field(default_factory=dict, hash=False)

    def measure(self, line: Line, machine: Machine, port: str, scale: float) -> list[float]:
        """The line's metrics, measured once; nan: the contender does not have it."""
        return self.run(self, line, machine, port, max(_ITERATIONS_MIN, round(line.iterations[self.family] * scale)))

    def pair(self, machine: Machine, port: str, server: list[str], client: list[str]) -> str:
        """Runs both programs, and returns the client's output."""
        if self.nodes is not None:
            return machine.pair(server, client, self.nodes, **self.environment)[1]
        return machine.meet(machine.start(*server, **self.environment), lambda: listens(int(port)),
                            lambda: machine.run_plainly(*client, **self.environment))[1]


_ITERATIONS_MIN = 5  # perftest's minimum
_SECONDS_MIN = 0.1  # tcp_ping_pong's


def _perftest(contender: Contender, line: Line, machine: Machine, port: str, iterations: int) -> list[float]:
    command = [*line.perftest.split(), "-F", "-n", str(iterations), "-p", port]
    return perftest.figures(line.metrics, contender.pair(machine, port, command, [*command, _HERE]))


def _ucx(contender: Contender, line: Line, machine: Machine, port: str, iterations: int) -> list[float]:
    command = ["ucx_perftest", "-p", port]
    client = [*command, "-t", *line.ucx.split(), "-w", "100", "-n", str(iterations), _HERE]
    return _chosen(line, ucx_table(contender.pair(machine, port, command, client)))


def _libfabric(contender: Contender, line: Line, machine: Machine, port: str, iterations: int) -> list[float]:
    command = ["fi_pingpong", "-p", contender.environment["FI_PROVIDER"], "-e", "rdm", "-I", str(iterations), "-S", str(line.size)]
    output = contender.pair(machine, port, [*command, "-B", port], [*command, "-P", port, _HERE])
    return _chosen(line, libfabric_table(output))


def _tcp(contender: Contender, line: Line, machine: Machine, port: str, iterations: int) -> list[float]:
    command = [str(BUILD / "tests/cluster/tcp_ping_pong"), "--address", _HERE, "--port", port, "--size", str(line.size)]
    output = contender.pair(machine, port, [*command, "--server"], [*command, "--seconds", str(max(_SECONDS_MIN, iterations / 1e3))])
    return _chosen(line, {"t_typical[usec]": float(output) / 2})  # it prints the median round trip


def ucx_table(output: str) -> dict[str, float]:
    """The last line of ucx_perftest by perftest's columns. Unreadable if there is none."""
    found = re.search(r"^Final:((?: +[\d.]+){8})$", output, re.MULTILINE)
    if found is None:
        raise Unreadable(f"ucx_perftest printed no result:\n{output}")
    _, typical, _, average, _, mib, _, rate = map(float, found[1].split())
    return {"t_typical[usec]": typical, "t_avg[usec]": average, "BW average[Gb/sec]": mib * _MIB_TO_GB, "MsgRate[Mpps]": rate / 1e6}


def libfabric_table(output: str) -> dict[str, float]:
    """fi_pingpong's time of one transfer by perftest's column. Unreadable if there is none."""
    found = re.search(r"^\d+k? +\S+ +=\S+ +\S+ +[\d.]+s +[\d.]+ +([\d.]+) +[\d.]+ *$", output, re.MULTILINE)
    if found is None:
        raise Unreadable(f"fi_pingpong printed no result:\n{output}")
    return {"t_avg[usec]": float(found[1])}


def _chosen(line: Line, row: dict[str, float]) -> list[float]:
    found = [row.get(metric.column, math.nan) * metric.factor for metric in line.metrics]
    if 0 in found:
        raise Unreadable(f"there is a figure of 0: {row}")
    return found


TWO_ADAPTERS = Contender("two_adapters", "two adapters", "perftest", _perftest, (0, 1))
ONE_ADAPTER = Contender("one_adapter", "one adapter", "perftest", _perftest, (0, 0))
_UCX_RC = Contender("ucx_rc", "UCX, rc_verbs, two adapters", "ucx_rc", _ucx, (0, 1), _VERBS)
_UCX_POSIX = Contender("ucx_posix", "UCX, posix", "ucx_shm", _ucx, environment={"UCX_TLS": "posix,self"})
_UCX_SYSV = Contender("ucx_sysv", "UCX, sysv", "ucx_shm", _ucx, environment={"UCX_TLS": "sysv,self"})
_UCX_CMA = Contender("ucx_cma", "UCX, cma", "ucx_cma", _ucx, environment={"UCX_TLS": "cma,posix,self"})
_FI_SHM = Contender("fi_shm", "libfabric, shm", "fi_shm", _libfabric, environment={"FI_PROVIDER": "shm"})
_FI_TCP = Contender("fi_tcp", "libfabric, tcp", "fi_tcp", _libfabric, environment={"FI_PROVIDER": "tcp;ofi_rxm"})
_TCP = Contender("tcp", "TCP, ends asleep", "tcp", _tcp)
CONTENDERS = (TWO_ADAPTERS, ONE_ADAPTER, _UCX_RC, _UCX_POSIX, _UCX_SYSV, _UCX_CMA, _FI_SHM, _FI_TCP, _TCP)
_GAINS = {"gain_over_shared_memory": (_UCX_POSIX, _UCX_SYSV, _UCX_CMA, _FI_SHM), "gain_over_tcp": (_FI_TCP, _TCP),
          "gain_over_one_adapter": (ONE_ADAPTER,)}


LINES = (
    Line("write_bw", "64 KiB writes", BANDWIDTH, "ib_write_bw -s 65536 --report_gbits",
         {"perftest": 20_000, "ucx_rc": 5_000, "ucx_shm": 20_000}, "ucp_put_bw -s 65536", aim=90),
    Line("write_rate", "8-byte writes", RATE, "ib_write_bw -s 8 --report_gbits",
         {"perftest": 200_000, "ucx_rc": 50_000, "ucx_shm": 1_000_000}, "ucp_put_bw -s 8"),
    Line("write_lat", "an 8-byte write, one way", LATENCY, "ib_write_lat -s 8",
         {"perftest": 2_000, "ucx_rc": 300, "ucx_shm": 3_000}, "ucp_put_lat -s 8"),
    Line("read_lat", "an 8-byte read", LATENCY, "ib_read_lat -s 8",
         {"perftest": 20_000, "ucx_rc": 500, "ucx_shm": 1_000_000}, "ucp_get -s 8 -O 1", aim=1),
    Line("send_lat", "an 8-byte send, one way", LATENCY, "ib_send_lat -s 8",
         {"perftest": 2_000, "ucx_rc": 300, "ucx_shm": 3_000, "fi_shm": 1_000, "fi_tcp": 200}, "tag_lat -s 8"),
    Line("send_lat_64k", "a 64 KiB send, one way", LATENCY, "ib_send_lat -s 65536",
         {"perftest": 500, "ucx_rc": 100, "ucx_shm": 500, "ucx_cma": 500, "fi_shm": 200, "fi_tcp": 50}, "tag_lat -s 65536",
         size=65536),
    Line("send_lat_events", "an 8-byte send, one way, ends asleep", LATENCY, "ib_send_lat -s 8 -e", {"perftest": 1_000, "tcp": 500}),
)
