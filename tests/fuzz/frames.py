"""Seeds of the fuzzers whose inputs have whole frames and datagrams, in network order."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Seeds = Iterator[tuple[str, bytes]]


def roce_frame() -> Seeds:
    """One frame of each opcode, with an ICRC of zero. The fuzzer corrects it."""
    ethernet = bytes.fromhex("525400123452525400123451")
    v6 = bytes.fromhex("fd000011" + "00" * 11 + "51" + "fd000011" + "00" * 11 + "52")

    def frame(kind: str, opcode: int, extensions: int, payload: int) -> bytes:
        pad = -payload % 4
        bth = bytes([opcode, 0x40 | pad << 4]) + b"\xff\xff\0" + b"\0\0\x11" + b"\x80\0\0\x05"
        packet = bth + bytes(range(1, extensions + 1)) + b"p" * payload + bytes(pad + 4)
        udp = struct.pack(">HHHH", 0xC121, 4791, 8 + len(packet), 0)
        if kind == "v1":
            return ethernet + b"\x89\x15" + struct.pack(">IHBB", 6 << 28, len(packet), 0x1B, 64) + v6 + packet
        if kind == "ipv6":
            return ethernet + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, 8 + len(packet), 17, 64) + v6 + udp + packet
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(packet), 0, 0x4000, 64, 17, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
        return ethernet + (b"\x81\0\0\x07" if kind == "tagged" else b"") + b"\x08\0" + ip + udp + packet

    extensions = {0x03: 4, 0x05: 4, 0x06: 16, 0x09: 4, 0x0A: 16, 0x0B: 20, 0x0C: 16, 0x0D: 4, 0x0F: 4, 0x10: 4, 0x11: 4,
                  0x12: 12, 0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x64: 8, 0x65: 12}
    without_payload = (0x0C, 0x11, 0x12, 0x13, 0x14)
    opcodes = [*range(0x15), 0x16, 0x17, 0x64, 0x65, 0x81]
    for opcode in opcodes:
        for kind in ("ipv4", "ipv6", "v1", "tagged"):
            payload = 0 if opcode in without_payload else 16 if opcode == 0x81 else 5
            yield f"{kind}_{opcode:02x}", frame(kind, opcode, extensions.get(opcode, 0), payload)
    yield "flush", frame("ipv4", 0x1C, 20, 0)
    yield "too_much_payload", frame("ipv4", 0x04, 0, 4100)


def capture() -> Seeds:
    def message(what: int, op: int, extra: int, size: int, offset: int, whole: int) -> bytes:
        head = bytes([what, op, extra, 0, 1, 0]) + struct.pack("<HIIII", size, offset, whole, 0xFFFFFF, 0x1234)
        return head + b"p" * size

    def seed(text: str, *messages: bytes) -> bytes:
        return bytes([len(text)]) + text.encode() + b"".join(messages)

    mtu_1024, answer, datagram = 2 << 5, 1, 2
    for index, text in enumerate(("", "qp 1 and op write", "not (in or peer 10.0.0.1) and path tcp", "op flush", "((request")):
        yield f"filter_{index}", seed(text, message(mtu_1024, 1, 0, 3000, 0, 3000), message(mtu_1024 | answer, 1, 0, 0, 0, 3000))
    yield "in_pieces", seed("out", *(message(mtu_1024, 0, 1, 700, at, 2800) for at in range(0, 2800, 700)))
    yield "read", seed("", message(mtu_1024, 2, 0, 3000, 0, 3000), message(mtu_1024 | answer, 2, 0, 3000, 0, 3000))
    yield "atomics", seed("op atomic", message(0, 3, 0, 8, 0, 8), message(0, 4, 0, 8, 0, 8), message(answer, 4, 0, 0, 0, 8))
    yield "refusals", seed("error", *(message(answer, 0, syndrome, 0, 0, 10) for syndrome in range(7)))
    yield "datagrams", seed("op datagram", message(datagram, 0, 1, 256, 0, 0), message(datagram, 0, 2, 5000, 0, 0))
    yield "beyond_the_message", seed("", message(mtu_1024, 1, 0, 2000, 0xFFFFFF00, 16))


def cm_mad() -> Seeds:
    """Steps: a MAD of the peer (0), of a stranger (1), of the peer to this end's newest id (8); time (2); commands (3 to 7)."""
    req, mra, rej, rep, rtu, dreq, drep = range(16, 23)
    source, destination = bytes([10, 99, 0, 2]), bytes([10, 99, 0, 1])

    def mad(attribute: int, data: bytes) -> bytes:
        return (bytes([1, 7, 2, 3]) + bytes(12) + struct.pack(">H", attribute) + bytes(6) + data).ljust(256, b"\0")

    def request(identity: int, qpn: int, port: int = 7000, peer: bytes = source) -> bytes:
        data = bytearray(232)
        struct.pack_into(">I4xQ", data, 0, identity, 0x0106_0000 | port)
        data[32:35] = qpn.to_bytes(3, "big")
        data[43], data[47], data[50], data[51] = 20 << 3, 20 << 3 | 7, 3 << 4 | 7, 15 << 4
        data[140:176] = bytes([0, 0x40, 0, 9]) + bytes(12) + peer + bytes(12) + destination
        return mad(req, bytes(data))

    def ids(attribute: int, own: int, rest: bytes = b"") -> bytes:
        return mad(attribute, struct.pack(">II", own, 0) + rest)

    accept, confirm, reject, disconnect, destroy = (bytes([kind]) for kind in range(3, 8))
    hour = bytes([2, 36])
    answer = b"\x08" + ids(rep, 17, bytes(4) + bytes([0, 0, 9]))
    passive = b"\0" + request(1, 9) + accept
    established = passive + b"\x08" + ids(rtu, 1)
    yield "passive", established + disconnect + b"\x08" + ids(drep, 1) + hour
    yield "peer_disconnects", established + (b"\x08" + ids(dreq, 1, bytes([0, 0, 6]))) * 2 + hour
    yield "active", answer + confirm + answer + destroy + b"\x08" + ids(drep, 17)
    yield "active_destroyed", answer + destroy + hour * 3
    yield "refused", b"\x08" + ids(rej, 17, bytes([0, 0, 0, 28]))
    yield "put_off", b"\x08" + ids(mra, 17, bytes([0, 24 << 3])) + hour * 20
    yield "never_answered", hour * 40
    yield "repeated_request", (b"\0" + request(1, 9)) * 3 + reject + b"\0" + request(1, 9)
    yield "backlog", b"".join(b"\0" + request(each, 100 + each) for each in range(1, 9))
    yield "stale_qp", established + b"\0" + request(2, 9)
    yield "no_listener", b"\0" + request(1, 9, port=1)
    yield "false_sender", b"\0" + request(1, 9, peer=bytes([10, 99, 0, 3])) + b"\x01" + request(1, 9)
    yield "stranger", passive + b"\x01" + ids(rtu, 1) + b"\x01" + ids(dreq, 1, bytes([0, 0, 6]))
    yield "unknown_ids", b"".join(b"\0" + ids(each, 5) for each in range(mra, drep + 2))
