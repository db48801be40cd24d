"""tests/vm/bench.py: how it reads perftest's output, and what it computes. It needs no VM, and the figures are
not judged."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "tests" / "vm"), str(_ROOT / "tools")]

import bench  # noqa: E402  (the path above comes first)
from comparison import idle, report  # noqa: E402
from comparison.machines import CONTENDERS, MAPPED, SOFT_ROCE, TRAPPED, Contender  # noqa: E402
from comparison.perftest import LINES, Line, Unreadable, figures, table  # noqa: E402

_ADDRESSES = """---------------------------------------------------------------------------------------
 local address: LID 0000 QPN 0x0002 PSN 0xd0b2e2 RKey 0x000200 VAddr 0x007fd6332e5000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:11:52
---------------------------------------------------------------------------------------
"""
_BANDWIDTH = _ADDRESSES + """ #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      200              11.79              3.63   \t\t     0.006919
---------------------------------------------------------------------------------------
"""
_LATENCY = _ADDRESSES + (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] \n"
    "Conflicting CPU frequency values detected: 2100.000000 != 2800.000000. CPU Frequency is not max.\n"
    " 2       200          13.98          2461.95      70.14    \t       265.44      \t480.15 \t\t2401.44 \t\t2461.95\n"
    "---------------------------------------------------------------------------------------\n")


def _line(name: str) -> Line:
    return next(line for line in LINES if line.name == name)


def test_a_bandwidth_table_is_read() -> None:
    assert table(_BANDWIDTH) == {"#bytes": 65536, "#iterations": 200, "BW peak[Gb/sec]": 11.79, "BW average[Gb/sec]": 3.63,
                                 "MsgRate[Mpps]": 0.006919}
    assert figures(_line("write_bw").metrics, _BANDWIDTH) == [3.63]
    assert figures(_line("write_rate").metrics, _BANDWIDTH) == [pytest.approx(6.919)]


def test_a_latency_table_is_read_past_a_warning() -> None:
    assert table(_LATENCY)["99.9% percentile[usec]"] == 2461.95
    assert figures(_line("write_lat").metrics, _LATENCY) == [70.14, 265.44]


def test_what_perftest_could_not_work_out_harms_no_other_column() -> None:
    assert figures(_line("write_lat").metrics, _LATENCY.replace("480.15", "-nan")) == [70.14, 265.44]


_NO_TABLE = {"nothing": "", "addresses": _ADDRESSES, "a short row": _BANDWIDTH.replace("3.63", ""),
             "no heading": _BANDWIDTH.replace(" #bytes", " bytes"), "words": _BANDWIDTH.replace("3.63", "3.6.3")}
_NO_FIGURE = {"another table": _LATENCY, "another unit": _BANDWIDTH.replace("Gb/sec", "MB/sec"),
              **{value: _BANDWIDTH.replace("3.63", value) for value in ("0.00", "-nan", "inf")}}


@pytest.mark.parametrize("output", _NO_TABLE.values(), ids=_NO_TABLE)
def test_what_is_no_table_is_refused(output: str) -> None:
    with pytest.raises(Unreadable, match="printed no table"):
        figures(_line("write_bw").metrics, output)


@pytest.mark.parametrize("output", _NO_FIGURE.values(), ids=_NO_FIGURE)
def test_a_figure_that_means_nothing_is_refused(output: str) -> None:
    with pytest.raises(Unreadable, match=r"no 'BW average\[Gb/sec\]' above 0"):
        figures(_line("write_bw").metrics, output)


def test_every_line_has_a_name_of_its_own_and_iterations_for_each() -> None:
    assert len({line.name for line in LINES}) == len(LINES)
    assert all(len(line.iterations) == len(CONTENDERS) and min(line.iterations) > 0 for line in LINES)


def test_medians_and_gains() -> None:
    rounds = {TRAPPED: [[10.0], [40.0], [20.0]], MAPPED: [[100.0], [300.0], [200.0]], SOFT_ROCE: [[0.1], [0.2], [0.1]]}
    order: list[Contender] = []

    def measure(contender: Contender) -> list[float]:
        order.append(contender)
        return rounds[contender][sum(c is contender for c in order) - 1]

    outcome = report.compare(bench.COMPARISON, _line("write_bw"), 3, measure, ())
    # Each round begins with another one.
    assert order[:4] == [TRAPPED, MAPPED, SOFT_ROCE, MAPPED] and order[6] is SOFT_ROCE
    assert report.entries(outcome) == [{
        "name": "VmToVm/write_bw", "run_type": "iteration", "unit": "Gb/s", "trapped": 20, "trapped_rounds": [10, 40, 20],
        "mapped": 200, "mapped_rounds": [100, 300, 200], "soft_roce": 0.1, "soft_roce_rounds": [0.1, 0.2, 0.1],
        "gain_over_trapped": 10, "gain_over_soft_roce": 2000}]
    assert report.rows(outcome)[0].split()[-8:] == ["20.0", "(10.0-40.0)", "200", "(100-300)", "0.100", "(0.100-0.200)", "10.0",
                                                    "2000.0"]


def test_less_time_is_a_gain() -> None:
    times = {TRAPPED: [42.0, 100.0], MAPPED: [21.0, 50.0], SOFT_ROCE: [1050.0, 1000.0]}
    entries = report.entries(report.compare(bench.COMPARISON, _line("write_lat"), 1, times.__getitem__, ()))
    assert [(entry["name"], entry["gain_over_trapped"], entry["gain_over_soft_roce"]) for entry in entries] == [
        ("VmToVm/write_lat/typical", 2, 50), ("VmToVm/write_lat/average", 2, 20)]


def _fail(contender: Contender) -> list[float]:
    raise Unreadable(f"{contender.title} printed nothing\nat all")


def test_a_line_that_fails_says_so() -> None:
    outcome = report.compare(bench.COMPARISON, _line("send_bw"), 3, _fail, (Unreadable,))
    assert report.rows(outcome)[0].split()[-5:] == ["failed", "failed", "failed", "-", "-"]
    assert report.entries(outcome) == [{
        "name": "VmToVm/send_bw", "run_type": "iteration", "unit": "Gb/s", "error_occurred": True,
        "errors": {c.key: f"Unreadable: {c.title} printed nothing\nat all" for c in CONTENDERS}}]
    with pytest.raises(Unreadable):
        report.compare(bench.COMPARISON, _line("send_bw"), 3, _fail, (OSError,))


def test_who_fails_is_not_measured_again_and_the_others_are() -> None:
    order: list[Contender] = []

    def measure(contender: Contender) -> list[float]:
        order.append(contender)
        return _fail(contender) if contender is SOFT_ROCE and len(order) > 3 else [8.0]

    outcome = report.compare(bench.COMPARISON, _line("send_bw"), 3, measure, (Unreadable,))
    assert order == [TRAPPED, MAPPED, SOFT_ROCE, MAPPED, SOFT_ROCE, TRAPPED, TRAPPED, MAPPED]
    assert report.rows(outcome)[0].split()[-5:] == ["8.00", "(8.00-8.00)", "failed", "1.0", "-"]
    entry = report.entries(outcome)[0]
    assert entry["gain_over_trapped"] == 1 and "gain_over_soft_roce" not in entry and "soft_roce" not in entry
    assert entry["errors"] == {"soft_roce": "Unreadable: Soft-RoCE printed nothing\nat all"} and not entry["error_occurred"]


def test_failures_are_kept_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = _line("send_lat")
    monkeypatch.setattr(bench, "measure", lambda line, _, contender, scale: _fail(contender) if line is broken else [scale])
    running = bench.Bench(argparse.Namespace(rounds=2, scale=0.5, idle_seconds=3.0))
    running.line(_line("read_bw"), None)
    assert not running.failed and running.benchmarks[0]["mapped_rounds"] == [0.5, 0.5]
    running.line(broken, None)
    assert running.failed and [entry["error_occurred"] for entry in running.benchmarks[1:]] == [True, True]
    running.idle(idle.Case("nobody", lambda seconds: seconds / 2))
    assert running.benchmarks[3]["percent_of_core"] == 1.5
    printed = capsys.readouterr()
    assert "1.500 % of a core" in printed.out and "send_lat, mapped failed: Unreadable: mapped printed nothing" in printed.err
    json.dumps(running.benchmarks, allow_nan=False)


def test_an_idle_daemon_that_fails_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(seconds: float) -> float:
        raise RuntimeError(f"no daemon for {seconds} s")

    running = bench.Bench(argparse.Namespace(idle_seconds=3.0))
    running.idle(idle.Case("nobody", refuse))
    assert running.failed and running.benchmarks[0]["error_occurred"]
    assert "nobody failed: no daemon for 3.0 s" in capsys.readouterr().err


def test_lines_are_chosen_by_name() -> None:
    lines, with_idle = bench.chosen("read_lat,idle,write_bw")
    assert [line.name for line in lines] == ["write_bw", "read_lat"] and with_idle
    assert bench.chosen("read_lat")[1] is False
    with pytest.raises(argparse.ArgumentTypeError, match="no line 'fly'; there are: write_bw, .*, idle$"):
        bench.chosen("read_lat,fly")


def test_cpu_time_of_a_process_is_counted() -> None:
    before = idle.cpu_ns(os.getpid())
    while sum(idle.cpu_ns(os.getpid()).values()) < sum(before.values()) + 10_000_000:
        pass
    assert os.getpid() in before
