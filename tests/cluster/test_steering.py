"""The rules that `dvs roce-rules` prints, applied to a host's bridge: RoCE frames for a VM go only to pvrdmad's
port, all other frames go to the VM's NIC, and frames that pvrdmad sends in the VM's name do not change the
bridge's table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fleet.bridge import Bridge, lone_hosts
from fleet.ethernet import arp, ethernet, udp4, udp6, wire
from fleet.until import until
from harness.daemon import REPOSITORY
from harness.tap import Frames, tap

_LOGS = REPOSITORY / "build" / "cluster-logs" / "steering"
_GUEST = "52:54:00:00:00:01"
_PEER = "52:54:00:00:00:02"
_EVERYBODY = "ff:ff:ff:ff:ff:ff"
_ROCE_PORT = 4791
_BURST = 2000


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    with lone_hosts([_GUEST], _LOGS, mtu=9000) as bridges:
        yield bridges[0]


def _roce_frames(count: int) -> list[bytes]:
    """RoCE frames of all three kinds for the guest, all different; some have the length of MTU 4096."""
    frames = []
    for i in range(count):
        payload = i.to_bytes(4, "big") * (16 if i % 7 else 1040)
        frames.append((udp4(_GUEST, _PEER, _ROCE_PORT, payload), udp6(_GUEST, _PEER, _ROCE_PORT, payload),
                       ethernet(_GUEST, _PEER, 0x8915, payload))[i % 3])
    return frames


def _other_frames() -> list[bytes]:
    return [arp(_EVERYBODY, _PEER), arp(_GUEST, _PEER), udp4(_GUEST, _PEER, _ROCE_PORT - 1, b"other" * 9),
            udp6(_GUEST, _PEER, _ROCE_PORT + 1, b"other" * 9), ethernet(_GUEST, _PEER, 0x88B5, b"experimental")]


def _is_from(mac: str) -> Any:
    source = bytes.fromhex(mac.replace(":", ""))
    return lambda frame: frame[6:12] == source


def _introduce(bridge: Bridge, guest: Frames, peer: Frames) -> None:
    """The guest sends a frame, so that the bridge knows its port."""
    hello = arp(_EVERYBODY, _GUEST)
    guest.send(hello)
    assert peer.take(1, _is_from(_GUEST)) == [hello]
    assert bridge.ports_of(_GUEST) == ["tap1"]


def _reaches(source: Frames, frames: list[bytes], target: Frames) -> None:
    """Checks that all frames arrive in order and unchanged."""
    for begin in range(0, len(frames), 256):
        part = frames[begin:begin + 256]
        for frame in part:
            source.send(frame)
        assert target.take(len(part), _is_from(_PEER)) == part


def test_roce_goes_to_the_port_and_all_else_to_the_guest(bridge: Bridge) -> None:
    with wire(bridge.wire_space, bridge.far_end) as peer, tap(bridge.space, "tap1") as guest:
        bridge.plug("tap1")
        _introduce(bridge, guest, peer)
        _reaches(peer, _roce_frames(6), guest)  # the purpose of the rules

        bridge.rules()
        with tap(bridge.space, "pvroce0") as port:
            known = bridge.ports_of(_GUEST)
            before = bridge.delivered("tap1")
            _reaches(peer, _roce_frames(_BURST), port)
            assert bridge.delivered("tap1") == before, "under load the guest's tap stands still"
            assert guest.arrived() == []

            _reaches(peer, _other_frames(), guest)
            assert not list(filter(_is_from(_PEER), port.arrived()))

            # Frames that pvrdmad sends with the guest's MAC leave the host, return to no port, and do not change the
            # table.
            sent = [udp4(_PEER, _GUEST, _ROCE_PORT, i.to_bytes(4, "big") * 64) for i in range(200)]
            for frame in sent:
                port.send(frame)
            assert peer.take(len(sent), _is_from(_GUEST)) == sent
            assert bridge.ports_of(_GUEST) == known == ["tap1"]
            _reaches(peer, _other_frames(), guest)
            assert not list(filter(_is_from(_PEER), port.arrived()))

            # While the bridge does not know the guest's port, it floods frames to all ports except pvrdmad's, and the
            # guest's rule passes them to pvrdmad.
            bridge.run("bridge", "fdb", "del", _GUEST, "dev", "tap1", "master")
            _reaches(peer, _roce_frames(6), port)
            _reaches(peer, _other_frames(), guest)
            assert bridge.ports_of(_GUEST) == []
            assert not list(filter(_is_from(_PEER), port.arrived()))

        bridge.rules("--remove")
        assert "pvroce0" not in bridge.run("ip", "-br", "link")
        assert bridge.run("nft", "list", "ruleset") == ""
        _reaches(peer, _roce_frames(6), guest)


def test_a_vm_that_was_started_again_gets_its_rule_again(bridge: Bridge) -> None:
    with wire(bridge.wire_space, bridge.far_end) as peer:
        with tap(bridge.space, "tap1") as guest:
            bridge.plug("tap1")
            _introduce(bridge, guest, peer)
            bridge.rules()
        with tap(bridge.space, "pvroce0") as port, tap(bridge.space, "tap1") as guest:
            bridge.plug("tap1")
            _introduce(bridge, guest, peer)
            for _ in range(2):  # the second time nothing is missing
                bridge.rules()
                _reaches(peer, _roce_frames(60), port)
                _reaches(peer, _other_frames(), guest)


def test_the_daemon_says_what_its_link_lacks(bridge: Bridge) -> None:
    with tap(bridge.space, "tap1"):
        bridge.plug("tap1")
        bridge.rules()

        def natives() -> str:
            adapters = until("the adapter is served", lambda: bridge.host.ctl("adapter", "list"))
            return str(adapters[0]["native_endpoints"])

        assert natives() == "off: this host's configuration has no [[roce]] with its switch and VLAN"
        bridge.host.stop()
        bridge.host.add_lines('[[roce]]\nlink = "tap:pvroce0"\nswitch = "Switch"')
        with tap(bridge.space, "pvroce0"):  # another program holds it
            bridge.host.start()
            until("the link is told", natives, accept=lambda text: text.startswith("off: tap:pvroce0 is down: "))
        until("the link is what it has to be", natives, accept=lambda text: text == "on")
        bridge.run("ip", "link", "set", "dev", "pvroce0", "mtu", "1500")
        assert "MTU 1500" in natives() and "4192" in natives()
        bridge.run("ip", "link", "set", "dev", "pvroce0", "mtu", "9000", "down")
        assert natives() == "off: the network device pvroce0 is down: ip link set dev pvroce0 up"
        bridge.host.ctl("dvs", "portgroup", "set", "Switch", "PG", "--native-endpoints", "off")
        until("the port group forbids it", natives, accept=lambda text: text == "off: its port group does not allow them")
