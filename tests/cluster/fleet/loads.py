"""Loads that run in the background of a test, and whether they still make progress."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fleet.fleet import Fleet
from fleet.until import until

_MORE = 200

Loads = dict[str, "Future[Any]"]


def messages_of(fleet: Fleet, number: int, vm: str) -> Callable[[], dict[str, int]]:
    """Counts the messages that the VM's adapter on that host has sent, by the kind of path."""
    def count() -> dict[str, int]:
        paths = fleet[number].ctl("adapter", "get", vm)["paths"]
        return {kind: int(paths[kind]["messages"]) for kind in paths}
    return count


def wait_until_they_flow(loads: Loads, count: Callable[[], dict[str, int]]) -> bool:
    """Waits until each load has made progress, by the count of its name, or has ended. False: all have ended."""
    before = count()
    until("the loads move something", lambda: (count(), {name: load.done() for name, load in loads.items()}),
          accept=lambda seen: all(ended or seen[0][name] > before[name] + _MORE for name, ended in seen[1].items()))
    return not all(load.done() for load in loads.values())


def expect_none_ended(loads: Loads) -> None:
    """Checks that no load has ended."""
    assert not any(load.done() for load in loads.values()), "the load was too short for this machine"
