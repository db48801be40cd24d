"""The host's end of the control channel into a guest: it runs shell scripts there and returns output and exit code.

The other end is tools/testbed/guest/agent; the protocol is described there.
"""

from __future__ import annotations

import base64
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

_CONNECT_GUARD_S = 20.0


class GuestLost(Exception):
    """The guest ended or restarted before it answered."""


class GuestTimeout(Exception):
    """The guest did not answer in time."""


@dataclass(frozen=True)
class Result:
    """How a guest command ended. `output` has standard output and standard error in the order of arrival."""

    exit_code: int
    output: str


@dataclass
class _Pending:
    result: Result | None = None
    lost: bool = False


class Channel:
    """Listens on `path` for the connections of the guest's QEMU and of QEMUs in which the guest continues.

    Thread: any; results arrive through reader threads, one for each connection.
    """

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._connections: list[socket.socket] = []  # open ones, in the order of arrival
        self._readers: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._pending: dict[int, _Pending] = {}
        self._next_id = 1
        self._boots = 0
        self._closed = False
        self._goes_on = False
        self._acceptor = threading.Thread(target=self._accept, name=f"channel-{path.name}", daemon=True)
        self._acceptor.start()

    @property
    def boots(self) -> int:
        """How many times the guest's agent has started."""
        with self._changed:
            return self._boots

    def wait_for_boot(self, boots: int, timeout_s: float) -> bool:
        """Waits until the agent has started `boots` times. False if the time is over or the guest has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._boots >= boots or self._closed, timeout_s)
            return self._boots >= boots

    def submit(self, script: str) -> int:
        """Starts `script` in the guest. The returned id is for `wait` and `done`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._connections or self._closed or not self._goes_on, _CONNECT_GUARD_S)
                if not self._connections or self._closed:
                    raise GuestLost("the guest is not connected")
                request = self._next_id
                self._next_id += 1
                self._pending[request] = _Pending()
                connection = self._connections[-1]
            try:
                connection.sendall(f"{request} {base64.b64encode(script.encode()).decode()}\n".encode())
                return request
            except OSError:  # this QEMU has ended; its reader removes the connection. Another QEMU may have the guest.
                with self._changed:
                    del self._pending[request]
                    self._changed.wait_for(lambda ended=connection: ended not in self._connections, _CONNECT_GUARD_S)

    def done(self, request: int) -> bool:
        """Whether the command has ended in any way."""
        with self._changed:
            return self._settled(request)

    def wait(self, request: int, timeout_s: float) -> Result:
        """The command's result. After GuestTimeout the command still runs; GuestLost means that it will never
        end."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._settled(request), timeout_s):
                raise GuestTimeout(f"no result after {timeout_s:g} s")
            pending = self._pending[request]
            if pending.result is None:
                raise GuestLost("the guest ended or rebooted before the command did")
            return pending.result

    def outlive_qemu(self) -> None:
        """The guest will continue in another QEMU, so commands without an answer are not lost when this QEMU
        ends."""
        with self._changed:
            self._goes_on = True

    def close(self) -> None:
        """Ends the readers. Commands without an answer count as lost."""
        with self._changed:
            ends = [self._listener, *self._connections]
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side has already closed it
        self._acceptor.join()
        for reader in self._readers:
            reader.join()
        self._listener.close()
        self._finish()

    def _settled(self, request: int) -> bool:
        pending = self._pending[request]
        return pending.result is not None or pending.lost or self._closed

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self._connections.append(connection)
                self._goes_on = False
                self._changed.notify_all()
            self._readers.append(threading.Thread(target=self._read, args=(connection,), daemon=True))
            self._readers[-1].start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("r", encoding="ascii", errors="replace", newline="\n") as lines:
            try:
                for line in lines:
                    self._handle(line.split())
            except OSError:
                pass  # QEMU was killed
            with self._changed:
                self._connections.remove(connection)
                is_lost = not self._connections and not self._goes_on
                self._changed.notify_all()
        if is_lost:
            self._finish()

    def _handle(self, words: list[str]) -> None:
        with self._changed:
            if words[:1] == ["ready"]:
                self._boots += 1
                for pending in self._pending.values():
                    pending.lost = pending.result is None
            elif words[:1] == ["done"] and len(words) >= 3 and int(words[1]) in self._pending:
                output = base64.b64decode(words[3]) if len(words) > 3 else b""
                self._pending[int(words[1])].result = Result(int(words[2]), output.decode(errors="replace"))
            self._changed.notify_all()

    def _finish(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
