"""A capture file of Ethernet frames for tshark and scapy, of a bounded length."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

_MAGIC, _ETHERNET, _FRAME_MAX = 0xA1B2C3D4, 1, 65535


class Pcap:
    """Writes frames to `path` until it has `bytes_max` bytes; then it drops and counts them. Thread: the
    caller's."""

    def __init__(self, path: Path, bytes_max: int = 64 << 20) -> None:
        self.path = path
        self.left_out = 0
        self._room = bytes_max
        self._file = open(path, "wb")
        self._file.write(struct.pack("<IHHiIII", _MAGIC, 2, 4, 0, 0, _FRAME_MAX, _ETHERNET))

    def add(self, frame: bytes) -> None:
        """Adds a frame with the current time."""
        if len(frame) > self._room:
            self.left_out += 1
            return
        self._room -= len(frame)
        now_us = time.time_ns() // 1000
        self._file.write(struct.pack("<IIII", now_us // 1000000, now_us % 1000000, len(frame), len(frame)) + frame)

    def close(self) -> None:
        """Writes all added frames to the file."""
        self._file.close()


def read(path: Path) -> Iterator[bytes]:
    """The frames of a closed file."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length
