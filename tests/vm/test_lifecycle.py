"""Drivers, guests and VMs that disappear and come back, idle and under load."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from harness import cases
from harness.cases import Case
from harness.channel import GuestLost
from harness.cluster import Cluster
from harness.rdma import DEVICE, wait_active
from harness.vm import Job, Vm

_PINGPONG = Case("pingpong", server=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0",
                 client=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0 {{server}}", expect=(r"^\d+ bytes in",))
# perftest reports IBV_WC_RETRY_EXC_ERR, InfiniBand's status for a peer that no longer answers.
_RETRY_EXCEEDED = "status 12"
_LOAD = f"ib_write_bw -x 0 -F -b -d {DEVICE} -D 300"
_LOAD_GUARD_S = 60.0
_FLOWING_BYTES = 16 << 20


def _transmitted_bytes(cluster: Cluster) -> dict[str, int]:
    return {adapter["name"]: int(adapter["tx_bytes"]) for adapter in cluster.daemon.ctl("adapter", "list")}


def _received_bytes(cluster: Cluster, vm: Vm) -> int:
    return next(int(adapter["rx_bytes"]) for adapter in cluster.daemon.ctl("adapter", "list") if adapter["name"] == vm.name)


def _start_load(cluster: Cluster) -> tuple[Job, Job]:
    """Both VMs write to each other for minutes. Returns the first and the second VM's job once data flows in both
    directions."""
    server, client = cluster.vms
    before = _transmitted_bytes(cluster)
    server_job = server.start_job(_LOAD)
    server.check("await-listener tcp 18515 20")
    client_job = client.start_job(f"{_LOAD} {server.address}")
    deadline = time.monotonic() + _LOAD_GUARD_S
    while any(after < before[name] + _FLOWING_BYTES for name, after in _transmitted_bytes(cluster).items()):
        assert not client_job.done, client_job.wait().output
        assert time.monotonic() < deadline, f"no load after {_LOAD_GUARD_S:g} s: {client_job.output_so_far()}"
        time.sleep(0.1)
    return server_job, client_job


def test_driver_reload(pair: Cluster) -> None:
    first, second = pair.vms
    for _ in range(3):
        first.check("rmmod vmw_pvrdma")
        assert DEVICE not in first.run("ls /sys/class/infiniband").output
        first.check("modprobe vmw_pvrdma")
        wait_active(first)
        cases.run(_PINGPONG, first, second)


def _reboot(vm: Vm) -> None:
    vm.reboot()


def _kill_and_start(vm: Vm) -> None:
    vm.kill()
    vm.start()
    vm.wait_ready()


@pytest.mark.parametrize("restart", [_reboot, _kill_and_start], ids=["reboot", "kill-9"])
def test_a_vm_goes_under_load_and_comes_back(pair: Cluster, restart: Callable[[Vm], None]) -> None:
    victim, peer = pair.vms
    victim_job, peer_job = _start_load(pair)
    restart(victim)
    with pytest.raises(GuestLost):
        victim_job.wait()
    failed = peer_job.wait(60)
    assert failed.exit_code != 0 and _RETRY_EXCEEDED in failed.output, failed.output
    cases.run(_PINGPONG, peer, peer)  # the peer's adapter still works
    wait_active(victim)
    cases.run(_PINGPONG, victim, peer)
    cases.run(_PINGPONG, peer, victim)
    _expect_no_leftovers(pair)


def test_a_process_killed_under_load_leaves_nothing_behind(pair: Cluster) -> None:
    victim, peer = pair.vms
    victim_job, peer_job = _start_load(pair)
    victim_job.kill()
    failed = peer_job.wait(60)
    assert failed.exit_code != 0, failed.output
    cases.run(_PINGPONG, victim, peer)
    _expect_no_leftovers(pair)


@pytest.mark.full
def test_a_guest_without_bus_mastering_is_not_written(pair: Cluster) -> None:
    """Linux clears Bus Master Enable before a kexec, so that no peer writes into the memory of the next kernel."""
    victim, peer = pair.vms
    victim_job, peer_job = _start_load(pair)
    victim.check("kill -STOP $(pidof ib_write_bw)")  # its kernel would complain about a device that refuses commands
    before = _received_bytes(pair, victim)
    time.sleep(0.5)
    assert _received_bytes(pair, victim) > before
    device = victim.check(f"readlink -f /sys/class/infiniband/{DEVICE}/device").strip()
    victim.check(f"printf '\\002' | dd of={device}/config bs=1 seek=4 conv=notrunc status=none")
    before = _received_bytes(pair, victim)
    time.sleep(0.5)
    assert _received_bytes(pair, victim) == before
    failed = peer_job.wait(60)
    assert failed.exit_code != 0 and _RETRY_EXCEEDED in failed.output, failed.output
    _expect_no_leftovers(pair)
    victim.reboot()
    with pytest.raises(GuestLost):
        victim_job.wait()
    wait_active(victim)
    cases.run(_PINGPONG, victim, peer)
    cases.run(_PINGPONG, peer, victim)


@pytest.mark.full
def test_powered_off_peer(pair: Cluster) -> None:
    victim, peer = pair.vms
    cases.run(_PINGPONG, victim, peer)
    victim.power_off()
    cases.run(_PINGPONG, peer, peer)
    victim.start()
    victim.wait_ready()
    wait_active(victim)
    cases.run(_PINGPONG, victim, peer)


@pytest.mark.last  # new VMs would have to boot for the tests after it
def test_daemon_stops_cleanly_with_guests_attached(pair: Cluster) -> None:
    assert pair.daemon.stop() == 0
    assert all(vm.running for vm in pair.vms)


def _expect_no_leftovers(cluster: Cluster) -> None:
    """The daemon has no QP except each adapter's GSI QP (number 1)."""
    left = [qp for qp in cluster.daemon.ctl("qp", "list") if int(qp["qpn"]) != 1]
    assert not left, f"QPs that outlived their programs: {left}"
