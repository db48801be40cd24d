"""Native endpoints on two hosts, with the rules that `dvs roce-rules` prints on each: adapters of two independent
clusters, and adapters of one cluster in which a record comes late.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from fleet.bridge import Bridge, lone_hosts
from fleet.checker import Checker
from fleet.ethernet import arp, wire
from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until
from harness.daemon import REPOSITORY
from harness.native_daemons import MACS
from harness.tap import Frames, tap

_LOGS = REPOSITORY / "build" / "cluster-logs"
_EVERYBODY = "ff:ff:ff:ff:ff:ff"
_NATIVE = {("roce", "no port of the cluster holds the GID")}
_MTU = 1500
_STALE = 100  # frames


@dataclass(frozen=True)
class Side:
    """A host with its bridge and its VM's NIC."""

    bridge: Bridge
    nic: Frames
    mac: str

    def ways(self) -> set[tuple[str, str]]:
        """The paths in use, with their reasons."""
        return {(path["path"], path["reason"]) for path in self.bridge.host.ctl("path", "list")}

    def dropped(self, reason: str) -> int:
        """How many frames the path roce has dropped for this reason."""
        return int(self.bridge.host.ctl("stats")["host"]["roce_dropped"][reason])


@contextmanager
def _side(bridge: Bridge, mac: str, switch: str, link: str) -> Iterator[Side]:
    """Sets up the rules and the link, and restarts the daemon."""
    with tap(bridge.space, "tap1") as nic:
        bridge.plug("tap1")
        if link != "tap:pvroce0":  # the rules find it already made
            bridge.run("ip", "link", "add", "pvroce0", "type", "veth", "peer", "name", link.partition(":")[2], "mtu", str(_MTU))
            bridge.run("ip", "link", "set", "dev", link.partition(":")[2], "up")
        bridge.rules()
        bridge.host.stop()
        bridge.host.add_lines(f'[[roce]]\nlink = "{link}"\nswitch = "{switch}"')
        bridge.host.start()
        until("native endpoints can be reached", lambda: {each["native_endpoints"] for each in bridge.host.ctl("adapter", "list")
                                                          if each["mac"] == mac}, accept=lambda states: states == {"on"})
        yield Side(bridge, nic, mac)


@contextmanager
def _joined(bridges: list[Bridge], switch: str, link: str = "tap:pvroce0") -> Iterator[tuple[Side, Side]]:
    """Connects the uplinks to one Ethernet and sends from the VMs' NICs, so that all three bridges know where
    they are."""
    space = ("ip", "-n", bridges[0].wire_space, "link")
    subprocess.run([*space, "add", "cable", "type", "bridge", "mcast_snooping", "0"], check=True)
    subprocess.run([*space, "set", "dev", "cable", "up"], check=True)
    for bridge in bridges:
        subprocess.run([*space, "set", "dev", bridge.far_end, "master", "cable", "up"], check=True)
    with _side(bridges[0], MACS[0], switch, link) as one, _side(bridges[1], MACS[1], switch, link) as two:
        for said, heard in ((one, two), (two, one)):
            hello = arp(_EVERYBODY, said.mac)
            said.nic.send(hello)
            assert heard.nic.take(1, lambda frame, hello=hello: frame == hello)
        yield one, two


@contextmanager
def _untouched(*sides: Side) -> Iterator[None]:
    """Checks that no frame reaches the VMs' NICs and that the bridges' tables do not change."""
    before = [(side.bridge.table(), side.bridge.delivered("tap1")) for side in sides]
    for side in sides:
        assert side.bridge.ports_of(side.mac) == ["tap1"]
    yield
    assert [(side.bridge.table(), side.bridge.delivered("tap1")) for side in sides] == before
    assert [side.nic.arrived() for side in sides] == [[] for _ in sides]


@pytest.mark.parametrize("link", ["tap:pvroce0", "xdp:pvroce1"])
def test_adapters_of_two_clusters(link: str) -> None:
    logs = _LOGS / f"native-hosts-{link.partition(':')[0]}"
    with lone_hosts(list(MACS), logs, _MTU) as bridges, _joined(bridges, "Switch", link) as sides, _untouched(*sides):
        sockets = [bridge.host.folder / "VM-01.sock" for bridge in bridges]
        with Checker(*sockets, logs / "rc_checker.log") as checker:
            checker.advance()
            for side in sides:
                assert side.ways() == _NATIVE
            checker.advance(500)
        assert checker.outcome is not None
        requester, responder = (side.bridge.host.ctl("stats")["host"]["roce"] for side in sides)
        assert requester["requests"] >= 4 * checker.outcome.rounds
        assert responder["responses"] > 0
        for side in sides:
            assert [side.dropped(reason) for reason in ("icrc", "foreign_source", "not_allowed", "bad_address")] == [0] * 4


