"""Loads that run in the background of a test, and whether they still make progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from fleet.fleet import Fleet
from fleet.until import until
from harness import cases
from harness.cases import Case
from harness.vm import Vm

_MORE = 200

Loads = dict[str, "Future[Any]"]


@contextmanager
def under_way(loads: dict[str, tuple[Case, Vm, Vm]]) -> Iterator[Loads]:
    """Runs the loads (a case, its server and its client) during the block, and checks their results at its end."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(cases.under_way(*load)) for name, load in loads.items()}


def messages_of(fleet: Fleet, number: int, vm: str) -> Callable[[], dict[str, int]]:
    """Counts the messages that the VM's adapter on that host has sent, by the kind of path."""
    def count() -> dict[str, int]:
        paths = fleet[number].ctl("adapter", "get", vm)["paths"]
        return {kind: int(paths[kind]["messages"]) for kind in paths}
    return count


def wait_until_they_flow(loads: Loads, count: Callable[[], dict[str, int]]) -> None:
    """Waits until each load has made progress, by the count of its name. Fails with a load's error if it ends."""
    before = count()

    def now() -> dict[str, int]:
        for load in loads.values():
            if load.done():
                load.result()
            assert not load.done(), "the load has ended"
        return count()

    until("the loads move something", now, accept=lambda seen: all(seen[name] > before[name] + _MORE for name in loads))
