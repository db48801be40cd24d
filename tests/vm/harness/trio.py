"""A VM, a native endpoint and programs without a VM on one switch and one Ethernet."""

from __future__ import annotations

from pathlib import Path

from harness.cluster import Cluster, Setup
from harness.daemon import Adapter
from harness.nic import Nic
from harness.process_node import ProcessNode
from harness.vm import Vm

_ADDRESS, _ADDRESS6, _MAC = "192.168.11.81", "fd00:11::81", "52:54:00:12:34:81"


class Trio(Cluster):
    """The node's host has an interface on the Ethernet, with the MAC and the addresses of the node's adapter. So its kernel
    answers for them, and knows its neighbours."""

    def __init__(self, setup: Setup, logs: Path) -> None:
        self._node: ProcessNode | None = None
        self._nic: Nic | None = None
        super().__init__(setup, logs, vm_count=1, native_count=1)

    @property
    def vm(self) -> Vm:
        """The VM."""
        return self.vms[0]

    @property
    def native(self) -> Vm:
        """The native endpoint."""
        return self.vms[1]

    @property
    def node(self) -> ProcessNode:
        """The node, once started."""
        assert self._node is not None
        return self._node

    @property
    def nic(self) -> Nic:
        """The interface of the node's host."""
        assert self._nic is not None
        return self._nic

    def close(self) -> None:
        try:
            for each in (self._node, self._nic):
                if each is not None:
                    each.close()
        finally:
            self._node = self._nic = None
            super().close()

    def _adapters(self) -> list[Adapter]:
        return [*super()._adapters(), Adapter("NODE-01", self._run / "node-01.sock", _MAC, self.setup.hardware_version,
                        self.setup.roce, doorbells="mapped")]

    def _start(self) -> None:
        super()._start()
        self._nic = Nic(self.hub.path, _MAC, (f"{_ADDRESS}/24", f"{_ADDRESS6}/64"))
        self._node = ProcessNode(self.daemon.api, self.daemon.adapters[-1], _ADDRESS, _ADDRESS6, self.logs, self._nic.inside, "eth0")
