"""One guest: a soak_client that drives an adapter and reports errors."""

from __future__ import annotations

import os
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from harness.daemon import REPOSITORY

_GUARD_S = 60.0


class Broken(AssertionError):
    """The guest ended or did not answer, although the soak did not kill it."""


@dataclass(frozen=True)
class Event:
    """An unsolicited report of a guest: `kind` is "lost" or "wrong"."""

    guest: Guest
    kind: str
    connection: int
    text: str


def program() -> Path:
    """The built soak_client. RuntimeError names the build command if it does not exist."""
    build = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release")
    path = build / "tests" / "soak" / "soak_client"
    if not path.is_file():
        raise RuntimeError(f"{path} does not exist; build it with: "
                           "cmake --preset release && cmake --build --preset release --target soak_client")
    return path


class Guest:
    """A guest, attached from its construction to leave() or kill()."""

    def __init__(self, name: str, socket: str, gid: int, seed: int, pace_ms: int) -> None:
        self.name = name
        self.gid = gid
        self._events: list[Event] = []
        self._unread = b""
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", str(program()), "--socket", socket, "--gid", str(gid), "--seed", str(seed),
             "--pace", str(pace_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        os.set_blocking(self._process.stdout.fileno(), False)
        try:
            self._answer("ready", time.monotonic() + _GUARD_S)
        except BaseException:
            self.kill()
            raise

    def ask(self, command: str, answer: str) -> list[str]:
        """Sends a command. Returns the words of its answer, which must start with `answer`."""
        try:
            self._process.stdin.write(command.encode("ascii") + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last output comes next
        return self._answer(answer, time.monotonic() + _GUARD_S)

    def events(self) -> list[Event]:
        """The events since the last call."""
        self._read(0)
        if self._process.poll() is not None:
            self._read(0)
            raise Broken(f"{self.name} ended with {self._process.returncode}: {self._unread.decode(errors='replace').strip()}")
        events, self._events = self._events, []
        return events

    def leave(self) -> None:
        """Destroys everything in order."""
        self.ask("leave", "left")
        if (code := self._process.wait(_GUARD_S)) != 0:
            raise Broken(f"{self.name} left with {code}")
        self._close()

    def kill(self) -> None:
        """kill -9, at any moment."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def _answer(self, first_word: str, deadline: float) -> list[str]:
        while True:
            while b"\n" in self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                words = line.decode(errors="replace").split()
                if words[:1] == [first_word]:
                    return words[1:]
                self._note(words)
            if time.monotonic() > deadline:
                raise Broken(f"{self.name} did not say '{first_word}' within {_GUARD_S:g} s")
            if not self._fill(0.2) and self._process.poll() is not None:
                raise Broken(f"{self.name} ended with {self._process.returncode} instead of saying '{first_word}': "
                             f"{self._unread.decode(errors='replace')}")

    def _read(self, wait_s: float) -> None:
        while self._fill(wait_s):
            pass
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            self._note(line.decode(errors="replace").split())

    def _fill(self, wait_s: float) -> bool:
        if not select.select([self._process.stdout], [], [], wait_s)[0]:
            return False
        part = os.read(self._process.stdout.fileno(), 65536)
        self._unread += part
        return bool(part)

    def _note(self, words: list[str]) -> None:
        if words[:1] in (["lost"], ["wrong"]) and len(words) > 1:
            self._events.append(Event(self, words[0], int(words[1]) if words[1].isdigit() else 0, " ".join(words[2:])))
        else:
            raise Broken(f"{self.name} said: {' '.join(words)}")
