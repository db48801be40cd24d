"""VMs move from one shard of their host to another while they talk to VMs of this host and of another one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from conftest import make_fleet
from fleet.checker import Checker
from fleet.fleet import Fleet
from fleet.loads import under_way, wait_until_they_flow
from fleet.until import until
from harness import programs
from test_motion import migrate

_NAMES = ("VM-01", "VM-02", "VM-03")
_MOVES = 15
_GIDS = "/pvrdma/v1/live/gid/"
_ADDRESSES = itertools.count(60, 2)  # a checker has two


@pytest.fixture(scope="module")
def two_shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with two shards each. VM-02 is on esx-02, the others on esx-01. All are off."""
    with make_fleet("shard-moves", tmp_path_factory.mktemp("shards"), shards=2) as fleet:
        fleet.follow_the_guide()
        fleet.define_vm("VM-03", 1)
        yield fleet


def _shard_of(fleet: Fleet, number: int, vm: str) -> int:
    shards = fleet[number].ctl("system", "shard", "list")["shards"]
    (found,) = (each["number"] for each in shards if vm in each["adapters"])
    return int(found)


def _checker(fleet: Fleet, a: str, b: str) -> Checker:
    """With GIDs that no checker had before: a host learns a moment after the store that another VM's GID is free."""
    return fleet.checker(a, b, "--first-address", str(next(_ADDRESSES)))


def _recorded(fleet: Fleet, vm: str) -> list[int]:
    """On which shard each of the VM's GIDs is, as other hosts know it."""
    holders = [json.loads(value) for _, value in fleet.etcd.records(_GIDS)]
    return [each.get("shard", 0) for each in holders if each["port"] == vm]


def _move(fleet: Fleet, number: int, vm: str) -> None:
    """Moves the VM to the other shard of its host. Returns when other hosts can know."""
    before = _shard_of(fleet, number, vm)
    gids = len(until("the records of its GIDs", lambda: _recorded(fleet, vm)))
    answer = fleet[number].ctl("adapter", "shard", "set", vm, "--shard", str(1 - before))
    assert (answer["from"], answer["to"]) == (before, 1 - before)
    assert _shard_of(fleet, number, vm) == 1 - before
    until("the new records", lambda: _recorded(fleet, vm), accept=lambda shards: shards == [1 - before] * gids)


def _timeouts(fleet: Fleet) -> dict[str, int]:
    """How many time limits of requests have run out, by adapter."""
    adapters = [each for host in fleet.hosts.values() for each in host.ctl("stats")["adapters"]]
    return {each["name"]: int(each["verbs"]["timeouts"]) for each in adapters}


def _lanes_up(fleet: Fleet) -> list[int]:
    return [int(peer["lanes_up"]) for host in fleet.hosts.values() for peer in host.ctl("cluster", "get")["tcp"]["peers"]]


def test_lanes_of_other_shards_are_dialled_when_they_are_needed(two_shards: Fleet) -> None:
    """VM-03 is on the second shard of its host, and VM-02 on the first of the other one."""
    until("the lanes between the first shards", lambda: _lanes_up(two_shards), accept=lambda lanes: lanes == [two_shards.lanes] * 2)
    with _checker(two_shards, "VM-03", "VM-02") as checker:
        assert (_shard_of(two_shards, 1, "VM-03"), _shard_of(two_shards, 2, "VM-02")) == (1, 0)
        checker.advance()
        until("the lanes that the checker needs", lambda: _lanes_up(two_shards), accept=lambda lanes: lanes == [2 * two_shards.lanes] * 2)


@pytest.mark.parametrize("peer", ["VM-02", "VM-03"])
@pytest.mark.parametrize("moving", [1, 2], ids=["requester", "responder"])
def test_each_request_is_executed_once(two_shards: Fleet, peer: str, moving: int) -> None:
    """Far more moves than a guest could change its GIDs' records in that time. No request waits for its time limit of 1 s."""
    pair = ("VM-01", peer) if moving == 1 else (peer, "VM-01")
    with _checker(two_shards, *pair) as checker:
        before = _timeouts(two_shards)
        for _ in range(_MOVES):
            _move(two_shards, 1, "VM-01")
            checker.advance()
        assert _timeouts(two_shards) == before
    print(checker.outcome)


