"""Faults under load. rc_checker proves that no request is lost or executed twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fleet.checker import Checker
from fleet.fleet import Fleet
from fleet.until import until

_LONG_TIMEOUT = ("--timeout", "18")  # up to 4.3 s, seven retries: enough for a pause of some seconds


@pytest.fixture
def checker(shared_fleet: Fleet) -> Iterator[Checker]:
    """A checker whose GIDs are in the store. Completed rounds alone may depend on the hosts' knowledge of the
    last checker's GIDs."""

    def bound() -> list[tuple[str, str]]:
        return shared_fleet.etcd.records("/pvrdma/v1/live/gid/")

    until("the last checker's GIDs are gone", lambda: not bound())
    with shared_fleet.checker("VM-01", "VM-02", *_LONG_TIMEOUT) as running:
        until("the store has both VMs' GIDs", lambda: all(any(vm in holder for _, holder in bound()) for vm in ("VM-01", "VM-02")))
        running.advance()
        yield running
        running.advance()


@pytest.mark.parametrize("seconds", [1, 5])
def test_the_cable_is_pulled(shared_fleet: Fleet, checker: Checker, seconds: int) -> None:
    shared_fleet.network.cut("esx-02")
    time.sleep(seconds)
    shared_fleet.network.mend("esx-02")


def test_packets_vanish_for_longer_than_the_keep_alive(shared_fleet: Fleet, checker: Checker) -> None:
    """Connections are cut without a notice. They are made again, and traffic resumes."""
    before = shared_fleet[1].ctl("cluster", "get")["tcp"]["peers"][0]["reconnects"]
    shared_fleet.network.block("esx-02", True)
    until("the lanes are down", lambda: shared_fleet[1].ctl("cluster", "get")["tcp"]["peers"][0]["lanes_up"] == 0)
    shared_fleet.network.block("esx-02", False)
    checker.advance()
    assert shared_fleet[1].ctl("cluster", "get")["tcp"]["peers"][0]["reconnects"] > before


@pytest.mark.parametrize("percent", [1, 10])
def test_packets_are_lost(shared_fleet: Fleet, checker: Checker, percent: int) -> None:
    shared_fleet.network.lose("esx-02", percent)
    try:
        checker.advance(30, guard_s=120)
    finally:
        shared_fleet.network.lose("esx-02", 0)


def test_the_daemons_lose_messages(shared_fleet: Fleet) -> None:
    """Faults by pvrdmactl fault, at both ends, which are then removed."""
    with shared_fleet.checker("VM-01", "VM-02", "--timeout", "14") as checker:
        checker.advance()
        for number in (1, 2):
            shared_fleet[number].ctl("fault", "add", "--adapter", f"VM-0{number}", "--drop", "0.01", "--seed", "7")
        checker.advance(50, guard_s=120)
        for number in (1, 2):
            until("messages are lost", lambda host=shared_fleet[number]: host.ctl("fault", "list")[0]["counts"]["dropped"] >= 5)
            (fault,) = shared_fleet[number].ctl("fault", "list")
            assert fault["counts"]["messages"] > 10 * fault["counts"]["dropped"], fault
            shared_fleet[number].ctl("fault", "remove", "--adapter", f"VM-0{number}")
            assert shared_fleet[number].ctl("fault", "list") == []
        checker.advance()


def test_the_network_is_slow(shared_fleet: Fleet, checker: Checker) -> None:
    with shared_fleet.network.narrowed("esx-02", "20mbit"):
        checker.advance(20, guard_s=120)


def test_the_peer_daemon_stands_still(shared_fleet: Fleet, checker: Checker) -> None:
    shared_fleet[2].pause()
    time.sleep(2)
    shared_fleet[2].resume()


def test_the_address_of_a_host_changes(shared_fleet: Fleet, checker: Checker) -> None:
    """Another vmk with another address is tagged, and the connections move there."""
    two = shared_fleet[2]
    shared_fleet.network.readdress("esx-02", "", "10.77.0.102")
    two.ctl("network", "ip", "interface", "add", "-i", "vmk3", "--address", "10.77.0.102")
    for vmk in ("vmk3", "vmk2"):
        two.ctl("system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic", "-s", vmk)
        checker.advance()
    two.ctl("network", "ip", "interface", "remove", "-i", "vmk3")


def test_the_link_of_an_adapter_goes_down_and_up(shared_fleet: Fleet, checker: Checker) -> None:
    two = shared_fleet[2]
    two.ctl("adapter", "set", "VM-02", "--link", "down")
    assert checker.stands_still()
    two.ctl("adapter", "set", "VM-02", "--link", "up")


