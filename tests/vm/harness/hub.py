"""An Ethernet hub for QEMU's `-netdev stream` over a UNIX socket. It forwards every frame to every other VM.

Unlike a direct connection of two VMs it lets any VM leave and come back, and joins any number. A frame on the wire is a
32-bit big-endian length followed by that many bytes.

A hub with a link has a second socket, for a daemon (`[[roce]]` in pvrdmad.toml(5)): RoCE frames to the MACs `steered` go
there and to no VM, as with the rule for a guest's tap on a real host. No other frames go there. Frames from the daemon go
to the VMs.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import as_unit
from harness import frame as frames
from harness.faults import Faults
from harness.pcap import Pcap

_LENGTH_BYTES = 4
_MAX_BACKLOG_BYTES = 32 << 20  # more than 50 connections' first windows
_READ_BYTES = 256 << 10


class _Port:
    """One connection: the bytes of an incomplete frame, and the bytes that its peer has not taken yet."""

    def __init__(self, connection: socket.socket, is_link: bool) -> None:
        self.connection = connection
        self.is_link = is_link
        self.received = bytearray()
        self.backlog = bytearray()

    def take_frames(self) -> bytes:
        """Removes and returns the complete frames received so far, with their length prefixes."""
        end = 0
        while len(self.received) - end >= _LENGTH_BYTES:
            length = int.from_bytes(self.received[end:end + _LENGTH_BYTES], "big")
            if len(self.received) - end < _LENGTH_BYTES + length:
                break
            end += _LENGTH_BYTES + length
        taken = bytes(self.received[:end])
        del self.received[:end]
        return taken


class Hub:
    """Serves `path`, and `link` if MACs are steered there, on its own thread until it is closed.

    `lost_frames` counts frames that were dropped because a port had no room.
    """

    def __init__(self, path: Path, steered: tuple[str, ...] = ()) -> None:
        self.path = path
        self.link = path.with_suffix(".link") / "socket"  # in a folder of its own, which the daemon sees
        self.lost_frames = 0
        self._steered = frozenset(frames.mac_bytes(mac) for mac in steered)
        self._faults: Faults | None = None
        self._capture: Pcap | None = None
        self._ports: dict[socket.socket, _Port] = {}
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._listeners: dict[Path, socket.socket] = {}
        self._listen(self.path)
        if steered:
            self.link.parent.mkdir()
            as_unit.give_folder(self.link.parent)
            self._listen(self.link)
        self._thread = threading.Thread(target=self._serve, name="ethernet-hub", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and drops every connection."""
        self._order(self._end)
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def set_faults(self, faults: Faults | None) -> None:
        """Sets the faults of later frames; None: no faults."""
        self._order(lambda: setattr(self, "_faults", faults))

    def set_capture(self, capture: Pcap | None) -> None:
        """Records later frames as they are delivered. The caller may close the earlier capture."""
        self._order(lambda: setattr(self, "_capture", capture))

    def unplug_link(self) -> None:
        """Drops the daemon's connection and accepts none until `plug_link`."""
        self._order(lambda: self._ignore(self.link))

    def plug_link(self) -> None:
        """Listens for the daemon again."""
        self._order(lambda: self._listen(self.link))

    def _order(self, order: Callable[[], None]) -> None:
        """Lets the thread execute `order` and waits until that is done."""
        done = threading.Event()

        def obey() -> None:
            order()
            done.set()

        self._orders.put(obey)
        os.write(self._wake_write, b"x")
        done.wait()

    def _listen(self, path: Path) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        if path == self.link:
            as_unit.give(path)
        listener.listen()
        listener.setblocking(False)
        self._listeners[path] = listener
        self._selector.register(listener, selectors.EVENT_READ)

    def _ignore(self, path: Path) -> None:
        listener = self._listeners.pop(path)
        self._selector.unregister(listener)
        listener.close()
        path.unlink()
        for port in [port for port in self._ports.values() if port.is_link is (path == self.link)]:
            self._drop(port)

    def _end(self) -> None:
        for path in list(self._listeners):
            self._ignore(path)
        self._closed = True

    def _serve(self) -> None:
        with self._selector:
            while not self._closed:
                for key, events in self._selector.select():
                    if key.fd == self._wake_read:
                        os.read(self._wake_read, 1)
                        self._orders.get()()
                    elif key.data is None:
                        if key.fileobj in self._listeners.values():
                            self._accept(key.fileobj)
                    elif key.data.connection in self._ports:
                        self._serve_port(key.data, events)

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        port = _Port(connection, is_link=listener is self._listeners.get(self.link))
        self._ports[connection] = port
        self._selector.register(connection, selectors.EVENT_READ, port)

    def _serve_port(self, port: _Port, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                data = port.connection.recv(_READ_BYTES)
                if not data:
                    raise ConnectionResetError
                port.received += data
                self._forward(port, port.take_frames())
            if events & selectors.EVENT_WRITE:
                self._send(port, b"")
        except OSError:
            self._drop(port)

    def _forward(self, sender: _Port, taken: bytes) -> None:
        """Sends complete frames with their lengths to their destinations."""
        to_vms, to_link = taken, b""
        if self._steered or self._faults is not None or self._capture is not None:
            to_vms, to_link = self._sort(taken)
        for other in list(self._ports.values()):
            due = to_link if other.is_link else to_vms
            if due and other is not sender:
                self._send(other, due)

    def _sort(self, taken: bytes) -> tuple[bytes, bytes]:
        """Applies the faults. Returns the frames for the VMs and those for the link."""
        to_vms, to_link = [], []
        for frame in _split(taken):
            for item in [frame] if self._faults is None else self._faults.apply(frame):
                if self._capture is not None:
                    self._capture.add(item)
                steered = frames.destination(item) in self._steered and frames.is_roce(item)
                (to_link if steered else to_vms).append(len(item).to_bytes(_LENGTH_BYTES, "big") + item)
        return b"".join(to_vms), b"".join(to_link)

    def _send(self, port: _Port, taken: bytes) -> None:
        if len(port.backlog) + len(taken) <= _MAX_BACKLOG_BYTES:  # otherwise lost, as on a real wire
            port.backlog += taken
        else:
            self.lost_frames += sum(1 for _ in _split(taken))
        try:
            with contextlib.suppress(BlockingIOError):
                del port.backlog[:port.connection.send(port.backlog)]
        except OSError:
            self._drop(port)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.backlog else 0)
        self._selector.modify(port.connection, events, port)

    def _drop(self, port: _Port) -> None:
        if self._ports.pop(port.connection, None):
            self._selector.unregister(port.connection)
            port.connection.close()


def _split(taken: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(taken):
        end = at + _LENGTH_BYTES + int.from_bytes(taken[at:at + _LENGTH_BYTES], "big")
        yield taken[at + _LENGTH_BYTES:end]
        at = end
