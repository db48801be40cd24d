"""VMs that continue in another QEMU while their connections are busy (`pvrdmactl vm upgrade-vmm`)."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from harness import cases
from harness.cluster import Cluster
from harness.programs import exactly_once, perftest, rping
from harness.rdma import DEVICE, wait_active
from harness.vm import Vm

_MOVES_LEAST = 2
_MOVES_MOST = 6
_LOAD_GUARD_S = 90.0
_FLOWING_BYTES = 100_000

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


def _moved(cluster: Cluster, vm: Vm) -> int:
    adapter = cluster.daemon.ctl("adapter", "get", vm.name)
    return int(adapter["tx_bytes"]) + int(adapter["rx_bytes"])


def _flows(cluster: Cluster, vm: Vm, load: Future[object]) -> bool:
    """Waits until data flows. False: the load has ended."""
    before = _moved(cluster, vm)
    deadline = time.monotonic() + _LOAD_GUARD_S
    while _moved(cluster, vm) < before + _FLOWING_BYTES:
        if load.done():
            return False
        assert time.monotonic() < deadline, "no load"
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("case", [
    exactly_once("-n 60000"),
    rping(4000, arguments="-V -S 4000"),
    pytest.param(perftest("ib_send_lat", "-e -n 30000", (2,)), marks=pytest.mark.full),
    pytest.param(perftest("ib_write_bw", "-b -D 30", (65536,)), marks=pytest.mark.full),
    pytest.param(perftest("ib_read_bw", "-D 30", (65536,)), marks=pytest.mark.full),
    pytest.param(perftest("ib_atomic_bw", "-D 30", (8,)), marks=pytest.mark.full),
], ids=cases.name)
def test_load_goes_on(pair: Cluster, case: cases.Case) -> None:
    server, client = pair.vms
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(cases.run, case, server, client)
        moves = 0
        while moves < _MOVES_MOST and _flows(pair, client, load):
            _upgrade(pair, pair.vms[moves % 2])
            moves += 1
        load.result()
        assert moves >= _MOVES_LEAST, "the load was too short for this machine"


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
