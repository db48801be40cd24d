"""The ward of a host takes the VMs of its cluster while they talk to VMs of another host.

A host with one shard has the ward as shard 1.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator

import pytest

from conftest import make_fleet
from fleet.asleep import asleep
from fleet.checker import Checker
from fleet.fleet import Fleet
from fleet.loads import under_way, wait_until_they_flow
from fleet.until import until
from harness import programs
from test_motion import migrate

_SHARD, _WARD = 0, 1
_MOVES = 6
_ADDRESSES = itertools.count(60, 2)  # a checker has two
_MOVED = r"adapter VM-01: moved from shard 0 to shard 1, in \d+ us: that is the ward: twice within a minute it kept the other adapters waiting"


@pytest.fixture(scope="module")
def warded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """VM-01 and VM-03 are on esx-01, VM-02 and VM-04 on esx-02. All are off, and on the shard of their host. A test must leave
    it so."""
    with make_fleet("ward", tmp_path_factory.mktemp("ward"), shards=1) as fleet:
        fleet.follow_the_guide()
        fleet.define_vm("VM-03", 1)
        fleet.define_vm("VM-04", 2)
        yield fleet


def _places(fleet: Fleet, number: int = 1) -> list[list[str]]:
    """The adapters of the shard and of the ward."""
    shards = fleet[number].ctl("system", "shard", "list")["shards"]
    assert [each["is_ward"] for each in shards] == [False, True]
    return [sorted(each["adapters"]) for each in shards]


def _put(fleet: Fleet, vm: str, shard: int) -> None:
    """Moves a VM of esx-01. Returns when other hosts can know."""
    answer = fleet[1].ctl("adapter", "shard", "set", vm, "--shard", str(shard))
    assert answer["to"] == shard
    until("the new records", lambda: _recorded(fleet, vm), accept=lambda shards: shards <= {shard})


def _recorded(fleet: Fleet, vm: str) -> set[int]:
    """On which shards the VM's GIDs are, as other hosts know it."""
    holders = [json.loads(value) for _, value in fleet.etcd.records("/pvrdma/v1/live/gid/")]
    return {each.get("shard", 0) for each in holders if each["port"] == vm}


def _checker(fleet: Fleet, a: str, b: str, *options: str) -> Checker:
    """With GIDs that no checker had before: a host learns a moment after the store that another VM's GID is free."""
    return Checker(fleet.socket_of(a), fleet.socket_of(b), fleet.logs / f"rc_checker-{a}.log", "--first-address", str(next(_ADDRESSES)), *options)


def _ward_moves(fleet: Fleet) -> int:
    return int(fleet[1].ctl("stats")["host"]["placement"]["ward_moves"])


def test_other_hosts_count_the_ward(warded: Fleet) -> None:
    hosts = {key.rpartition("/")[2]: json.loads(value) for key, value in warded.etcd.records("/pvrdma/v1/live/host/")}
    assert {name: host["shards"] for name, host in hosts.items()} == {"esx-01": 2, "esx-02": 2}


@pytest.mark.parametrize("peer", ["VM-02", "VM-03"])
@pytest.mark.parametrize("requests", [True, False], ids=["requester", "responder"])
def test_each_request_is_executed_once(warded: Fleet, peer: str, requests: bool) -> None:
    with _checker(warded, *(("VM-01", peer) if requests else (peer, "VM-01"))) as checker:
        for _ in range(_MOVES):
            _put(warded, "VM-01", _WARD)
            assert _places(warded) == [["VM-03"], ["VM-01"]]
            checker.advance()
            _put(warded, "VM-01", _SHARD)
            checker.advance()
    print(checker.outcome)


def test_the_peers_of_two_wards_talk(warded: Fleet) -> None:
    with _checker(warded, "VM-01", "VM-02") as checker:
        _put(warded, "VM-01", _WARD)
        warded[2].ctl("adapter", "shard", "set", "VM-02", "--shard", str(_WARD))
        assert _places(warded, 2) == [["VM-04"], ["VM-02"]]
        checker.advance()
        _put(warded, "VM-01", _SHARD)
        warded[2].ctl("adapter", "shard", "set", "VM-02", "--shard", str(_SHARD))
        checker.advance()


