"""VMs whose QEMU keeps the guest's memory to itself: the guest's driver cannot work, and the daemon names the mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.rdma import DEVICE
from harness.vm import VmSpec
from testbed import ensure

_NOT_SHARED = "the VMM shares no memory: memory-backend-memfd,share=on"
# QEMU has a descriptor of this memory, and gives it to the daemon. But what the guest writes is in QEMU's private copy.
_COPIED = "it is empty, as if the VMM had a private copy of the guest's memory: memory-backend-memfd,share=on"
_MAC = "52:54:00:12:34:51"


class _OneVm(Ensemble):
    """A VM with an adapter and this memory backend."""

    def __init__(self, backend: str, logs: Path) -> None:
        self._backend = backend
        super().__init__(logs)

    @property
    def _socket(self) -> Path:
        return self._run / "vm-01.sock"

    def _adapters(self) -> list[Adapter]:
        return [Adapter("VM-01", self._socket, _MAC, hardware_version=18)]

    def _start(self) -> None:
        spec = VmSpec("VM-01", "192.168.11.51", "fd00:11::51", _MAC, adapter=self._socket, memory_backend=self._backend)
        self._start_vms(ensure(), [spec])


@pytest.mark.parametrize(("backend", "trouble"), [
    pytest.param("memory-backend-memfd,share=off", _COPIED, id="memfd"),
    pytest.param("memory-backend-ram,share=off", _NOT_SHARED, id="ram", marks=pytest.mark.full),
    pytest.param("", _NOT_SHARED, id="no-backend")])
def test_the_daemon_says_that_no_memory_is_shared(backend: str, trouble: str, request: pytest.FixtureRequest, logs: Path) -> None:
    with _OneVm(backend, logs / request.node.name.translate({ord("["): "-", ord("]"): None})) as ensemble:
        (vm,) = ensemble.vms
        assert DEVICE not in vm.run("ibv_devices").output
        shown = ensemble.daemon.ctl("adapter", "get", vm.name)["trouble"]
        assert shown == (trouble if trouble == _NOT_SHARED else f"the driver's shared region was refused: {trouble}")
        with pytest.raises(RuntimeError, match=f"TROUBLE  adapter VM-01: {re.escape(shown)}; to mend it: start the VM with the arguments"):
            ensemble.daemon.ctl_text("doctor")
        assert f"   Trouble: {shown}\n" in ensemble.daemon.ctl_text("adapter", "get", vm.name)
        assert re.search(rf"^\S+ warning adapter VM-01: shared region at 0x[0-9a-f]+ refused: {re.escape(trouble)}$",
                         ensemble.daemon.log.read_text(encoding="utf-8"), re.MULTILINE)
