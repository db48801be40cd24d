"""A thread that sleeps, as in a page fault that the kernel does not end."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17  # of ptrace(2)
_ALL_THREADS = 0x40000000  # __WALL
_LIBC = ctypes.CDLL(None, use_errno=True)


def _ptrace(request: int, thread: int) -> None:
    if _LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(thread), None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace request {request:#x}")


@contextmanager
def asleep(process: int, name: str) -> Iterator[None]:
    """The process's thread of that name does nothing during the block. The others go on."""
    (thread,) = (int(task.name) for task in Path(f"/proc/{process}/task").iterdir() if (task / "comm").read_text().strip() == name)
    _ptrace(_SEIZE, thread)
    try:
        _ptrace(_INTERRUPT, thread)
        os.waitpid(thread, _ALL_THREADS)
        yield
    finally:
        _ptrace(_DETACH, thread)
