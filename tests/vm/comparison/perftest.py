"""The lines of the comparison, each a pair of perftest programs, and the figures in perftest's tables."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from comparison.machines import CONTENDERS, Contender, Machines
from harness import cases
from harness.cases import Case

PORT = 18515
_GUARD_S = 120.0
_ITERATIONS_MIN = 5  # perftest's minimum
# 4 us * 2^N. With perftest's 14, Soft-RoCE retransmits before a slow guest has answered, and some runs end
# with status 9
_QP_TIMEOUT = 20
_NUMBER = re.compile(r"\d+(?:\.\d+)?|-?(?:nan|inf)")  # t_stdev is the root of a number that rounding may make negative
_COLUMN = re.compile(r"#\w+|[^\s\[\]#][^\[\]#]*\[[^\[\]]*\]")


class Unreadable(Exception):
    """perftest printed no table, or a table without the figure."""


@dataclass(frozen=True)
class Metric:
    """One figure of a line: perftest's column, multiplied by `factor` to get `unit`."""

    unit: str
    column: str
    more_is_better: bool
    label: str = ""
    factor: float = 1.0

    def gain(self, ours: float, theirs: float) -> float:
        """How many times better `ours` is."""
        return ours / theirs if self.more_is_better else theirs / ours


BANDWIDTH = (Metric("Gb/s", "BW average[Gb/sec]", more_is_better=True),)
RATE = (Metric("k messages/s", "MsgRate[Mpps]", more_is_better=True, factor=1e3),)
LATENCY = (Metric("us", "t_typical[usec]", more_is_better=False, label="typical"),
            Metric("us", "t_avg[usec]", more_is_better=False, label="average"))


@dataclass(frozen=True)
class Line:
    """One line of the comparison. `iterations` are those of each contender: about a second's work without KVM."""

    name: str
    title: str
    program: str
    options: str
    metrics: tuple[Metric, ...]
    iterations: tuple[int, int, int]


def _bandwidth(name: str, title: str, program: str, options: str, *iterations: int) -> Line:
    return Line(name, title, program, f"--report_gbits {options}", BANDWIDTH, iterations)  # type: ignore[arg-type]


LINES = (
    _bandwidth("write_bw", "ib_write_bw 64 KiB, 1 QP", "ib_write_bw", "-s 65536", 20_000, 100_000, 200),
    _bandwidth("write_bw_4qp", "ib_write_bw 64 KiB, 4 QPs", "ib_write_bw", "-s 65536 -q 4", 5_000, 25_000, 100),
    _bandwidth("write_bw_1m", "ib_write_bw 1 MiB", "ib_write_bw", "-s 1048576", 5_000, 10_000, 20),
    _bandwidth("send_bw", "ib_send_bw 64 KiB", "ib_send_bw", "-s 65536", 10_000, 50_000, 200),
    _bandwidth("read_bw", "ib_read_bw 64 KiB", "ib_read_bw", "-s 65536", 20_000, 100_000, 200),
    Line("write_rate", "ib_write_bw 8 B", "ib_write_bw", "--report_gbits -s 8", RATE, (20_000, 500_000, 5_000)),
    Line("write_lat", "ib_write_lat 2 B", "ib_write_lat", "-s 2", LATENCY, (10_000, 20_000, 500)),
    Line("send_lat", "ib_send_lat 2 B", "ib_send_lat", "-s 2", LATENCY, (5_000, 20_000, 500)),
    Line("read_lat", "ib_read_lat 2 B", "ib_read_lat", "-s 2", LATENCY, (10_000, 100_000, 1_000)),
    Line("send_lat_events", "ib_send_lat -e 2 B", "ib_send_lat", "-s 2 -e", LATENCY, (2_000, 5_000, 500)),
)


def table(output: str) -> dict[str, float]:
    """The only row of perftest's table, by the names of its columns ("t_avg[usec]"). Unreadable if there is none."""
    lines = iter(output.splitlines())
    columns = next((_COLUMN.findall(line) for line in lines if line.lstrip().startswith("#bytes")), [])
    for line in lines:  # warnings may come before the row
        fields = line.split()
        if columns and len(fields) == len(columns) and all(map(_NUMBER.fullmatch, fields)):
            return dict(zip(columns, map(float, fields)))
    raise Unreadable(f"perftest printed no table:\n{output}")


def figures(metrics: tuple[Metric, ...], output: str) -> list[float]:
    """These metrics in perftest's output. Unreadable if one is missing or meaningless."""
    row = table(output)
    found = []
    for metric in metrics:
        value = row.get(metric.column, math.nan) * metric.factor
        if not 0 < value < math.inf:
            raise Unreadable(f"perftest's table has no '{metric.column}' above 0:\n{output}")
        found.append(value)
    return found


def measure(line: Line, machines: Machines, contender: Contender, scale: float) -> list[float]:
    """Runs the line once and returns its metrics. Raises the exceptions of cases.run(), and Unreadable."""
    server, client = machines.vms
    iterations = max(_ITERATIONS_MIN, round(line.iterations[CONTENDERS.index(contender)] * scale))
    ends = [machines.device(vm, contender) for vm in (server, client)]
    common = f"-p {PORT} -F -u {_QP_TIMEOUT} -n {iterations} {line.options}"
    commands = [f"{line.program} -d {end.name} -x {end.gid_index} {common}" for end in ends]
    case = Case(f"{line.name} {contender.title}", server=commands[0], client=f"{commands[1]} {{server}}", port=PORT,
                guard_s=_GUARD_S)
    return figures(line.metrics, cases.run(case, server, client)[1].output)
