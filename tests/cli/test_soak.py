"""What the soak (tests/soak) reports as left over, and what it accepts."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "soak"), str(_TESTS / "cluster"), str(_TESTS / "vm"), str(_TESTS.parent / "tools")]

from soak import seconds_of  # noqa: E402  (the path above comes first)
from soaking.gauge import MIB, Quiet, Slack, Usage, difference, growth  # noqa: E402

_START = Quiet(1.0, Usage(rss_bytes=20 * MIB, own_bytes=8 * MIB, threads=11, descriptors={"socket:[N]": 4, "anon_inode:[eventfd]": 1}, cpu_s=1.0))


def _later(**changes: object) -> Quiet:
    return Quiet(2.0, dataclasses.replace(_START.usage, **changes))


def _sizes(*mib: float) -> list[Quiet]:
    return [_later(rss_bytes=int(size * MIB)) for size in mib]


def test_the_same_is_no_difference() -> None:
    assert difference("esx-01", _START, _later(cpu_s=9.0, rss_bytes=21 * MIB)) is None


def test_each_leftover_is_named() -> None:
    objects = dataclasses.replace(_START, objects={"mrs": 3})
    assert "{'mrs': 3}" in (difference("esx-01", _START, objects) or "")
    assert "12 threads, at the start 11" in (difference("esx-01", _START, _later(threads=12)) or "")
    assert "10 threads, at the start 11" in (difference("esx-01", _START, _later(threads=10)) or "")
    leaked = difference("esx-01", _START, _later(descriptors={"socket:[N]": 4, "anon_inode:[eventfd]": 3}))
    assert "7 descriptors, at the start 5: {'anon_inode:[eventfd]': 2}" in (leaked or "")


def test_descriptors_of_another_kind_are_a_difference_though_their_number_is_the_same() -> None:
    swapped = difference("esx-01", _START, _later(descriptors={"socket:[N]": 5}))
    assert "'socket:[N]': 1" in (swapped or "") and "'anon_inode:[eventfd]': -1" in (swapped or "")


def test_sessions_with_the_store_come_from_a_bounded_pool() -> None:
    start = dataclasses.replace(_START, usage=dataclasses.replace(_START.usage, descriptors={"tcp, connected to 2379": 2, "unix": 6}))
    assert difference("esx-01", start, _later(descriptors={"tcp, connected to 2379": 6, "unix": 12})) is None
    assert "'unix': 7" in (difference("esx-01", start, _later(descriptors={"tcp, connected to 2379": 2, "unix": 13})) or "")
    assert "'tcp, connected to 2379': 5" in (difference("esx-01", start, _later(descriptors={"tcp, connected to 2379": 7})) or "")


def test_memory_within_the_slack_is_no_growth() -> None:
    assert growth("esx-01", _sizes(20, 27.9), Slack()) is None
    assert growth("esx-01", _sizes(200, 219), Slack()) is None


def test_memory_beyond_the_slack_is_growth() -> None:
    assert "esx-01 uses 28.1 MiB" in (growth("esx-01", _sizes(20, 28.1), Slack()) or "")
    assert "200.0 MiB" in (growth("esx-01", _sizes(200, 221), Slack()) or "")


def test_a_trend_is_growth_though_each_size_is_within_the_slack() -> None:
    assert growth("esx-01", _sizes(20, 21, 21, 21, 22, 22, 23, 23), Slack()) is None
    assert "keeps growing" in (growth("esx-01", _sizes(20, 20.5, 21, 22, 24, 25, 26, 27), Slack()) or "")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2d", "-1s", "1h30m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds_of(text)
