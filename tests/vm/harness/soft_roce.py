"""Soft-RoCE (overlay "rxe"): Linux's own RoCE endpoint, which is independent of the daemon. Works in any guest
with a NIC."""

from __future__ import annotations

import json

from harness import rdma
from harness.vm import Vm, VmSpec

DEVICE = "rxe0"
_ADD = "modprobe rdma_rxe && rdma link add {device} type rxe netdev {netdev}"
# Counters that stay 0 on a wire without loss. A late answer can raise the first three, because the peer repeats.
REPETITIONS = ("duplicate_request", "completer_retry_err", "out_of_seq_request", "rcvd_seq_err")
# An option of exactly_once, for every load with reads that Soft-RoCE serves. As a responder it never answers a repeated
# read of no bytes. If its newest request had no bytes, it takes a repeated read for one without bytes, too: its kernel
# warns in rxe_mr_copy(), it refuses the read with a remote access error, and its QP fails (Linux 6.12, read_reply() in
# rxe_resp.c). A late answer is enough for a repetition, so any load may meet this on a busy machine.
NO_EMPTY = "-o"


def spec(index: int, overlays: tuple[str, ...] = ()) -> VmSpec:
    """RXE-01 with 192.168.11.61, fd00:11::61 and so on, without an adapter. Not with a vmxnet3, which drops
    frames when its ring is full."""
    octet = 60 + index
    return VmSpec(name=f"RXE-{index:02d}", address=f"192.168.11.{octet}", address6=f"fd00:11::{octet}", mac=f"52:54:00:12:34:{octet}",
                  overlays=("rxe", *overlays), load_driver=False, rdma_device=DEVICE, nic="virtio-net-pci")


def add_device(vm: Vm, netdev: str = "eth0") -> None:
    """Makes the device on a NIC of the VM and waits until it can be used."""
    vm.check(_ADD.format(device=DEVICE, netdev=netdev))
    rdma.wait_active(vm, DEVICE, netdev)


def counters(vm: Vm) -> dict[str, int]:
    """The device's counters, by their names in `rdma statistic`."""
    shown = json.loads(vm.check(f"rdma -j statistic show link {DEVICE}/1"))[0]
    return {name: value for name, value in shown.items() if name not in ("ifindex", "ifname", "port")}


def counted(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """The increments between the two readings, without zeros."""
    return {name: value - before[name] for name, value in after.items() if value != before[name]}
