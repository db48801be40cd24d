"""Tap devices in network namespaces, and the frames that pass a descriptor."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_CLONE_NEWNET = 0x40000000
_FRAME_BYTES_MAX = 16384
_GUARD_S = 30.0


def inside(namespace: str, work: Callable[[], Value]) -> Value:
    """The result of `work`, executed in a network namespace. Descriptors that it opens stay there."""
    values: list[Value] = []

    def run() -> None:
        with open(Path("/run/netns") / namespace, "rb") as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        values.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert values, f"nothing came of work in {namespace}"
    return values[0]


class Frames:
    """Sends and receives complete frames by a descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def close(self) -> None:
        """Closes the descriptor. A tap that is not persistent vanishes with it."""
        os.close(self.fd)

    def send(self, frame: bytes) -> None:
        """Sends one frame as soon as there is room."""
        select.select([], [self.fd], [], _GUARD_S)
        assert os.write(self.fd, frame) == len(frame)

    def arrived(self) -> list[bytes]:
        """The frames that have arrived and were not taken yet."""
        frames = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frames.append(os.read(self.fd, _FRAME_BYTES_MAX))
        return frames

    def take(self, count: int, wanted: Callable[[bytes], bool]) -> list[bytes]:
        """The next `count` wanted frames; others are skipped. Fewer if they do not arrive in time."""
        frames: list[bytes] = []
        deadline = time.monotonic() + _GUARD_S
        while len(frames) < count and time.monotonic() < deadline:
            select.select([self.fd], [], [], 1.0)
            frames += filter(wanted, self.arrived())
        return frames


@contextlib.contextmanager
def tap(namespace: str, name: str) -> Iterator[Frames]:
    """A tap device, held as by QEMU or pvrdmad. It is made if it does not exist."""

    def attach() -> int:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        return fd

    frames = Frames(inside(namespace, attach))
    try:
        yield frames
    finally:
        frames.close()
