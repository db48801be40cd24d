"""Prints one line before each long step, and its duration afterwards."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Prints `title`, and the duration at the end."""
    start_s = time.monotonic()
    print(f"-- {title} ...", file=sys.stderr, flush=True)
    yield
    print(f"-- {title}: {time.monotonic() - start_s:.1f} s", file=sys.stderr, flush=True)
