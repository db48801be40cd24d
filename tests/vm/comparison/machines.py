"""Two VMs, each with an adapter whose doorbells are trapped, one whose doorbells are mapped, and Soft-RoCE.

One daemon serves the four adapters. Soft-RoCE runs on a separate virtio-net link from one QEMU to the other, so that
neither the test harness nor another device is between them. Only the contender that is being measured has a verbs process.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from harness import rdma, soft_roce
from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.vm import FIRST_SLOT, Vm, VmSpec, slot
from testbed import ensure

HARDWARE_VERSION = 18
_MAPPED_SLOT = 0x11
_RECONNECT_MS = 100
_NETDEV_OF_MAC = "basename $(dirname $(grep -l {mac} /sys/class/net/*/address))"
_DEVICE_OF_SLOT = "ls /sys/bus/pci/devices/0000:00:{slot:x}.1/infiniband"


@dataclass(frozen=True)
class Contender:
    """One of the three in both VMs: `key` in the JSON, `title` in the table; its IPv4 network and the end of its MACs."""

    key: str
    title: str
    network: str
    mac: str

    def address(self, index: int) -> str:
        """Its address in VM `index` (1, 2)."""
        return f"{self.network}.{50 + index}"

    def mac_of(self, index: int) -> str:
        """Its NIC's MAC in VM `index`."""
        return f"52:54:00:12:{self.mac}:{50 + index}"


TRAPPED = Contender("trapped", "trapped", "192.168.11", "34")
MAPPED = Contender("mapped", "mapped", "192.168.12", "35")
SOFT_ROCE = Contender("soft_roce", "Soft-RoCE", "192.168.13", "36")
CONTENDERS = (TRAPPED, MAPPED, SOFT_ROCE)


@dataclass(frozen=True)
class Device:
    """A contender in one VM: its verbs device and the index of its IPv4 address among the GIDs."""

    name: str
    gid_index: int


class Machines(Ensemble):
    """The two VMs, with all contenders' devices ready for use."""

    def __init__(self, suite: str, logs: Path) -> None:
        self._suite = suite
        self._devices: dict[tuple[str, str], Device] = {}
        super().__init__(logs)

    def device(self, vm: Vm, contender: Contender) -> Device:
        """The contender's device in that VM."""
        return self._devices[vm.name, contender.key]

    def _adapters(self) -> list[Adapter]:
        return [Adapter(f"VM-{index:02d}-{contender.key}", self._socket(index, contender), contender.mac_of(index),
                        HARDWARE_VERSION, doorbells=contender.key)
                for index in (1, 2) for contender in (TRAPPED, MAPPED)]

    def _start(self) -> None:
        self._start_vms(ensure(self._suite), [self._spec(index) for index in (1, 2)])
        for index, vm in enumerate(self.vms, 1):
            for contender in CONTENDERS:
                self._devices[vm.name, contender.key] = _bring_up(vm, index, contender)

    def _spec(self, index: int) -> VmSpec:
        mapped = slot(_MAPPED_SLOT, self._link(index, MAPPED), MAPPED.mac_of(index), self._socket(index, MAPPED))
        soft = ["-netdev", f"stream,id=soft,{self._link(index, SOFT_ROCE)}",
                "-device", f"virtio-net-pci,netdev=soft,mac={SOFT_ROCE.mac_of(index)},romfile="]
        return VmSpec(name=f"VM-{index:02d}", address=TRAPPED.address(index), address6=f"fd00:11::{50 + index}",
                      mac=TRAPPED.mac_of(index), adapter=self._socket(index, TRAPPED), overlays=("rxe",),
                      devices=(*mapped, *soft))

    def _socket(self, index: int, contender: Contender) -> Path:
        return self._run / f"vm-{index:02d}-{contender.key}.sock"

    def _link(self, index: int, contender: Contender) -> str:
        """One end of a link from QEMU to QEMU."""
        end = "server=on" if index == 1 else f"server=off,reconnect-ms={_RECONNECT_MS}"
        return f"{end},addr.type=unix,addr.path={self._run}/{contender.key}.link"


def _bring_up(vm: Vm, index: int, contender: Contender) -> Device:
    """Gives the contender's NIC its address, if the guest's init did not, and waits until its device is usable."""
    netdev = vm.check(_NETDEV_OF_MAC.format(mac=contender.mac_of(index))).strip()
    if contender is not TRAPPED:
        vm.check(f"ip address add {contender.address(index)}/24 dev {netdev} && ip link set {netdev} up")
    if contender is SOFT_ROCE:
        soft_roce.add_device(vm, netdev)
        name = soft_roce.DEVICE
    else:
        name = vm.check(_DEVICE_OF_SLOT.format(slot=_MAPPED_SLOT if contender is MAPPED else FIRST_SLOT)).strip()
        rdma.wait_active(vm, name, netdev)
    return Device(name, _gid_index(vm, name, contender.address(index)))


def _gid_index(vm: Vm, device: str, address: str) -> int:
    gid = IPv6Address(f"::ffff:{address}").exploded
    gids = f"/sys/class/infiniband/{device}/ports/1/gids"
    return int(vm.check(f"basename $(grep -l {gid} {gids}/* | head -1)"))
