"""An Ethernet hub for QEMU's `-netdev stream` over a UNIX socket: every frame goes to every other VM.

Unlike a direct connection of two VMs it lets any VM leave and come back, and joins any number. A frame on the wire is a
32-bit big-endian length followed by that many bytes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from pathlib import Path

_LENGTH_BYTES = 4
_MAX_BACKLOG_BYTES = 4 << 20
_READ_BYTES = 256 << 10


class _Port:
    """One VM's connection: bytes not yet forming a whole frame, and bytes it has not yet taken."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = bytearray()
        self.backlog = bytearray()

    def take_frames(self) -> bytes:
        """Removes the whole frames received so far, length prefixes included."""
        end = 0
        while len(self.received) - end >= _LENGTH_BYTES:
            length = int.from_bytes(self.received[end:end + _LENGTH_BYTES], "big")
            if len(self.received) - end < _LENGTH_BYTES + length:
                break
            end += _LENGTH_BYTES + length
        frames = bytes(self.received[:end])
        del self.received[:end]
        return frames


class Hub:
    """Serves `path` from a thread of its own until closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.setblocking(False)
        self._stop_read, self._stop_write = os.pipe()
        self._ports: dict[socket.socket, _Port] = {}
        self._thread = threading.Thread(target=self._serve, name="ethernet-hub", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and drops every connection."""
        os.write(self._stop_write, b"x")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._stop_read, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, events in selector.select():
                    if key.fd == self._stop_read:
                        for connection in self._ports:
                            connection.close()
                        return
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif key.data.connection in self._ports:
                        self._serve_port(selector, key.data, events)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        port = _Port(connection)
        self._ports[connection] = port
        selector.register(connection, selectors.EVENT_READ, port)

    def _serve_port(self, selector: selectors.BaseSelector, port: _Port, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                data = port.connection.recv(_READ_BYTES)
                if not data:
                    raise ConnectionResetError
                port.received += data
                frames = port.take_frames()
                for other in list(self._ports.values()):
                    if frames and other is not port:
                        self._send(selector, other, frames)
            if events & selectors.EVENT_WRITE:
                self._send(selector, port, b"")
        except OSError:
            self._drop(selector, port)

    def _send(self, selector: selectors.BaseSelector, port: _Port, frames: bytes) -> None:
        if len(port.backlog) + len(frames) <= _MAX_BACKLOG_BYTES:  # else lost, as on a real wire
            port.backlog += frames
        try:
            with contextlib.suppress(BlockingIOError):
                del port.backlog[:port.connection.send(port.backlog)]
        except OSError:
            self._drop(selector, port)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.backlog else 0)
        selector.modify(port.connection, events, port)

    def _drop(self, selector: selectors.BaseSelector, port: _Port) -> None:
        if self._ports.pop(port.connection, None):
            selector.unregister(port.connection)
            port.connection.close()
