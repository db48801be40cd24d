"""A guest with a virtual IOMMU (QEMU's intel-iommu). By default Linux gives such a device addresses of its own, page by
page: QEMU shares each page as one map."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from harness import cases
from harness.channel import GuestLost
from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.programs import exactly_once, perftest
from harness.rdma import wait_active
from harness.vm import VmSpec
from testbed import ensure

_MIB = 1 << 20
# Memory regions of 32 MiB, of which each page is a map: more than an adapter may have beside the driver's own.
_LARGE = perftest("ib_write_bw", "-s 16777216 -n 5", (16777216,), gid_index=1)
_TROUBLE = (r"the VMM could not share all of its guest's memory: DMA map of 0x1000 bytes at 0x[0-9a-f]+: there are 8192 maps of memory "
            r"already \(boot a guest that has a virtual IOMMU with iommu=pt, give a virtio-mem device a larger block-size\)")


class _Guests(Ensemble):
    """Two VMs with adapters. The first one has this IOMMU, and these arguments of its kernel."""

    def __init__(self, logs: Path, iommu: str, *kernel_arguments: str) -> None:
        self._iommu = iommu
        self._kernel_arguments = kernel_arguments
        super().__init__(logs)

    def _adapters(self) -> list[Adapter]:
        return [Adapter(f"VM-0{index}", self._run / f"vm-0{index}.sock", f"52:54:00:12:34:5{index}", hardware_version=18)
                for index in (1, 2)]

    def _start(self) -> None:
        plain = [VmSpec(adapter.name, f"192.168.11.5{index}", f"fd00:11::5{index}", adapter.mac, adapter=adapter.socket)
                 for index, adapter in enumerate(self.daemon.adapters, 1)]
        translated = dataclasses.replace(plain[0], devices=("-device", self._iommu), kernel_arguments=self._kernel_arguments)
        self._start_vms(ensure(), [translated, plain[1]])
        for vm in self.vms:
            wait_active(vm)

    def exchange(self) -> None:
        """Both are client and server once."""
        for server, client in (self.vms, self.vms[::-1]):
            cases.run(exactly_once("-n 100"), server, client)

    def trouble(self) -> str:
        """What `adapter get` says of the first VM."""
        shown = self.daemon.ctl("adapter", "get", "VM-01")["trouble"]
        assert isinstance(shown, str)
        return shown

    def shared_mib(self) -> int:
        """How much memory the first VM's QEMU shares."""
        return int(self.daemon.ctl("adapter", "get", "VM-01")["memory_bytes"]) // _MIB


def test_what_the_guest_maps_works_and_too_much_is_told(logs: Path) -> None:
    with _Guests(logs / "iommu", "intel-iommu,caching-mode=on") as guests:
        first, second = guests.vms
        assert guests.shared_mib() < 64 < first.spec.memory_mib, "QEMU shares only what the guest has mapped"
        guests.exchange()
        assert guests.trouble() == ""
        with pytest.raises(AssertionError, match="Couldn't allocate MR"):
            cases.run(_LARGE, second, first)
        assert re.fullmatch(_TROUBLE, guests.trouble())
        with pytest.raises(RuntimeError, match=f"TROUBLE  adapter VM-01: {_TROUBLE}"):
            guests.daemon.ctl_text("doctor")
        guests.exchange()


@pytest.mark.full
def test_a_guest_that_passes_addresses_through_has_no_such_bound(logs: Path) -> None:
    with _Guests(logs / "iommu-pt", "intel-iommu,caching-mode=on", "iommu=pt") as guests:
        first, second = guests.vms
        assert guests.shared_mib() >= first.spec.memory_mib
        cases.run(_LARGE, second, first)
        guests.exchange()


@pytest.mark.full
def test_qemu_says_what_an_iommu_without_caching_mode_lacks(logs: Path) -> None:
    guests = _Guests(logs / "iommu-no-caching", "intel-iommu")
    with pytest.raises(GuestLost, match="VM-01 ended while it started"), guests:
        pass
    assert "device 00.10.1 requires caching mode" in guests.vms[0].qemu_log.read_text(encoding="utf-8")
