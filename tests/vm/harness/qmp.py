"""A client of QEMU's monitor, for commands that the daemon does not send."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


class Qmp:
    """Sends commands to the monitor at a path, which serves one client at a time."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._lines.readline()
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """The result of the command."""
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            said = json.loads(self._lines.readline())
            if "event" not in said:
                assert "return" in said, f"{command}: {said}"
                return said["return"]

    def close(self) -> None:
        """Disconnects, so that another client can connect."""
        self._lines.close()
        self._socket.close()
