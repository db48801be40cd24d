"""Cores that do not sleep while a bench measures latency."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """During the block no core sleeps: each has a busy loop that yields to all other threads (SCHED_IDLE)."""
    loops = [subprocess.Popen(["chrt", "--idle", "0", "taskset", "--cpu-list", str(core), "sh", "-c", "while :; do :; done"])
             for core in sorted(os.sched_getaffinity(0))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
