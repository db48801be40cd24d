"""A client of QEMU's monitor, for what the daemon does not do."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


class Qmp:
    """Commands to the monitor at a path; one client at a time has it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._lines.readline()
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """What the command returns."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            said = json.loads(self._lines.readline())
            if "event" not in said:
                assert "return" in said, f"{command}: {said}"
                return said["return"]

    def close(self) -> None:
        """Lets another client in."""
        self._lines.close()
        self._socket.close()