def test_both_vms_of_a_connection_move(two_shards: Fleet) -> None:
    with _checker(two_shards, "VM-01", "VM-02") as checker:
        for _ in range(_MOVES // 2):
            _move(two_shards, 1, "VM-01")
            _move(two_shards, 2, "VM-02")
            checker.advance()


def test_a_vm_stays_while_its_record_cannot_be_written(two_shards: Fleet) -> None:
    with _checker(two_shards, "VM-01", "VM-02") as checker:
        checker.advance()
        shard = _shard_of(two_shards, 1, "VM-01")
        two_shards.etcd.kill()
        try:
            until("the store is missed", lambda: not two_shards[1].ctl("cluster", "get")["store"]["connected"])
            refusal = two_shards[1].refusal("adapter", "shard", "set", "VM-01", "--shard", str(1 - shard))
            assert "VM VM-01 stays on its shard while the store cannot be reached" in refusal
            checker.advance()
        finally:
            two_shards.etcd.start()
        until("the store is back", lambda: two_shards[1].ctl("cluster", "get")["store"]["connected"])
        _move(two_shards, 1, "VM-01")
        checker.advance()


def test_a_vm_that_comes_back_comes_to_its_shard(two_shards: Fleet) -> None:
    with _checker(two_shards, "VM-01", "VM-02"):
        _move(two_shards, 1, "VM-01")
        shard = _shard_of(two_shards, 1, "VM-01")
    until("the VMs are off", lambda: not two_shards.etcd.records("/pvrdma/v1/live/power/"))
    two_shards[1].ctl("vm", "set", "VM-01", "--host", "esx-02")
    until("it has left", lambda: "VM-01" not in [each["name"] for each in two_shards[1].ctl("adapter", "list")])
    two_shards[1].ctl("vm", "set", "VM-01", "--host", "esx-01")
    until("it is back", lambda: "VM-01" in [each["name"] for each in two_shards[1].ctl("adapter", "list")])
    assert _shard_of(two_shards, 1, "VM-01") == shard


def test_guests_do_not_notice(two_shards: Fleet) -> None:
    """Nor does a vMotion or a restart of the daemon mind that a VM was moved."""
    services = [host.become_service() for host in two_shards.hosts.values()]
    one, two, three = two_shards.boot(*_NAMES)
    loads_of = {"VM-01": (programs.exactly_once_load(""), two, one), "VM-03": (programs.rping_load(), one, three),
                "VM-02": (programs.perftest_load("ib_send_bw", port=18600), three, two)}

    def bytes_moved() -> dict[str, int]:
        adapters = [each for host in two_shards.hosts.values() for each in host.ctl("adapter", "list")]
        return {each["name"]: int(each["tx_bytes"]) + int(each["rx_bytes"]) for each in adapters}

    with under_way(loads_of) as loads:
        for vm, number in (("VM-01", 1), ("VM-03", 1), ("VM-02", 2), ("VM-01", 1), ("VM-03", 1), ("VM-01", 1)):
            wait_until_they_flow(loads, bytes_moved)
            _move(two_shards, number, vm)
        wait_until_they_flow(loads, bytes_moved)
        services[0].call("restart")
        until("the adapters are back", lambda: {each["name"]: each["state"] for each in two_shards[1].ctl("adapter", "list")},
              accept=lambda seen: seen == {"VM-01": "active", "VM-03": "active"})
        wait_until_they_flow(loads, bytes_moved)
        _move(two_shards, 1, "VM-01")
        wait_until_they_flow(loads, bytes_moved)
        for origin, destination in ((1, 2), (2, 1)):
            motion = migrate(two_shards, "VM-01", origin, destination)
            assert motion["state"] == "done", motion
            wait_until_they_flow(loads, bytes_moved)
            _move(two_shards, destination, "VM-01")
            wait_until_they_flow(loads, bytes_moved)
