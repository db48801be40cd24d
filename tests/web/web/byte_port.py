"""A TCP port of this machine that passes bytes to a daemon's API socket and back, as `ssh -L` does, and understands none of them."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from pathlib import Path

from harness.block import Block


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copies until either end leaves."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class BytePort(Block):
    """The port, from when the block begins until it ends."""

    def __init__(self, api: Path) -> None:
        class Handler(socketserver.BaseRequestHandler):
            """One connection."""

            def handle(self) -> None:
                with socket.socket(socket.AF_UNIX) as daemon:
                    daemon.connect(str(api))
                    back = threading.Thread(target=_pump, args=(daemon, self.request))
                    back.start()
                    _pump(self.request, daemon)
                    back.join()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True  # a browser keeps its connections
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def page(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/ui/"

    def close(self) -> None:
        """Ends the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _start(self) -> None:
        self._thread.start()
