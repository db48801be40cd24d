"""The monitor of a QEMU that does not exist, so that a motion can begin: it says that the VM runs, and copies no memory."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleet.host import Host
from harness import as_unit
from harness.block import Block

_ADAPTER = {"bus": 0, "slot": 16, "function": 1, "id": {"vendor": 0x15AD, "device": 0x0820}}
_ANSWERS: dict[str, Any] = {
    "query-version": {"qemu": {"major": 8, "minor": 2, "micro": 0}},
    "query-status": {"status": "running", "running": True},
    "query-migrate-parameters": {"max-bandwidth": 0, "downtime-limit": 300},
    "query-migrate-capabilities": [],
    "query-pci": [{"bus": 0, "devices": [_ADAPTER]}],
}


class FakeMonitor(Block):
    """Is where the daemon of `host` looks for the monitor of `vm`."""

    def __init__(self, host: Host, vm: str) -> None:
        self._path = host.folder / f"{vm}.vmm" / "qmp"
        self._listener = socket.socket(socket.AF_UNIX)
        self._client: socket.socket | None = None  # the newest
        self._thread = threading.Thread(target=self._serve)

    def close(self) -> None:
        """Ends the monitor."""
        for each in (self._listener, self._client):
            with suppress(OSError):
                if each is not None:
                    each.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _start(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._listener.bind(str(self._path))
        as_unit.give(self._path.parent, self._path)
        self._listener.listen()
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # close() ends it
            while True:
                self._client, _ = self._listener.accept()
                with self._client, suppress(OSError):
                    self._talk(self._client)

    @staticmethod
    def _talk(client: socket.socket) -> None:
        client.sendall(b'{"QMP": {"version": {}, "capabilities": []}}\r\n')
        for line in client.makefile("r", encoding="utf-8"):
            answer = _ANSWERS.get(json.loads(line)["execute"], {})
            client.sendall(json.dumps({"return": answer}).encode() + b"\r\n")
