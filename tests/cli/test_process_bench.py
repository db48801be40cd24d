"""tests/process/bench.py: how it reads the programs' output, and what it computes. It starts no program, and the figures are
not judged."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "tests" / "process"), str(_ROOT / "tests" / "vm"), str(_ROOT / "tools")]

from comparison import report  # noqa: E402  (the path above comes first)
from comparison.perftest import Unreadable  # noqa: E402
from contenders import CONTENDERS, LINES, ONE_ADAPTER, TWO_ADAPTERS, Contender, Line, libfabric_table, ucx_table  # noqa: E402

_UCX = """+--------------+--------------+------------------------------+---------------------+-----------------------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]             10000      0.246     5.501   5.501        1.39       1.39      181788      181788
Final:                 50000      0.245     5.501    94.020     1000.00     2000.00      181788       10636
"""
_LIBFABRIC = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
{size}       10k     =10k     156k        0.02s      9.33       {time}       1.17
"""


def _bench() -> ModuleType:
    """The program; tests/vm has one of the same name."""
    spec = importlib.util.spec_from_file_location("process_bench", _ROOT / "tests" / "process" / "bench.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _line(name: str) -> Line:
    return next(line for line in LINES if line.name == name)


def _outcome(name: str, figures: dict[str, list[float]]) -> report.Outcome[Contender]:
    """One round, in which those without figures fail."""
    def measure(contender: Contender) -> list[float]:
        if contender.key not in figures:
            raise Unreadable("nothing")
        return figures[contender.key]

    line = _line(name)
    return report.compare(line.comparison(), line, 1, measure, (Unreadable,))


def test_the_result_of_ucx_is_read() -> None:
    assert ucx_table(_UCX) == {"t_typical[usec]": 0.245, "t_avg[usec]": 94.02, "BW average[Gb/sec]": pytest.approx(16.777216),
                               "MsgRate[Mpps]": pytest.approx(0.010636)}


@pytest.mark.parametrize("size", ["8", "64k"])
def test_the_result_of_libfabric_is_read(size: str) -> None:
    assert libfabric_table(_LIBFABRIC.format(size=size, time="0.86")) == {"t_avg[usec]": 0.86}


@pytest.mark.parametrize("output", ["", _UCX.replace("Final:", "Fini:"), _UCX.replace("94.020", "inf"), _UCX.replace("10636", "")])
def test_ucx_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(Unreadable, match="ucx_perftest printed no result"):
        ucx_table(output)


@pytest.mark.parametrize("output", ["", _LIBFABRIC.format(size="8", time="-"), _LIBFABRIC.splitlines()[0]])
def test_libfabric_without_a_result_is_refused(output: str) -> None:
    with pytest.raises(Unreadable, match="fi_pingpong printed no result"):
        libfabric_table(output)


def test_each_line_compares_those_that_can_do_it() -> None:
    assert len({line.name for line in LINES}) == len(LINES) and len({each.key for each in CONTENDERS}) == len(CONTENDERS)
    assert {family for line in LINES for family in line.iterations} == {each.family for each in CONTENDERS}
    for line in LINES:
        comparison = line.comparison()
        assert comparison.contenders[:2] == (TWO_ADAPTERS, ONE_ADAPTER) and len(comparison.contenders) > 2
        assert "gain_over_shared_memory" in comparison.gains or "gain_over_tcp" in comparison.gains
        assert bool(line.ucx) == ("ucx_shm" in line.iterations)


def test_the_gain_is_over_the_best_of_a_group() -> None:
    outcome = _outcome("write_bw", {"two_adapters": [100.0], "one_adapter": [50.0], "ucx_posix": [200.0], "ucx_sysv": [400.0]})
    entry = report.entries(outcome)[0]
    assert entry["name"] == "Process/write_bw" and entry["two_adapters"] == 100 and entry["ucx_sysv_rounds"] == [400]
    assert entry["gain_over_shared_memory"] == 0.25 and entry["gain_over_one_adapter"] == 2 and "gain_over_tcp" not in entry
    assert entry["errors"] == {"ucx_rc": "Unreadable: nothing"} and not entry["error_occurred"]


def test_a_figure_that_a_contender_does_not_have_is_left_out() -> None:
    nan = float("nan")
    outcome = _outcome("send_lat", {each.key: [nan, 4.0] if each.key == "fi_tcp" else [1.0, 2.0] for each in CONTENDERS})
    typical, average = report.entries(outcome)
    assert "fi_tcp" not in typical and "gain_over_tcp" not in typical and average["gain_over_tcp"] == 2
    rows = [row.split() for row in report.blocks(outcome)]
    assert ["libfabric,", "tcp", "-"] in rows and ["libfabric,", "tcp", "4.00", "(4.00-4.00)", "2.00"] in rows


@pytest.mark.parametrize(("name", "figures", "text"), [
    ("write_bw", [91.0], "  aim: above 90 Gb/s: reached"), ("write_bw", [89.0], "  aim: above 90 Gb/s: not reached"),
    ("read_lat", [0.75, 3.0], "  aim: below 1 us: reached"), ("read_lat", [1.5, 0.5], "  aim: below 1 us: not reached")])
def test_aims(name: str, figures: list[float], text: str) -> None:
    assert _bench().aim_of(_outcome(name, {"two_adapters": figures}), _line(name)) == [text]


def test_no_aim_without_a_figure_or_an_aim() -> None:
    assert _bench().aim_of(_outcome("write_bw", {}), _line("write_bw")) == []
    assert _bench().aim_of(_outcome("write_rate", {"two_adapters": [1.0]}), _line("write_rate")) == []


def test_lines_are_chosen_by_name() -> None:
    bench = _bench()
    assert [line.name for line in bench.chosen("read_lat,write_bw")] == ["write_bw", "read_lat"]
    with pytest.raises(argparse.ArgumentTypeError, match="no line 'fly'; there are: write_bw, "):
        bench.chosen("read_lat,fly")
