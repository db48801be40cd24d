"""Packet sockets in a host's network namespace, and frames."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

from harness.tap import Frames, inside

_ETH_P_ALL = 3


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
