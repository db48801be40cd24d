"""An Ethernet frame's fields that tests need: its addresses, and its RoCE packet (v2 over IP, v1), if it has one."""

from __future__ import annotations

import struct

_IPV4, _IPV6, _ROCE_V1 = 0x0800, 0x86DD, 0x8915
_UDP, _ROCE_PORT = 17, 4791
_ETHERNET_BYTES, _IPV4_BYTES, _IPV6_BYTES, _UDP_BYTES = 14, 20, 40, 8

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY = 0x00, 0x01, 0x02, 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0C, 0x0D, 0x0E, 0x0F, 0x10
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, COMPARE_AND_SWAP, FETCH_AND_ADD = 0x11, 0x12, 0x13, 0x14


def mac_bytes(mac: str) -> bytes:
    """The six bytes of "52:54:00:12:34:51"."""
    return bytes.fromhex(mac.replace(":", ""))


def destination(frame: bytes) -> bytes:
    """Its destination MAC."""
    return frame[0:6]


def source(frame: bytes) -> bytes:
    """Its source MAC."""
    return frame[6:12]


def bth_offset(frame: bytes) -> int | None:
    """The offset of the base transport header; None if the frame is not RoCE. Without VLAN tag."""
    kind = int.from_bytes(frame[12:14], "big")
    if kind == _IPV4 and frame[23:24] == bytes([_UDP]):
        at = _ETHERNET_BYTES + 4 * (frame[14] & 0x0F)
    elif kind == _IPV6 and frame[20:21] == bytes([_UDP]):
        at = _ETHERNET_BYTES + _IPV6_BYTES
    else:
        return _ETHERNET_BYTES + _IPV6_BYTES if kind == _ROCE_V1 else None
    return at + _UDP_BYTES if frame[at + 2:at + 4] == _ROCE_PORT.to_bytes(2, "big") else None


def is_roce(frame: bytes) -> bool:
    """Whether an RDMA NIC would take the frame from its host's network stack."""
    return bth_offset(frame) is not None


def opcode(frame: bytes) -> int | None:
    """The opcode with its transport (RC: below 0x20); None if the frame is not RoCE."""
    at = bth_offset(frame)
    return None if at is None else frame[at]


def is_rc(frame: bytes) -> bool:
    """Whether it belongs to a reliable connection, and so is not a datagram (such as the connection manager's)."""
    code = opcode(frame)
    return code is not None and code < 0x20


def psn(frame: bytes) -> int:
    """The packet sequence number of a RoCE frame."""
    at = bth_offset(frame)
    assert at is not None
    return int(struct.unpack_from(">I", frame, at + 8)[0]) & 0xFFFFFF