def test_etcd_is_killed(shared_fleet: Fleet, checker: Checker) -> None:
    """Traffic continues, changes are refused with a clear sentence, and the daemons catch up by themselves."""
    one = shared_fleet[1]
    shared_fleet.etcd.kill()
    try:
        until("the store is missed", lambda: not one.ctl("cluster", "get")["store"]["connected"])
        assert shared_fleet.etcd.endpoint in one.ctl("cluster", "get")["store"]["trouble"]
        assert f"TROUBLE  store: {one.ctl('cluster', 'get')['store']['description']} cannot be reached: " in one.ctl_outcome("doctor")[1]
        assert "store" in one.refusal("dvs", "create", "Late")
        checker.advance()
    finally:
        shared_fleet.etcd.start()
    until("the store is back", lambda: all(host.ctl("cluster", "get")["store"]["connected"]
                                           for host in shared_fleet.hosts.values()))
    one.ctl("dvs", "create", "Late")
    until("the other host knows", lambda: [dvs for dvs in shared_fleet[2].ctl("dvs", "list") if dvs["name"] == "Late"])
    shared_fleet[2].ctl("dvs", "delete", "Late")


def test_etcd_stalls_for_longer_than_the_lease(shared_fleet: Fleet, checker: Checker) -> None:
    """All live records lapse. Traffic does not notice, and afterwards all hosts are alive again."""
    shared_fleet.etcd.pause()
    try:
        until("the store is missed", lambda: not shared_fleet[1].ctl("cluster", "get")["store"]["connected"])
        time.sleep(7)  # the lease is 5 s
        checker.advance()
    finally:
        shared_fleet.etcd.resume()
    until("both are alive", lambda: all(host["alive"] for viewer in shared_fleet.hosts.values()
                                        for host in viewer.ctl("host", "list")))
    checker.advance()
    until("both VMs are on", lambda: {vm["power"] for vm in shared_fleet[1].ctl("vm", "list")} == {"on"})


def test_one_host_alone_loses_the_store(shared_fleet: Fleet, checker: Checker) -> None:
    """Its lease runs out and it counts as dead, but the connections to it are up, so traffic continues."""
    one = shared_fleet[1]
    shared_fleet.network.hide_store("esx-02", True)
    try:
        until("esx-02 counts as dead", lambda: not one.ctl("host", "get", "esx-02")["alive"])
        checker.advance()
    finally:
        shared_fleet.network.hide_store("esx-02", False)
    until("esx-02 lives", lambda: one.ctl("host", "get", "esx-02")["alive"], guard_s=60)
    checker.advance()


def test_a_killed_daemon_comes_back(shared_fleet: Fleet) -> None:
    """kill -9: the connections of its VM end with an error on the other side. After a restart everything works
    again."""
    with pytest.raises(AssertionError):
        with shared_fleet.checker("VM-01", "VM-02", "--timeout", "14") as checker:
            checker.advance()
            shared_fleet[2].kill()
            checker.advance(1000)
    until("esx-02 counts as dead", lambda: not shared_fleet[1].ctl("host", "get", "esx-02")["alive"])
    assert shared_fleet[1].running
    (shared_fleet[2].folder / "VM-02.sock").unlink()  # kill -9 of a daemon leaves it behind
    shared_fleet[2].start()
    until("esx-02 lives", lambda: shared_fleet[1].ctl("host", "get", "esx-02")["alive"])
    with shared_fleet.checker("VM-01", "VM-02") as checker:
        checker.advance()


def test_a_daemon_of_the_same_name_is_refused(shared_fleet: Fleet) -> None:
    """Two hosts with one name: the second ends at its start and says why; the first does not notice."""
    one = shared_fleet[1]
    twin = type(one)(one.name, one.address, shared_fleet.network,
                     f'type = "etcd"\nendpoints = ["{shared_fleet.etcd.endpoint}"]\nlease_s = 5',
                     shared_fleet.folder / "twin", shared_fleet.make_folder("twin-logs"))
    twin.start(wait=False)
    try:
        assert twin.wait_end(30) == 2
        assert "esx-01" in twin.logged() and "alive" in twin.logged(), twin.logged()
    finally:
        twin.close()
    with shared_fleet.checker("VM-01", "VM-02") as checker:
        checker.advance()


def test_contradictory_edits_at_once(shared_fleet: Fleet) -> None:
    """Both hosts often create a switch with the same name at the same time. Each time one succeeds, and the other
    gets an error."""
    from concurrent.futures import ThreadPoolExecutor

    def create(number: int, name: str) -> str:
        try:
            shared_fleet[number].ctl("dvs", "create", name)
            return "made"
        except AssertionError as refused:
            return str(refused)

    with ThreadPoolExecutor(4) as pool:
        for round_number in range(5):
            name = f"Contested-{round_number}"
            answers = list(pool.map(lambda number: create(number, name), (1, 2, 1, 2)))
            assert answers.count("made") == 1, answers
            assert all(name in answer for answer in answers if answer != "made"), answers
            shared_fleet[2].ctl("dvs", "delete", name)
