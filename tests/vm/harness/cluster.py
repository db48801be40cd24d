"""N virtual machines on one Ethernet and one daemon: VM-01 is 192.168.11.51 and fd00:11::51, VM-02 .52, and so on."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness import process, rdma
from harness.daemon import Adapter, Daemon
from harness.hub import Hub
from harness.vm import Vm, VmSpec
from testbed import Testbed, ensure


@dataclass(frozen=True)
class Setup:
    """What a cluster's VMs run: Debian suite (kernel and programs), VM hardware version, RoCE version and doorbell mode.

    None: as if the configuration said nothing (but see Daemon).
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


class Cluster:
    """Starts everything on entry (daemon first, then all VMs at once), ends everything on exit. `logs` outlives it.

    With `with_adapters=False` the VMs have only their vmxnet3 and there is no daemon.
    """

    def __init__(self, setup: Setup, logs: Path, vm_count: int = 2, overlays: tuple[str, ...] = (),
                 with_adapters: bool = True) -> None:
        self.setup = setup
        self.logs = logs
        self.vms: list[Vm] = []
        self._run_folder = tempfile.TemporaryDirectory(prefix="pvrdma-")
        self._hub: Hub | None = None
        run = Path(self._run_folder.name)
        self._specs = [VmSpec(name=f"VM-{index:02d}",
                              address=f"192.168.11.{50 + index}", address6=f"fd00:11::{50 + index}",
                              mac=f"52:54:00:12:34:{50 + index}", overlays=overlays,
                              adapter=run / f"vm-{index:02d}.sock" if with_adapters else None)
                       for index in range(1, vm_count + 1)]
        adapters = [Adapter(spec.name, spec.adapter, spec.mac, setup.hardware_version, setup.roce, setup.doorbells)
                    for spec in self._specs if spec.adapter is not None]
        self.daemon = Daemon(adapters, run, logs)

    def __enter__(self) -> Cluster:
        try:
            self._start(ensure(self.setup.suite))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends VMs, daemon and Ethernet, and removes their sockets."""
        for vm in self.vms:
            vm.close()
        if self.daemon.running:
            self.daemon.stop()
        if self._hub is not None:
            self._hub.close()
            self._hub = None
        self._run_folder.cleanup()

    def log_tails(self) -> list[tuple[str, str]]:
        """(path, last lines) of every log, for a failure's report."""
        return [(str(path), process.tail(path)) for path in sorted(self.logs.iterdir()) if path.suffix != ".toml"]

    def _start(self, testbed: Testbed) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        for old in self.logs.iterdir():
            old.unlink()
        run = Path(self._run_folder.name)
        self._hub = Hub(run / "ethernet.sock")
        if self.daemon.adapters:
            self.daemon.start()
        self.vms = [Vm(spec, testbed, self._hub.path, run, self.logs) for spec in self._specs]
        for vm in self.vms:
            vm.start()
        for vm in self.vms:
            vm.wait_ready()
            if vm.spec.adapter is not None:
                rdma.wait_active(vm)

