"""Ethernet for a test's process: tap devices and packet sockets in a host's network namespace, and frames."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
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
_ETH_P_ALL = 3
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
        self._fd = fd
        os.set_blocking(fd, False)

    def close(self) -> None:
        """Closes the descriptor. A tap that is not persistent vanishes with it."""
        os.close(self._fd)

    def send(self, frame: bytes) -> None:
        """Sends one frame as soon as there is room."""
        select.select([], [self._fd], [], _GUARD_S)
        assert os.write(self._fd, frame) == len(frame)

    def arrived(self) -> list[bytes]:
        """The frames that have arrived and were not taken yet."""
        frames = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frames.append(os.read(self._fd, _FRAME_BYTES_MAX))
        return frames

    def take(self, count: int, wanted: Callable[[bytes], bool]) -> list[bytes]:
        """The next `count` wanted frames; others are skipped. Fewer if they do not arrive in time."""
        frames: list[bytes] = []
        deadline = time.monotonic() + _GUARD_S
        while len(frames) < count and time.monotonic() < deadline:
            select.select([self._fd], [], [], 1.0)
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


@contextlib.contextmanager
def wire(namespace: str, device: str) -> Iterator[Frames]:
    """All frames of a device, as the owner of that NIC sees them."""

    def attach() -> int:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as packets:
            packets.bind((device, _ETH_P_ALL))
            return packets.detach()

    frames = Frames(inside(namespace, attach))
    try:
        yield frames
    finally:
        frames.close()


# --- Frames ---

def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def ethernet(to: str, source: str, kind: int, payload: bytes) -> bytes:
    """A frame with Ethernet's padding."""
    return (_mac(to) + _mac(source) + struct.pack("!H", kind) + payload).ljust(60, b"\0")


def udp4(to: str, source: str, port: int, payload: bytes) -> bytes:
    """UDP over IPv4 in a frame, without a checksum, as in RoCE."""
    udp = struct.pack("!4H", 0xC000, port, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0, bytes([10, 9, 0, 2]), bytes([10, 9, 0, 1]))
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return ethernet(to, source, 0x0800, head + udp)


def udp6(to: str, source: str, port: int, payload: bytes) -> bytes:
    """The same over IPv6."""
    udp = struct.pack("!4H", 0xC000, port, 8 + len(payload), 0) + payload
    ends = bytes.fromhex("fd000000000000000000000000000002fd000000000000000000000000000001")
    return ethernet(to, source, 0x86DD, struct.pack("!IHBB", 0x60000000, len(udp), 17, 64) + ends + udp)


def arp(to: str, source: str) -> bytes:
    """An ARP request for 10.9.0.1."""
    return ethernet(to, source, 0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + _mac(source) + bytes([10, 9, 0, 2]) +
                    bytes(6) + bytes([10, 9, 0, 1]))
