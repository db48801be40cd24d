"""A host's interface on the VMs' Ethernet, in a network namespace of its own."""

from __future__ import annotations

import itertools
import os
import select
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.tap import Frames, tap

_NUMBERS = itertools.count(1)  # numbers this process's namespaces
_LENGTH_BYTES = 4
_READ_BYTES = 256 << 10


class Nic:
    """eth0, with this MAC and these addresses, until it is closed. Needs root."""

    def __init__(self, hub: Path, mac: str, addresses: Sequence[str]) -> None:
        space = f"pvrdma-{os.getpid()}-nic-{next(_NUMBERS)}"
        self.inside = ["ip", "netns", "exec", space]
        self._end = ExitStack()
        try:
            self._end.callback(subprocess.run, ["ip", "netns", "delete", space], check=False)
            subprocess.run(["ip", "netns", "add", space], check=True)
            frames = self._end.enter_context(tap(space, "eth0"))
            for words in (["link", "set", "dev", "lo", "up"], ["link", "set", "dev", "eth0", "address", mac, "up"],
                          *(["address", "add", each, "dev", "eth0", *(["nodad"] if ":" in each else [])] for each in addresses)):
                subprocess.run(["ip", "-n", space, *words], check=True)
            cable = self._end.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            cable.connect(str(hub))
            ends = self._end.enter_context(open(os.eventfd(0), "r+b", buffering=0))
            carrier = threading.Thread(target=_carry, args=(frames, cable, ends.fileno()), name="nic", daemon=True)
            carrier.start()
            self._end.callback(carrier.join)
            self._end.callback(ends.write, (1).to_bytes(8, "little"))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes it. Programs in its namespace lose it."""
        self._end.close()


def _carry(frames: Frames, cable: socket.socket, end: int) -> None:
    """Carries frames both ways, with the length before each on the cable, until `end` is readable or the hub ends."""
    received = bytearray()
    while True:
        ready, _, _ = select.select([frames.fd, cable, end], [], [])
        if end in ready:
            return
        if frames.fd in ready:
            cable.sendall(b"".join(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame for frame in frames.arrived()))
        if cable in ready:
            data = cable.recv(_READ_BYTES)
            if not data:
                return
            received += data
            while len(received) >= _LENGTH_BYTES and len(received) >= (bytes_ := _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")):
                frames.send(bytes(received[_LENGTH_BYTES:bytes_]))
                del received[:bytes_]
