"""The common parts of all sets of virtual machines: their Ethernet, their daemon, start and end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.block import Block
from harness.daemon import Adapter, Daemon
from harness.hub import Hub
from harness.vm import Vm, VmSpec
from testbed import Testbed


class Ensemble(Block):
    """One daemon, its VMs and their Ethernet. `logs` outlives it.

    A derived class returns the daemon's adapters in `_adapters()`, and starts everything in `_start()`.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.vms: list[Vm] = []
        self._run_folder = tempfile.TemporaryDirectory(prefix="pvrdma-")
        self._run = Path(self._run_folder.name)
        self._hub: Hub | None = None
        self.daemon = Daemon(self._adapters(), self._run, logs)

    @property
    def hub(self) -> Hub:
        """The Ethernet, once started."""
        assert self._hub is not None
        return self._hub

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

    def _adapters(self) -> list[Adapter]:
        raise NotImplementedError

    def _start_vms(self, testbed: Testbed, specs: Iterable[VmSpec], with_link: bool = False) -> None:
        """Starts the daemon if it has adapters, then all VMs at once, and waits until each is ready. Removes old logs.

        `with_link`: the daemon is connected to the Ethernet and gets the RoCE frames to its adapters from there.
        """
        self.logs.mkdir(parents=True, exist_ok=True)
        for old in self.logs.iterdir():
            old.unlink()
        steered = tuple(adapter.mac for adapter in self.daemon.adapters) if with_link else ()
        self._hub = Hub(self._run / "ethernet.sock", steered)
        if self.daemon.adapters:
            self.daemon.roce_link = self._hub.link if with_link else None
            self.daemon.start()
        self.vms = [Vm(spec, testbed, self._hub.path, self._run, self.logs) for spec in specs]
        for vm in self.vms:
            vm.start()
        for vm in self.vms:
            vm.wait_ready()
