"""VMs and programs without a VM that have adapters of one daemon, on one Ethernet and one segment."""

from __future__ import annotations

from pathlib import Path

from harness.cluster import Cluster, Setup
from harness.daemon import Adapter
from harness.process_node import ProcessNode
from harness.vm import Vm, link_local

ADDRESS, ADDRESS6, MAC = "192.168.11.81", "fd00:11::81", "52:54:00:12:34:81"


class Mixed(Cluster):
    """One VM and one node of processes.

    The node's addresses are on no interface, so no one answers the guest's question for their MAC address: the guest
    has them in its neighbour table.
    """

    def __init__(self, setup: Setup, logs: Path, native_count: int = 0) -> None:
        self._node: ProcessNode | None = None
        super().__init__(setup, logs, vm_count=1, native_count=native_count)

    @property
    def vm(self) -> Vm:
        """The VM."""
        return self.vms[0]

    @property
    def node(self) -> ProcessNode:
        """The node, once started."""
        assert self._node is not None
        return self._node

    def close(self) -> None:
        try:
            self._close_node()
        finally:
            super().close()

    def _close_node(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.close()

    def _adapters(self) -> list[Adapter]:
        return [*super()._adapters(), Adapter("NODE-01", self._run / "node-01.sock", MAC, self.setup.hardware_version,
                        self.setup.roce, doorbells="mapped")]

    def _start(self) -> None:
        super()._start()
        self._node = self._make_node()

    def _make_node(self) -> ProcessNode:
        for address in (ADDRESS, ADDRESS6, link_local(MAC)):
            self.vm.check(f"ip neighbour replace {address} lladdr {MAC} dev eth0 nud permanent")
        return ProcessNode(self.daemon.api, self.daemon.adapters[-1], ADDRESS, ADDRESS6, self.logs)
