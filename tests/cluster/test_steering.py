"""The rules that `dvs roce-rules` prints, carried out on a host's bridge: RoCE frames for a VM go to the port of pvrdmad and
nowhere else, all other frames to the VM's NIC, and what pvrdmad sends in the VM's name moves nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fleet.ethernet import Frames, arp, ethernet, tap, udp4, udp6, wire
from fleet.host import Host
from fleet.network import Network, address_of
from fleet.until import until
from harness import process
from harness.daemon import REPOSITORY

_NAME = "esx-01"
_LOGS = REPOSITORY / "build" / "cluster-logs" / "steering"
_GUEST = "52:54:00:00:00:01"
_PEER = "52:54:00:00:00:02"
_EVERYBODY = "ff:ff:ff:ff:ff:ff"
_ROCE_PORT = 4791
_BURST = 2000


class Bridge:
    """br0 of the host, with eth2 as its uplink; the peer is at the other end of eth2's cable."""

    def __init__(self, host: Host, network: Network) -> None:
        self.host = host
        self.network = network
        self.space = network.inside(_NAME)[3]
        self.wire_space = network.inside()[3]

    def run(self, *command: str, text: str | None = None) -> str:
        """What a command in the host's namespace prints."""
        done = subprocess.run([*self.network.inside(_NAME), *command], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def rules(self, *options: str) -> None:
        """Carries out what is printed, as an administrator would."""
        printed = self.host.ctl_text("dvs", "roce-rules", "Switch", _NAME, "--bridge", "br0", "--taps", "VM-01=tap1",
                                     "--user", "root", *options)
        assert self.run("sh", "-e", text=printed) == ""

    def plug(self, device: str) -> None:
        """Makes a device a port."""
        self.run("ip", "link", "set", "dev", device, "mtu", "9000", "master", "br0", "up")

    def delivered(self, device: str) -> int:
        """How many frames were handed to whoever holds a tap."""
        links = json.loads(self.run("ip", "-j", "-s", "link", "show", "dev", device))
        return int(links[0]["stats64"]["tx"]["packets"])

    def ports_of(self, mac: str) -> list[str]:
        """Where the bridge believes that a MAC is."""
        entries = json.loads(self.run("bridge", "-j", "fdb", "show", "br", "br0"))
        return [entry["ifname"] for entry in entries if entry["mac"] == mac]


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    shutil.rmtree(_LOGS, ignore_errors=True)
    _LOGS.mkdir(parents=True)
    network = Network([_NAME])
    host = Host(_NAME, address_of(1), network, f'type = "sqlite"\npath = "{folder}/store.db"', folder / "host", _LOGS)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.callback(network.close)
        network.open()
        stack.callback(lambda: print(process.tail(host.log)))  # pytest shows it when the test has failed
        stack.callback(host.close)
        host.start()
        host.ctl("dvs", "create", "Switch")
        host.ctl("dvs", "portgroup", "add", "Switch", "PG", "--mtu", "9000", "--native-endpoints", "on")
        host.ctl("dvs", "add-host", "Switch", _NAME)
        host.ctl("vm", "create", "VM-01", "--host", _NAME, "--hw", "18", "--memory", "512", "--reserve", "all", "--portgroup", "PG",
                 "--mac", _GUEST)
        made = Bridge(host, network)
        for space in (network.inside(_NAME), network.inside()):  # nothing but the test says anything
            subprocess.run([*space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"],
                           check=True)
        subprocess.run([*network.inside(), "ip", "link", "set", "dev", "spare1", "nomaster", "mtu", "9000"], check=True)
        made.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        made.run("ip", "link", "set", "dev", "br0", "mtu", "9000", "up")
        made.plug("eth2")
        yield made


def _roce_frames(count: int) -> list[bytes]:
    """For the guest, of the three kinds, each another; some as long as MTU 4096 makes them."""
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
    """The guest says something: the bridge knows where it is."""
    hello = arp(_EVERYBODY, _GUEST)
    guest.send(hello)
    assert peer.take(1, _is_from(_GUEST)) == [hello]
    assert bridge.ports_of(_GUEST) == ["tap1"]


def _reaches(source: Frames, frames: list[bytes], target: Frames) -> None:
    """All of them and in order, and byte by byte."""
    for begin in range(0, len(frames), 256):
        part = frames[begin:begin + 256]
        for frame in part:
            source.send(frame)
        assert target.take(len(part), _is_from(_PEER)) == part


def test_roce_goes_to_the_port_and_all_else_to_the_guest(bridge: Bridge) -> None:
    with wire(bridge.wire_space, "spare1") as peer, tap(bridge.space, "tap1") as guest:
        bridge.plug("tap1")
        _introduce(bridge, guest, peer)
        _reaches(peer, _roce_frames(6), guest)  # what the rules are for

        bridge.rules()
        with tap(bridge.space, "pvroce0") as port:
            known = bridge.ports_of(_GUEST)
            before = bridge.delivered("tap1")
            _reaches(peer, _roce_frames(_BURST), port)
            assert bridge.delivered("tap1") == before, "under load the guest's tap stands still"
            assert guest.arrived() == []

            _reaches(peer, _other_frames(), guest)
            assert not list(filter(_is_from(_PEER), port.arrived()))

            # What we send under the guest's MAC gets out, comes back to nobody, and moves nothing.
            sent = [udp4(_PEER, _GUEST, _ROCE_PORT, i.to_bytes(4, "big") * 64) for i in range(200)]
            for frame in sent:
                port.send(frame)
            assert peer.take(len(sent), _is_from(_GUEST)) == sent
            assert bridge.ports_of(_GUEST) == known == ["tap1"]
            _reaches(peer, _other_frames(), guest)
            assert not list(filter(_is_from(_PEER), port.arrived()))

            # While the bridge does not know where the guest is, it tells everybody but us, and the guest's rule tells us.
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
    with wire(bridge.wire_space, "spare1") as peer:
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
        with tap(bridge.space, "pvroce0"):  # somebody else has it
            bridge.host.start()
            until("the link is told", natives, accept=lambda text: text.startswith("off: tap:pvroce0 is down: "))
        until("the link is what it has to be", natives, accept=lambda text: text == "on")
        bridge.run("ip", "link", "set", "dev", "pvroce0", "mtu", "1500")
        assert "MTU 1500" in natives() and "4192" in natives()
        bridge.run("ip", "link", "set", "dev", "pvroce0", "mtu", "9000", "down")
        assert natives() == "off: the network device pvroce0 is down: ip link set dev pvroce0 up"
        bridge.host.ctl("dvs", "portgroup", "set", "Switch", "PG", "--native-endpoints", "off")
        until("the port group forbids it", natives, accept=lambda text: text == "off: its port group does not allow them")
