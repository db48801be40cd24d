"""One line before each long step, its duration after it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """Announces `title`, and how long it took when it is done."""
    start_s = time.monotonic()
    print(f"-- {title} ...", file=sys.stderr, flush=True)
    yield
    print(f"-- {title}: {time.monotonic() - start_s:.1f} s", file=sys.stderr, flush=True)
