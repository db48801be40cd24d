"""The path hca with real libibverbs and Soft-RoCE: two daemons in one VM that share the device, and two daemons
in two VMs on a wire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import soft_roce
from harness.channel import Result
from harness.faults import Action, Fault, Faults, share
from harness.hca import HcaHosts, HcaMachine, HostInGuest, TwoHcaHosts, until
from harness.vm import Job

_ROUNDS = 100  # of each of four connections; takes some seconds under emulation
_GUARD_S = 120.0
_BOTH = "vmrdma0 of host esx-01 and vmrdma0 of host esx-02"
_ADD_DEVICE = f"rdma link add {soft_roce.DEVICE} type rxe netdev eth0"


@pytest.fixture(scope="module")
def shared_machine(logs: Path) -> Iterator[HcaMachine]:
    """The VM behind `machine`."""
    with HcaMachine(logs / "hca") as machine:
        yield machine


@pytest.fixture
def machine(shared_machine: HcaMachine) -> HcaMachine:
    """Waits until both hosts reach each other by their HCA."""
    _reaches_by(shared_machine, "hca")
    return shared_machine


def _counters(host: HostInGuest) -> dict[str, int]:
    """The counters of the host that are not 0: "hca requests" and so on."""
    lines = (line.split() for line in host.ctl("stats").splitlines())
    return {f"{words[1]} {words[2]}": int(words[3]) for words in lines if len(words) == 4 and words[3].isdecimal()}


def _peer_state(host: HostInGuest) -> dict[str, object]:
    """The state of the other host as a peer of the path hca, from `pvrdmactl cluster get`."""
    peers = host.ctl_json("cluster get")["hca"]["peers"]
    return peers[0] if peers else {"up": False, "trouble": "it is no peer"}


def _reaches_by(machine: HcaHosts, kind: str) -> None:
    for host in machine.hosts:
        until(f"{host.name} reaches its peer by {kind}", lambda host=host: bool(_peer_state(host)["up"]) == (kind == "hca"))


def _kill_second(machine: HcaHosts) -> None:
    """Kills the second host's daemon, waits until the first host notices, and starts it again."""
    first, second = machine.hosts
    second.end("KILL")
    until("it is missed", lambda: not _peer_state(first)["up"])
    second.start()
    _reaches_by(machine, "hca")
    until("its VM's socket is there", lambda: second.vm.run(f"test -S {second.socket}").exit_code == 0)


def _expect_no_error(job: Job) -> None:
    result: Result = job.wait(_GUARD_S)
    last = result.output.strip().splitlines()[-1]
    assert result.exit_code == 0 and json.loads(last)["errors"] == [], result.output[-2000:]


def test_the_device_is_listed_as_on_esxi(machine: HcaMachine) -> None:
    device = machine.hosts[0].ctl_json("rdma device list")[0]
    assert (device["name"], device["active"], device["paired_uplink"]) == ("vmrdma0", True, "vmnic0"), device


def test_the_device_is_measured(machine: HcaMachine) -> None:
    checked = machine.hosts[0].ctl_json("hca check --memory 16")
    assert checked["device"] == soft_roce.DEVICE and checked["mtu"] == 1024 and checked["max_reads"] == 128, checked
    for measured in ("register_untouched_us", "register_us", "sends", "send_bytes", "read_bytes", "long_read_bytes", "read_ns"):
        assert checked[measured] > 0, (measured, checked)
    assert "SEND 64 B" in machine.hosts[0].ctl("hca check --memory 16 -d rxe0")
    assert "this host has no RDMA device mlx5_0: there are rxe0" in machine.hosts[0].try_ctl("hca check -d mlx5_0")


def test_vms_of_two_hosts_talk_through_their_hcas(machine: HcaMachine) -> None:
    before = [_counters(host) for host in machine.hosts]
    watched = machine.start_checker(100 * _ROUNDS)
    until("all go by the HCA", lambda: {(kind, reason[:len(_BOTH)]) for kind, reason in machine.paths()} == {("hca", _BOTH)})
    machine.hosts[0].end_checker()
    _expect_no_error(watched)
    _expect_no_error(machine.start_checker(_ROUNDS))
    after = [_counters(host) for host in machine.hosts]
    for asks, lends, fetches in (("requests", 0, 1), ("answers to reads", 1, 0)):
        lent = after[lends]["hca lent"] - before[lends].get("hca lent", 0)
        assert lent > 0, f"{asks} of 64 KiB are lent"
        assert after[fetches]["hca fetched"] - before[fetches].get("hca fetched", 0) == lent, after
    assert [host.ctl_json(f"adapter get {host.vm_name}")["pinned_trouble"] for host in machine.hosts] == ["", ""]
    assert after[0]["hca requests"] - before[0].get("hca requests", 0) >= 4 * 4 * _ROUNDS
    assert after[1]["hca responses"] - before[1].get("hca responses", 0) >= 4 * 3 * _ROUNDS
    assert [counts.get("tcp requests", 0) for counts in after] == [counts.get("tcp requests", 0) for counts in before]


