"""Waiting for the system."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
GUARD_S = 30.0


def until(what: str, look: Callable[[], Value], guard_s: float = GUARD_S,
          accept: Callable[[Value], bool] = bool) -> Value:
    """The first accepted value of `look`. AssertionError with `what` and the last value if it does not come in
    time."""
    deadline = time.monotonic() + guard_s
    while True:
        value = look()
        if accept(value):
            return value
        assert time.monotonic() < deadline, f"{what}: not within {guard_s:g} s; the last look gave {value!r}"
        time.sleep(0.05)
