"""A guest's RDMA device: its state and settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harness.vm import DEVICE, Vm

__all__ = ["DEVICE", "active_mtu", "jumbo_frames", "wait_active"]
_ACTIVE_GUARD_S = 20


def wait_active(vm: Vm, device: str | None = None, netdev: str = "eth0") -> None:
    """Waits until the device exists, its port is active, and its GIDs (the addresses of `netdev`) are usable.

    The driver's probe and the NIC's link come in either order. During duplicate address detection of an IPv6 address, the
    kernel refuses to move a QP with its GID to RTR.
    """
    port = f"/sys/class/infiniband/{device or vm.rdma_device}/ports/1/state"
    ready = f'grep -qs ACTIVE {port} && [ -z "$(ip -6 address show dev {netdev} tentative)" ]'
    vm.check(f"n=0; until {ready}; do n=$((n + 1)); [ $n -lt {_ACTIVE_GUARD_S * 10} ] || "
             f"{{ echo '{port}:'; cat {port}; ip address; dmesg | tail -20; exit 1; }}; sleep 0.1; done",
             _ACTIVE_GUARD_S * 2)


def active_mtu(vm: Vm) -> int:
    """The port's active MTU in bytes, as its programs see it."""
    return int(vm.check(f"ibv_devinfo -d {vm.rdma_device} | sed -n 's/.*active_mtu:[[:space:]]*\\([0-9]*\\).*/\\1/p'"))


@contextmanager
def jumbo_frames(*vms: Vm) -> Iterator[None]:
    """Gives the VMs' NICs the MTU 9000: rdma_cm takes the path MTU from them, not from the port."""
    with ExitStack() as undo:
        for vm in vms:
            vm.check("ip link set eth0 mtu 9000")
            undo.callback(vm.check, "ip link set eth0 mtu 1500")
        for vm in vms:
            wait_active(vm)
        yield