@pytest.mark.full
def test_vms_that_die_in_the_middle_take_nothing_along(machine: HcaMachine) -> None:
    """Their memory vanishes while the NIC reads and writes it. The NIC's access is stopped first, and later VMs
    find everything in order."""
    before = _counters(machine.hosts[1]).get("hca bulk_stops", 0)
    for _ in range(3):
        job = machine.start_checker(100 * _ROUNDS)
        fetched = _counters(machine.hosts[1]).get("hca fetched", 0)
        until("payload is fetched", lambda fetched=fetched: _counters(machine.hosts[1]).get("hca fetched", 0) > fetched)
        machine.vm.check("kill -KILL $(cat /run/checker.pid)")
        assert job.wait(_GUARD_S).exit_code != 0
    _expect_no_error(machine.start_checker(20))
    assert _counters(machine.hosts[1])["hca bulk_stops"] > before
    pinned = [host.ctl_json(f"adapter get {host.vm_name}")["pinned_bytes"] for host in machine.hosts]
    assert pinned == [0, 0], "nothing of an ended VM stays registered"


def test_a_device_that_goes_is_replaced_by_tcp_until_it_is_back(machine: HcaMachine) -> None:
    """The removal of the device waits until both daemons have closed it."""
    job = machine.start_checker(100 * _ROUNDS)
    until("hca", lambda: machine.paths() == {("hca", _BOTH)})
    machine.vm.check(f"rdma link delete {soft_roce.DEVICE}")
    until("tcp", lambda: {kind for kind, _ in machine.paths()} == {"tcp"})
    soft_roce.add_device(machine.vm)
    until("hca again", lambda: machine.paths() == {("hca", _BOTH)})
    assert not job.done, job.output_so_far()
    machine.hosts[0].end_checker()
    _expect_no_error(job)


@pytest.fixture
def of_two_shards(machine: HcaMachine) -> Iterator[HcaMachine]:
    """Both hosts have two shards. Their VMs are on the first ones, and the second ones have no pipes yet."""
    for host in machine.hosts:
        machine.restart(host, shards=2)
    _reaches_by(machine, "hca")
    yield machine
    for host in machine.hosts:
        machine.restart(host)


def test_each_shard_uses_the_hca(of_two_shards: HcaMachine) -> None:
    """VMs go to other shards while they exchange messages, then the device is lost and comes back."""
    machine = of_two_shards
    job = machine.start_checker(1000 * _ROUNDS)
    until("hca", lambda: machine.paths() == {("hca", _BOTH)})
    for moved, host in enumerate(machine.hosts, 1):
        host.ctl(f"adapter shard set {host.vm_name} --shard 1")
        until("hca", lambda: machine.paths() == {("hca", _BOTH)})
        before = _counters(machine.hosts[1])["hca fetched"]
        until(f"payload is fetched after {moved} moves", lambda before=before: _counters(machine.hosts[1])["hca fetched"] > before)
    machine.vm.check(f"rdma link delete {soft_roce.DEVICE}")
    until("tcp", lambda: {kind for kind, _ in machine.paths()} == {"tcp"})
    soft_roce.add_device(machine.vm)
    until("hca again", lambda: machine.paths() == {("hca", _BOTH)})
    assert [shard["adapters"] for shard in machine.hosts[0].ctl_json("system shard list")["shards"]] == [[], ["VM-01"]]
    assert not job.done, job.output_so_far()
    machine.hosts[0].end_checker()
    _expect_no_error(job)


@pytest.mark.full
def test_soft_iwarp_says_why_it_is_not_used(machine: HcaMachine) -> None:
    job = machine.start_checker(100 * _ROUNDS)
    machine.vm.check(f"rdma link delete {soft_roce.DEVICE}")
    machine.vm.check("modprobe siw && rdma link add siw0 type siw netdev eth0")
    until("it says why", lambda: machine.paths() == {("tcp", "vmrdma0 of host esx-01 is iWARP, vmrdma0 of host esx-02 is iWARP")})
    (device,) = machine.hosts[1].ctl_json("rdma device list")
    assert (device["device"], device["iwarp"], device["roce_v2"]) == ("siw0", True, False), device
    machine.vm.check("rdma link delete siw0")
    soft_roce.add_device(machine.vm)
    until("hca again", lambda: machine.paths() == {("hca", _BOTH)})
    assert not job.done, job.output_so_far()
    machine.hosts[0].end_checker()
    _expect_no_error(job)


@pytest.mark.full
def test_a_host_that_is_killed_is_reached_again(machine: HcaMachine) -> None:
    """The QPs of a killed process vanish with it; the other host learns that from its own QPs."""
    _kill_second(machine)
    _expect_no_error(machine.start_checker(_ROUNDS))


@pytest.mark.full
def test_an_admin_may_refuse_the_device(machine: HcaMachine) -> None:
    second = machine.hosts[1]
    for setting, why in (("enabled = false", "[hca] enabled is false on this host"),
                         ("require_encryption = true", "[hca] require_encryption is true on this host")):
        machine.restart(second, f"[hca]\n{setting}")
        until("it says so", lambda why=why: str(_peer_state(second)["trouble"]).startswith(why))
        until("its peer hears it", lambda: _peer_state(machine.hosts[0])["trouble"] == "its HCA is not active")
        _expect_no_error(machine.start_checker(20))
    machine.restart(second)


