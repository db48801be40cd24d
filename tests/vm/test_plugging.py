"""Adapters that come and go while the guest runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import expect_healthy_kernels
from harness import cases
from harness.cases import Case
from harness.cluster import Cluster, Setup
from harness.rdma import DEVICE, wait_active
from harness.vm import Vm

_PINGPONG = Case("pingpong", server=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0",
                 client=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0 {{server}}", expect=(r"^\d+ bytes in",))
_GUARD_S = 120.0


def _adapter(cluster: Cluster, vm: Vm) -> dict[str, str]:
    return next(adapter for adapter in cluster.daemon.ctl("adapter", "list") if adapter["name"] == vm.name)


def _wait(until: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _GUARD_S
    while not until():
        assert time.monotonic() < deadline, f"not after {_GUARD_S:g} s: {what}"
        time.sleep(0.2)


@pytest.mark.full
def test_an_adapter_is_plugged_into_a_running_guest_and_unplugged(logs: Path) -> None:
    with Cluster(Setup(), logs / "plugged", first_starts_bare=True) as cluster:
        first, second = cluster.vms
        assert DEVICE not in first.run("ls /sys/class/infiniband").output
        first.plug_adapter()
        _wait(lambda: first.run("ip link set eth0 up").exit_code == 0, "the NIC is there")
        first.check(f"ip address add {first.address}/24 dev eth0; ip address add {first.address6}/64 dev eth0 nodad")
        wait_active(first)
        cases.run(_PINGPONG, first, second)
        cases.run(_PINGPONG, second, first)
        expect_healthy_kernels(cluster)
        # Stock QEMU ends by an assertion of its own when a vfio-user device goes. Daemon and peer see a VM that leaves.
        first.unplug_adapter()
        _wait(lambda: _adapter(cluster, first)["state"] == "off", "the adapter has no VM any more")
        cases.run(_PINGPONG, second, second)
