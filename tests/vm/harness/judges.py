"""Independent checks of a capture's RoCE frames: tshark dissects them, scapy and zlib compute their ICRCs."""

from __future__ import annotations

import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

from harness import frame as frames
from harness.pcap import read

_GUARD_S = 120
# tshark guesses the protocol of a send's payload from its first bytes, and is sometimes wrong. It knows the
# connection manager's.
_GUESSED = "(infiniband.bth.opcode in {0..5, 22, 23, 100, 101} and not infiniband.bth.destqp == 1)"
_MALFORMED = f"infiniband and (_ws.malformed or _ws.expert.severity >= 6291456) and not {_GUESSED}"
_ZERO_IS_RIGHT = ("-o", "udp.ignore_ipv6_zero_checksum:TRUE")  # RoCE has the ICRC instead
_CM_CLASS = 7
_ICRC_BYTES = 4
_IPV4, _ROCE_V1 = b"\x08\x00", b"\x89\x15"  # ethertypes


def expect_good_frames(capture: Path) -> Counter[int]:
    """Checks that tshark understands each RoCE frame of the capture and that its ICRC is correct. Counts the
    frames by opcode."""
    found = [frame for frame in read(capture) if frames.is_roce(frame)]
    opcodes = Counter(frames.opcode(frame) for frame in found)
    dissected = _tshark(capture, "-Y", "infiniband.bth", "-T", "fields", "-e", "infiniband.bth.opcode")
    assert Counter(map(int, dissected)) == opcodes
    assert _tshark(capture, "-Y", _MALFORMED) == []
    for frame in found:
        packet = _without_padding(frame)
        assert packet[-_ICRC_BYTES:] == _icrc(packet), f"zlib computes another ICRC: {packet.hex()}"
    _expect_scapy_agrees([packet for packet in map(_without_padding, found) if packet[12:14] == _IPV4])
    return opcodes


def cm_messages(capture: Path) -> set[int]:
    """The attributes of the connection managers' messages: REQ is 0x10, REP 0x13, RTU 0x14, DREQ 0x15, DREP 0x16,
    SIDR's 0x17 and 0x18."""
    lines = _tshark(capture, "-Y", f"infiniband.mad.mgmtclass == {_CM_CLASS}", "-T", "fields", "-e", "infiniband.mad.attributeid")
    return {int(line, 0) for line in lines}


def _expect_scapy_agrees(packets: list[bytes]) -> None:
    """scapy knows only RoCE over IPv4."""
    if not packets:
        return
    roce = pytest.importorskip("scapy.contrib.roce", reason="needs python3-scapy")
    from scapy.layers.l2 import Ether  # pylint: disable=import-outside-toplevel
    for packet in packets:
        layers = Ether(packet)
        del layers[roce.BTH].icrc
        assert bytes(layers) == packet, f"scapy makes another frame: {packet.hex()}"


def _network(frame: bytes) -> tuple[int, int]:
    """Where the network header begins, and where the packet ends according to its length."""
    at = 14
    if frame[12:14] == _IPV4:
        return at, at + int.from_bytes(frame[at + 2:at + 4], "big")
    return at, at + 40 + int.from_bytes(frame[at + 4:at + 6], "big")


def _without_padding(frame: bytes) -> bytes:
    """The frame without the padding that Ethernet adds to short frames."""
    return frame[:_network(frame)[1]]


def _icrc(packet: bytes) -> bytes:
    """The ICRC of a frame without padding. All fields that a router may change count as ones."""
    at, _ = _network(packet)
    bth = frames.bth_offset(packet)
    assert bth is not None
    masked = bytearray(packet)
    if packet[12:14] == _IPV4:
        for variant in (1, 8, 10, 11):  # type of service, time to live, checksum
            masked[at + variant] = 0xFF
    else:
        masked[at] |= 0x0F  # traffic class, flow label, hop limit
        masked[at + 1:at + 4] = b"\xff" * 3
        masked[at + 7] = 0xFF
    if packet[12:14] != _ROCE_V1:
        masked[bth - 2:bth] = b"\xff" * 2  # UDP's checksum
    masked[bth + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked[at:-_ICRC_BYTES]).to_bytes(_ICRC_BYTES, "little")


def _tshark(capture: Path, *arguments: str) -> list[str]:
    """The lines of tshark's output for the file."""
    done = subprocess.run(["tshark", "-n", *_ZERO_IS_RIGHT, "-r", str(capture), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=_GUARD_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