def _bridges_of(fleet: Fleet) -> list[Bridge]:
    """The bridges of VM-11 on esx-01 and VM-12 on esx-02, which may reach native endpoints."""
    fleet.follow_the_guide()
    fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--native-endpoints", "on")
    bridges = []
    for number, mac in enumerate(MACS, 1):
        vm = f"VM-1{number}"
        fleet.define_vm(vm, number, "--mac", mac)
        bridges.append(Bridge(fleet[number], fleet.network, SWITCH, vm, _MTU))
        bridges[-1].make()
    return bridges


@pytest.mark.parametrize("late", ["esx-01", "esx-02"])
def test_a_native_endpoint_turns_out_to_be_a_port_of_the_cluster(own_fleet: Fleet, late: str) -> None:
    """One host cannot reach the store, so neither learns the other's GIDs. Later they do: the connections
    continue by TCP, and later RoCE frames in the endpoint's name are ignored.
    """
    fleet = own_fleet
    with _joined(_bridges_of(fleet), SWITCH) as (one, two), _untouched(one, two), \
            wire(one.bridge.wire_space, one.bridge.far_end) as cable:
        fleet.network.hide_store(late, True)
        with fleet.checker("VM-11", "VM-12", "--timeout", "18") as checker:
            checker.advance()
            assert one.ways() == two.ways() == _NATIVE
            to_one_from_two = bytes.fromhex("".join(MACS).replace(":", ""))
            stale = cable.take(_STALE, lambda frame: frame.startswith(to_one_from_two))[:_STALE]
            assert len(stale) == _STALE

            fleet.network.hide_store(late, False)
            for side in (one, two):
                until("the cluster's way is taken", side.ways, accept=lambda ways: {path for path, _ in ways} == {"tcp"})
            checker.advance()
            _expect_dropped(one, "foreign_source", stale, cable)
            checker.advance()
        _expect_dropped(one, "unknown_gid", stale, cable)  # both adapters are off


@pytest.mark.full
@pytest.mark.parametrize("link", ["tap:pvroce0", "xdp:pvroce1"])
@pytest.mark.parametrize("percent", [0, 1, 5])
def test_it_turns_out_while_frames_are_lost_and_no_lane_stands(own_fleet: Fleet, link: str, percent: int) -> None:
    """Requests under way by RoCE wait until there is TCP. Then all continue, and each is executed once."""
    fleet = own_fleet
    with _joined(_bridges_of(fleet), SWITCH, link) as sides, _untouched(*sides):
        for host in fleet.hosts:
            fleet.network.hide_store(host, True)
        if percent > 0:
            for side in sides:
                side.bridge.lose(percent)
        with fleet.checker("VM-11", "VM-12", "--timeout", "18", "--connections", "16", "--block", "50000") as checker:
            checker.advance(100)
            assert sides[0].ways() == sides[1].ways() == _NATIVE
            fleet.network.block("esx-01", True)
            until("the lanes are down", lambda: [host.ctl("cluster", "get")["tcp"]["peers"][0]["lanes_up"] for host in fleet.hosts.values()],
                  accept=lambda lanes: lanes == [0, 0])
            checker.advance(100)
            for host in fleet.hosts:
                fleet.network.hide_store(host, False)
            for side in sides:
                until("RoCE is not the way any more", side.ways, accept=lambda ways: not ways & _NATIVE)
            assert checker.stands_still()
            fleet.network.block("esx-01", False)
            for side in sides:
                until("the cluster's way is taken", side.ways, accept=lambda ways: {path for path, _ in ways} == {"tcp"})
            checker.advance(500)


def _expect_dropped(side: Side, reason: str, frames: list[bytes], cable: Frames) -> None:
    """Checks that the frames arrive and that each is dropped for this reason."""
    before = side.dropped(reason)
    for frame in frames:
        cable.send(frame)
    until(f"frames are dropped: {reason}", lambda: side.dropped(reason), accept=lambda count: count == before + len(frames))