def test_a_vm_whose_vmm_makes_the_thread_sleep_is_moved_there_and_stays(warded: Fleet) -> None:
    """Guest, peer and a neighbour see no error. It is in the ward when it is powered on again, and when it comes back to the host."""
    before = _ward_moves(warded)
    with _checker(warded, "VM-03", "VM-04") as neighbours, _checker(warded, "VM-01", "VM-02", "--punch-holes") as checker:
        until("it is in the ward", lambda: _places(warded), accept=lambda places: places == [["VM-03"], ["VM-01"]])
        checker.advance()
        neighbours.advance()
    print(checker.outcome, neighbours.outcome)
    assert re.search(_MOVED, warded[1].logged())
    assert any(re.search(_MOVED, each["text"]) for each in warded[1].ctl("events")["events"])
    assert _ward_moves(warded) == before + 1
    until("it is off", lambda: not warded.etcd.records("/pvrdma/v1/live/power/"))
    assert _places(warded) == [["VM-03"], ["VM-01"]]
    with _checker(warded, "VM-01", "VM-02") as checker:
        checker.advance()
        assert _places(warded) == [["VM-03"], ["VM-01"]]
    until("it is off", lambda: not warded.etcd.records("/pvrdma/v1/live/power/"))
    warded[1].ctl("vm", "set", "VM-01", "--host", "esx-02")
    until("it has left", lambda: _places(warded), accept=lambda places: places == [["VM-03"], []])
    warded[1].ctl("vm", "set", "VM-01", "--host", "esx-01")
    until("it is back", lambda: _places(warded), accept=lambda places: places == [["VM-03"], ["VM-01"]])
    _put(warded, "VM-01", _SHARD)
    assert _places(warded) == [["VM-01", "VM-03"], []]


def test_nobody_waits_for_a_ward_that_sleeps(warded: Fleet) -> None:
    """For longer than the lanes' keep-alive. Its own VM goes on when it wakes up."""
    late = "the shard did not answer in time"
    with _checker(warded, "VM-03", "VM-04") as neighbours, _checker(warded, "VM-01", "VM-02", "--timeout", "22", "--patience", "60") as checker:
        _put(warded, "VM-01", _WARD)
        checker.advance()
        assert _places(warded) == [["VM-03"], ["VM-01"]], "which is shown while it sleeps"
        with asleep(warded[1].pid, f"shard-{_WARD}"):
            began = time.monotonic()
            warded.define_vm("VM-05", 1)
            warded.socket_of("VM-05")
            assert f"shard {_WARD}, the ward: {late}" in warded[1].refusal("adapter", "shard", "set", "VM-01", "--shard", str(_SHARD))
            assert f"shard {_WARD}, the ward: {late}" in warded[1].refusal("adapter", "shard", "set", "VM-03", "--shard", str(_WARD))
            shard, ward = warded[1].ctl("system", "shard", "list")["shards"]
            assert (shard["trouble"], ward["adapters"]) == ("", ["VM-01"]) and "does not answer" in ward["trouble"]
            warded[1].ctl_text("vm", "delete", "VM-05")
            until("it is gone", lambda: warded[1].ctl("adapter", "list"), accept=lambda seen: {each["name"] for each in seen} == {"VM-01", "VM-03"})
            took = time.monotonic() - began
            neighbours.advance()
            time.sleep(max(0.0, 5 - took))
            assert checker.stands_still()
        checker.advance()
        _put(warded, "VM-01", _SHARD)
        checker.advance()
        neighbours.advance()
    print(f"{took:.1f} s", checker.outcome, neighbours.outcome)


def test_guests_do_not_notice(warded: Fleet) -> None:
    """A VM of the ward outlives the daemon, which deals it out again. A vMotion takes it out of the ward, and back into it."""
    service = warded[1].become_service()
    one, two = warded.boot("VM-01", "VM-02")

    def bytes_moved() -> dict[str, int]:
        adapters = [each for host in warded.hosts.values() for each in host.ctl("adapter", "list")]
        return {each["name"]: int(each["tx_bytes"]) + int(each["rx_bytes"]) for each in adapters if each["name"] in warded.vms}

    with under_way({"VM-01": (programs.exactly_once_load(""), one, two)}) as loads:
        _put(warded, "VM-01", _WARD)
        wait_until_they_flow(loads, bytes_moved)
        service.call("restart")
        until("it is back", lambda: _places(warded), accept=lambda places: places == [["VM-01", "VM-03"], []])
        wait_until_they_flow(loads, bytes_moved)
        _put(warded, "VM-01", _WARD)
        for origin, destination in ((1, 2), (2, 1)):
            motion = migrate(warded, "VM-01", origin, destination)
            assert motion["state"] == "done", motion
            wait_until_they_flow(loads, bytes_moved)
        assert _places(warded) == [["VM-03"], ["VM-01"]]
        _put(warded, "VM-01", _SHARD)
        wait_until_they_flow(loads, bytes_moved)
    for name in ("VM-01", "VM-02"):
        warded.vms[name].close()


def test_a_vm_whose_network_has_a_roce_link_stays_on_its_shard(own_fleet: Fleet) -> None:
    own_fleet.follow_the_guide()
    own_fleet.link_roce(1, "VM-01")
    own_fleet.socket_of("VM-01")
    refusal = own_fleet[1].refusal("adapter", "shard", "set", "VM-01", "--shard", str(own_fleet.shards))
    assert "VM VM-01 has to be on the first shard, which has the RoCE link of its network" in refusal
