"""The Ethernet between the VMs: which port gets which frame, what faults do to frames, and what is recorded. No
VM."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import frame as frames
from harness.faults import Action, Fault, Faults, cable_out, nth, share
from harness.hub import Hub
from harness.pcap import Pcap

_GUARD_S = 10.0
_GUEST, _NATIVE, _THIRD = (f"52:54:00:12:34:{end}" for end in ("51", "61", "52"))
_ALL = "ff:ff:ff:ff:ff:ff"
# Frames from rxe, with other Ethernet addresses.
_ACK_IPV4 = bytes.fromhex("080045000030 60ff4000401141f2c0a80b3dc0a80b3e c12112b7001c0000 1100ffff0000001100d0842a 1f000001 14173713")
_WRITE_IPV6 = bytes.fromhex("86dd 6000000000301140fd000011000000000000000000000061fd000011000000000000000000000062"
                            "c12112b700300000 0a30ffff00000011802b245c 000055d41748d000000002ba00000005 0000000001 000000 82c835bf")


def _frame(to: str, by: str, rest: bytes) -> bytes:
    return frames.mac_bytes(to) + frames.mac_bytes(by) + rest


def _ack(to: str, by: str, psn: int = 0xD0842A) -> bytes:
    packet = bytearray(_frame(to, by, _ACK_IPV4))
    packet[50:54] = struct.pack(">I", psn)
    return bytes(packet)


def _text(to: str, by: str, text: str) -> bytes:
    return _frame(to, by, b"\x88\xb5" + text.encode())


class _Station:
    """A station on the hub, in place of QEMU or the daemon."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_GUARD_S)
        self._socket.connect(str(path))

    def send(self, *sent: bytes) -> None:
        self._socket.sendall(b"".join(len(item).to_bytes(4, "big") + item for item in sent))

    def receive(self, count: int) -> list[bytes]:
        return [self._take(int.from_bytes(self._take(4), "big")) for _ in range(count)]

    def ended(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()

    def _take(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            piece = self._socket.recv(size - len(taken))
            assert piece, "the hub hung up"
            taken += piece
        return taken


Join = Callable[[Path], _Station]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub whose link gets the guest's RoCE frames."""
    made = Hub(tmp_path / "ethernet.sock", steered=(_GUEST,))
    yield made
    made.close()


@pytest.fixture
def join(hub: Hub) -> Iterator[Join]:
    """Makes stations and waits until the hub has accepted them."""
    with ExitStack() as stack:
        def make(path: Path) -> _Station:
            station = _Station(path)
            stack.callback(station.close)
            # In one turn the thread may execute an order and then accept, but not execute an order of the
            # next turn.
            for _ in range(2):
                hub.set_faults(None)
            return station
        yield make


@pytest.fixture
def stations(hub: Hub, join: Join) -> tuple[_Station, _Station, _Station]:
    """The guest's NIC, the native endpoint, the daemon."""
    return join(hub.path), join(hub.path), join(hub.link)


def test_frames_are_known_for_what_they_are() -> None:
    ack, write = _ack(_GUEST, _NATIVE), _frame(_NATIVE, _GUEST, _WRITE_IPV6)
    assert (frames.opcode(ack), frames.psn(ack)) == (frames.ACKNOWLEDGE, 0xD0842A)
    assert (frames.opcode(write), frames.psn(write)) == (frames.WRITE_ONLY, 0x2B245C)
    assert frames.is_roce(_frame(_GUEST, _NATIVE, b"\x89\x15" + bytes(60)))
    for other in (_text(_GUEST, _NATIVE, "x"), ack[:14], ack[:20], ack.replace(b"\x12\xb7", b"\x12\xb6"),
                  write.replace(b"\x12\xb7", b"\x12\xb6"), ack[:23] + b"\x06" + ack[24:]):
        assert not frames.is_roce(other) and frames.opcode(other) is None


def test_roce_to_the_guest_goes_to_the_daemon_and_the_rest_to_the_others(stations: tuple[_Station, ...]) -> None:
    guest, native, daemon = stations
    native.send(_ack(_GUEST, _NATIVE), _text(_GUEST, _NATIVE, "arp"), _ack(_THIRD, _NATIVE))
    assert daemon.receive(1) == [_ack(_GUEST, _NATIVE)]
    assert guest.receive(2) == [_text(_GUEST, _NATIVE, "arp"), _ack(_THIRD, _NATIVE)]
    daemon.send(_ack(_NATIVE, _GUEST))
    assert native.receive(1) == guest.receive(1) == [_ack(_NATIVE, _GUEST)]
    native.send(_ack(_GUEST, _NATIVE, 2))
    assert daemon.receive(1) == [_ack(_GUEST, _NATIVE, 2)], "and nothing else before"


def test_a_hub_without_a_link_floods_all(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "plain.sock")
    one, two = _Station(hub.path), _Station(hub.path)
    try:
        two.send(_text(_ALL, _THIRD, "there"))
        assert one.receive(1)
        one.send(_ack(_GUEST, _NATIVE))
        assert two.receive(1) == [_ack(_GUEST, _NATIVE)]
        assert not hub.link.exists()
    finally:
        for station in (one, two):
            station.close()
        hub.close()


def test_the_link_is_unplugged_and_plugged_again(hub: Hub, stations: tuple[_Station, ...], join: Join) -> None:
    guest, native, daemon = stations
    hub.unplug_link()
    assert daemon.ended()
    with pytest.raises(OSError):
        _Station(hub.link)
    native.send(_ack(_GUEST, _NATIVE), _text(_GUEST, _NATIVE, "alone"))
    assert guest.receive(1) == [_text(_GUEST, _NATIVE, "alone")]
    hub.plug_link()
    again = join(hub.link)
    again.send(_text(_ALL, _GUEST, "back"))
    assert native.receive(1) == [_text(_ALL, _GUEST, "back")]
    native.send(_ack(_GUEST, _NATIVE, 5))
    assert again.receive(1) == [_ack(_GUEST, _NATIVE, 5)]


def _through(faults: Faults, hub: Hub, stations: tuple[_Station, ...], sent: list[bytes]) -> list[bytes]:
    """The frames that the daemon gets when the native endpoint sends `sent`."""
    _, native, daemon = stations
    # Of another direction, so no fault applies; no fault chooses so high an ordinal.
    last = _ack(_GUEST, _THIRD, 0xFFFFFF)
    hub.set_faults(faults)
    native.send(*sent, last)
    got: list[bytes] = []
    while (item := daemon.receive(1)[0]) != last:
        got.append(item)
    hub.set_faults(None)
    return got


_ACKS = [_ack(_GUEST, _NATIVE, number) for number in range(6)]


def test_the_nth_frame_is_lost(hub: Hub, stations: tuple[_Station, ...]) -> None:
    faults = Faults(Fault(Action.DROP, nth(2, 4)))
    assert _through(faults, hub, stations, _ACKS) == [_ACKS[0], _ACKS[2], *_ACKS[4:]]
    assert faults.hits == 2
    assert _through(faults, hub, stations, _ACKS) == _ACKS, "each ordinal comes once"


def test_the_nth_of_a_kind_is_doubled(hub: Hub, stations: tuple[_Station, ...]) -> None:
    write = _frame(_GUEST, _NATIVE, _WRITE_IPV6)
    faults = Faults(Fault(Action.DUPLICATE, nth(1), lambda frame: frames.opcode(frame) == frames.WRITE_ONLY))
    assert _through(faults, hub, stations, [_ACKS[0], write, _ACKS[1]]) == [_ACKS[0], write, write, _ACKS[1]]


def test_a_frame_is_overtaken(hub: Hub, stations: tuple[_Station, ...]) -> None:
    faults = Faults(Fault(Action.REORDER, nth(2)))
    assert _through(faults, hub, stations, _ACKS) == [_ACKS[0], _ACKS[2], _ACKS[1], *_ACKS[3:]]
    faults = Faults(Fault(Action.REORDER, nth(2, 3)))
    assert _through(faults, hub, stations, _ACKS) == [_ACKS[0], _ACKS[3], _ACKS[1], _ACKS[2], *_ACKS[4:]]


def test_one_bit_of_a_frame_changes_where_the_icrc_tells(hub: Hub, stations: tuple[_Station, ...]) -> None:
    got = _through(Faults(Fault(Action.CORRUPT, nth(3))), hub, stations, _ACKS)
    assert [*got[:2], *got[3:]] == [*_ACKS[:2], *_ACKS[3:]]
    differences = [a ^ b for a, b in zip(got[2], _ACKS[2])]
    assert sum(map(int.bit_count, differences)) == 1 and differences[:54] == [0] * 54


def test_a_share_of_the_frames_and_the_same_ones_for_a_seed() -> None:
    many = [_ack(_GUEST, _NATIVE, number) for number in range(20000)]

    def left(seed: int) -> list[bytes]:
        faults = Faults(Fault(Action.DROP, share(0.01, seed)))
        return [item for sent in many for item in faults.apply(sent)]

    assert left(7) == left(7) != left(8)
    assert 0.985 < len(left(7)) / len(many) < 0.995


def test_datagrams_are_spared_unless_a_fault_is_about_them() -> None:
    datagram = bytearray(_ack(_GUEST, _NATIVE))
    datagram[42] = 0x64
    assert Faults(Fault(Action.DROP)).apply(bytes(datagram)) == [bytes(datagram)]
    assert Faults(Fault(Action.DROP, about=frames.is_roce)).apply(bytes(datagram)) == []


def test_a_cable_is_out() -> None:
    faults = Faults(cable_out(_NATIVE))
    for lost in (_ack(_GUEST, _NATIVE), _ack(_NATIVE, _GUEST), _text(_ALL, _NATIVE, "arp")):
        assert faults.apply(lost) == []
    assert faults.apply(_ack(_THIRD, _GUEST)) == [_ack(_THIRD, _GUEST)]


def test_what_is_delivered_is_recorded(hub: Hub, stations: tuple[_Station, ...], tmp_path: Path) -> None:
    capture = Pcap(tmp_path / "some.pcap", bytes_max=3 * len(_ACKS[0]))
    hub.set_capture(capture)
    _through(Faults(Fault(Action.DROP, nth(1))), hub, stations, _ACKS)
    hub.set_capture(None)
    capture.close()
    data, recorded = (tmp_path / "some.pcap").read_bytes(), []
    at = 24
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        recorded.append(data[at + 16:at + 16 + size])
        at += 16 + size
    assert recorded == _ACKS[1:4] and capture.left_out == 3
