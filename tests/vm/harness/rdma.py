"""What the tests know about the guest's RDMA device."""

from __future__ import annotations

from harness.vm import Vm

DEVICE = "vmw_pvrdma0"
_ACTIVE_GUARD_S = 20


def wait_active(vm: Vm) -> None:
    """Waits until the device is there and its port active; the driver's probe and the NIC's link come in either order."""
    port = f"/sys/class/infiniband/{DEVICE}/ports/1/state"
    vm.check(f"n=0; until grep -qs ACTIVE {port}; do n=$((n + 1)); [ $n -lt {_ACTIVE_GUARD_S * 10} ] || "
             f"{{ echo '{port}:'; cat {port}; dmesg | tail -20; exit 1; }}; sleep 0.1; done", _ACTIVE_GUARD_S * 2)
