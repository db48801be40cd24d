"""The beginning and the end of a soak, as its program prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


def outcome_of(name: str, seconds: float, seed: int, run: Callable[[float], None], counts: Counter[str]) -> int:
    """Runs a soak, whose assertions say what is wrong, and returns the exit code. `counts` is what it did."""
    print(f"{name}: {seconds:.0f} s, seed {seed}", flush=True)
    try:
        run(seconds)
    except AssertionError as error:
        print(f"WRONG: {error}\n{name}: seed {seed}, {dict(counts)}")
        return 1
    print(f"{name}: all as it should be; seed {seed}, {dict(counts)}")
    return 0