@pytest.mark.full
def test_a_user_without_locked_memory_falls_back(machine: HcaMachine) -> None:
    second = machine.hosts[1]
    machine.restart(second, limit_kib=64)
    until("it says why", lambda: "LimitMEMLOCK" in str(_peer_state(second)["trouble"]))
    _expect_no_error(machine.start_checker(20))
    machine.restart(second, limit_kib=6 * 1024)  # enough for pipes, but not for a VM
    _reaches_by(machine, "hca")
    job = machine.start_checker(100 * _ROUNDS)
    until("it says why its VM's memory is not pinned", lambda: "LimitMEMLOCK" in second.ctl(f"adapter get {second.vm_name}"))
    until("it is hca all the same", lambda: machine.paths() == {("hca", _BOTH)})
    machine.hosts[0].end_checker()
    _expect_no_error(job)
    assert _counters(second).get("hca fetched", 0) == 0, "in pieces"
    machine.restart(second)
    _reaches_by(machine, "hca")


@pytest.mark.full
def test_a_port_that_goes_down_is_replaced_by_tcp_until_it_is_up(logs: Path) -> None:
    with HcaMachine(logs / "hca-apart", apart=True) as machine:
        _reaches_by(machine, "hca")
        job = machine.start_checker(100 * _ROUNDS)
        until("hca", lambda: machine.paths() == {("hca", _BOTH)})
        for _ in range(2):
            machine.vm.check("ip link set eth0 down")
            until("tcp", lambda: {kind for kind, _ in machine.paths()} == {"tcp"})
            machine.vm.check("ip link set eth0 up")
            until("hca again", lambda: machine.paths() == {("hca", _BOTH)})
        assert not job.done, job.output_so_far()
        machine.hosts[0].end_checker()
        _expect_no_error(job)
        assert _counters(machine.hosts[0])["hca falls"] == 2


@pytest.fixture(scope="module")
def two_hosts(logs: Path) -> Iterator[TwoHcaHosts]:
    """A test must leave them as it found them."""
    with TwoHcaHosts(logs / "hca-two") as hosts:
        _reaches_by(hosts, "hca")
        yield hosts


@contextmanager
def _checked(hosts: TwoHcaHosts) -> Iterator[None]:
    """Traffic between the VMs during the block, without an error."""
    checkers = hosts.start_checkers()
    yield
    assert not any(job.done for job in checkers), [job.output_so_far()[-1000:] for job in checkers]
    hosts.hosts[0].end_checker()
    for job in checkers:
        _expect_no_error(job)


def _expect_return(hosts: TwoHcaHosts, lost: str) -> None:
    """For a block that removes the second host's device and adds it again. Connections use tcp meanwhile."""
    first, second = hosts.hosts
    job = second.vm.start_job(lost)
    until("it is missed", lambda: not _peer_state(first)["up"])
    assert job.wait(_GUARD_S).exit_code == 0, job.output_so_far()
    until("hca again", lambda: hosts.paths() == {("hca", _BOTH)})


@pytest.mark.full
def test_two_hosts_speak_to_each_other_over_a_wire(two_hosts: TwoHcaHosts) -> None:
    """A link that goes down and up on one side, a device that is removed, frames that are lost: each under
    traffic, and no data is lost."""
    with _checked(two_hosts):
        until("hca", lambda: two_hosts.paths() == {("hca", _BOTH)})
        _expect_return(two_hosts, "ip link set eth0 down && sleep 5 && ip link set eth0 up")
        _expect_return(two_hosts, f"rdma link delete {soft_roce.DEVICE} && sleep 3 && {_ADD_DEVICE}")
        two_hosts.hub.set_faults(Faults(Fault(Action.DROP, share(0.01, seed=5))))
        time.sleep(5)
        two_hosts.hub.set_faults(None)


@pytest.mark.full
def test_a_driver_that_is_unloaded_under_load_is_replaced_by_tcp(two_hosts: TwoHcaHosts) -> None:
    with _checked(two_hosts):
        until("hca", lambda: two_hosts.paths() == {("hca", _BOTH)})
        _expect_return(two_hosts, f"rdma link delete {soft_roce.DEVICE}; n=0; until rmmod rdma_rxe; do n=$((n + 1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done; "
                                  f"! test -d /sys/module/rdma_rxe && sleep 3 && modprobe rdma_rxe && {_ADD_DEVICE}")


@pytest.mark.full
def test_the_other_hosts_daemon_may_be_killed_or_lack_locked_memory(two_hosts: TwoHcaHosts) -> None:
    _kill_second(two_hosts)
    second = two_hosts.hosts[1]
    for limit_kib, kind in ((None, "hca"), (64, "tcp"), (6 * 1024, "hca"), (None, "hca")):
        two_hosts.restart(second, limit_kib=limit_kib)
        _reaches_by(two_hosts, kind)
        with _checked(two_hosts):
            until(kind, lambda kind=kind: {path for path, _ in two_hosts.paths()} == {kind})
            time.sleep(2)
