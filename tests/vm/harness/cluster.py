"""N virtual machines on one Ethernet and one daemon: VM-01 is 192.168.11.51 and fd00:11::51, VM-02 .52, and so on.

Native endpoints, which have Soft-RoCE and no adapter, are RXE-01 with 192.168.11.61 and fd00:11::61, and so on.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness import process, rdma, soft_roce
from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.vm import Vm, VmSpec
from testbed import ensure


@dataclass(frozen=True)
class Setup:
    """What a cluster's VMs run: Debian suite (kernel and programs), VM hardware version, RoCE version and doorbell mode.

    None: the configuration does not set it (but see Daemon).
    """

    suite: str = "trixie"
    hardware_version: int = 18
    roce: str | None = None
    doorbells: str | None = None

    @property
    def id(self) -> str:
        """A short name for test ids and log folders."""
        parts = (self.suite, f"hw{self.hardware_version}", f"roce{self.roce}" if self.roce else "",
                 self.doorbells or "")
        return "-".join(part for part in parts if part)


class Cluster(Ensemble):
    """N such VMs, ready for use. With `with_adapters=False` they have only their vmxnet3, and there is no daemon.

    With `native_count` native endpoints the daemon is on the Ethernet, too; `mtu` applies to all machines' network. With
    `first_starts_bare` NIC and adapter are still to be plugged into the first VM.
    """

    def __init__(self, setup: Setup, logs: Path, vm_count: int = 2, overlays: tuple[str, ...] = (),
                 with_adapters: bool = True, native_count: int = 0, mtu: int | None = None,
                 first_starts_bare: bool = False) -> None:
        self.setup = setup
        self._vm_count = vm_count
        self._overlays = overlays
        self._with_adapters = with_adapters
        self._native_count = native_count
        self._mtu = mtu
        self._first_starts_bare = first_starts_bare
        super().__init__(logs)

    @property
    def natives(self) -> list[Vm]:
        """The native endpoints."""
        return self.vms[self._vm_count:]

    def log_tails(self) -> list[tuple[str, str]]:
        """(path, last lines) of every log, and the daemon's counters if it runs, for the report of a failure."""
        logs = [(str(path), process.tail(path)) for path in sorted(self.logs.iterdir()) if path.suffix != ".toml"]
        return logs + [("pvrdmactl stats", self._counters())] if self.daemon.running else logs

    def _counters(self) -> str:
        try:
            return self.daemon.ctl_text("stats")
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # must not hide the reported failure
            return str(error)

    def _specs(self) -> list[VmSpec]:
        return [VmSpec(name=f"VM-{index:02d}", address=f"192.168.11.{50 + index}", address6=f"fd00:11::{50 + index}",
                       mac=f"52:54:00:12:34:{50 + index}", overlays=self._overlays,
                       adapter=self._run / f"vm-{index:02d}.sock" if self._with_adapters else None,
                       starts_bare=self._first_starts_bare and index == 1)
                for index in range(1, self._vm_count + 1)]

    def _native_specs(self) -> list[VmSpec]:
        return [soft_roce.spec(index, self._overlays) for index in range(1, self._native_count + 1)]

    def _adapters(self) -> list[Adapter]:
        return [Adapter(spec.name, spec.adapter, spec.mac, self.setup.hardware_version, self.setup.roce, self.setup.doorbells,
                        self._mtu)
                for spec in self._specs() if spec.adapter is not None]

    def _start(self) -> None:
        self._start_vms(ensure(self.setup.suite), [*self._specs(), *self._native_specs()], with_link=self._native_count > 0)
        for vm in self.vms:
            if self._mtu is not None:
                vm.check(f"ip link set eth0 mtu {self._mtu}")
            if vm in self.natives:
                soft_roce.add_device(vm)
            elif vm.spec.adapter is not None and not vm.spec.starts_bare:
                rdma.wait_active(vm)
