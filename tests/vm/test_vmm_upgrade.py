"""VMs that continue in another QEMU while their connections are busy (`pvrdmactl vm upgrade-vmm`)."""

from __future__ import annotations

import pytest

from harness import cases
from harness.cluster import Cluster
from harness.programs import exactly_once_load, perftest_load, rping_load
from harness.rdma import DEVICE, wait_active
from harness.under_way import wait_until_it_flows
from harness.vm import Vm

_MOVES = 4

_PINGPONG = cases.Case("pingpong", server=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0",
                       client=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0 {{server}}", expect=(r"^\d+ bytes in",))


def _upgrade(cluster: Cluster, vm: Vm) -> dict[str, int]:
    """Lets `vm` continue in a new QEMU. Returns the daemon's report."""
    pid = vm.start_successor()
    vm.outlive_qemu()  # the successor may be connected only when the earlier QEMU has ended
    report = cluster.daemon.ctl("vm", "upgrade-vmm", vm.name)
    vm.follow_successor()
    assert report["to"]["pid"] == pid, report
    return report


@pytest.mark.parametrize("case", [
    exactly_once_load(""),
    rping_load(),
    *(pytest.param(perftest_load(program, arguments), marks=pytest.mark.full) for program, arguments in (
        ("ib_send_lat", "-e -n 1000000"), ("ib_write_bw", "-b --run_infinitely -D 2"), ("ib_read_bw", "--run_infinitely -D 2"),
        ("ib_atomic_bw", "--run_infinitely -D 2"))),
], ids=cases.name)
def test_load_goes_on(pair: Cluster, case: cases.Case) -> None:
    server, client = pair.vms
    with cases.under_way(case, server, client) as load:
        for number in range(_MOVES):
            wait_until_it_flows(pair, client, load)
            _upgrade(pair, pair.vms[number % 2])
        wait_until_it_flows(pair, client, load)


@pytest.mark.full
def test_everything_else_goes_on(pair: Cluster) -> None:
    first, second = pair.vms
    for _ in range(2):
        report = _upgrade(pair, first)
        assert 0 < report["pause_us"] and 0 < report["state_bytes"], report
        cases.run(_PINGPONG, first, second)
        cases.run(_PINGPONG, second, first)
    first.check("rmmod vmw_pvrdma")
    first.check("modprobe vmw_pvrdma")
    wait_active(first)
    cases.run(_PINGPONG, first, second)
    _upgrade(pair, first)
    first.reboot()
    wait_active(first)
    cases.run(_PINGPONG, first, second)


def _refused(cluster: Cluster, vm: Vm) -> str:
    with pytest.raises(RuntimeError) as refused:
        cluster.daemon.ctl("vm", "upgrade-vmm", vm.name)
    return str(refused.value)


def test_the_vm_stays_where_it_is(pair: Cluster) -> None:
    first, second = pair.vms
    assert "no new QEMU waits at" in _refused(pair, first)
    first.start_successor()
    first.kill_successor()
    assert "the VM goes on in the old QEMU" in _refused(pair, first)
    cases.run(_PINGPONG, first, second)
    first.start_successor(without_adapter=True)
    assert "has not connected to the adapter VM-01" in _refused(pair, first)
    first.end_successor()
    cases.run(_PINGPONG, first, second)
    _upgrade(pair, first)
    cases.run(_PINGPONG, second, first)
