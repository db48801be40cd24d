"""A VM, a native endpoint and programs without a VM on one switch and one Ethernet."""

from __future__ import annotations

from pathlib import Path

from harness.cluster import Setup
from harness.mixed import ADDRESS, ADDRESS6, MAC, Mixed
from harness.nic import Nic
from harness.process_node import ProcessNode
from harness.vm import Vm


class Trio(Mixed):
    """The node's host has an interface on the Ethernet, with the MAC and the addresses of the node's adapter. So its kernel
    answers for them, and knows its neighbours."""

    def __init__(self, setup: Setup, logs: Path) -> None:
        self._nic: Nic | None = None
        super().__init__(setup, logs, native_count=1)

    @property
    def native(self) -> Vm:
        """The native endpoint."""
        return self.vms[1]

    @property
    def nic(self) -> Nic:
        """The interface of the node's host."""
        assert self._nic is not None
        return self._nic

    def _close_node(self) -> None:
        try:
            super()._close_node()
        finally:
            nic, self._nic = self._nic, None
            if nic is not None:
                nic.close()

    def _make_node(self) -> ProcessNode:
        self._nic = Nic(self.hub.path, MAC, (f"{ADDRESS}/24", f"{ADDRESS6}/64"))
        return ProcessNode(self.daemon.api, self.daemon.adapters[-1], ADDRESS, ADDRESS6, self.logs, self._nic.inside, "eth0")
