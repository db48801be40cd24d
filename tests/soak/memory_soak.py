#!/usr/bin/python3
"""Soak of guest memory: VMMs plug, unplug, punch and shrink their guests' memory, reset and kill them, beside a neighbour.

    tests/soak/memory_soak.py --time 10m [--seed N] [--build build/asan]

The VMMs are restless_vmms (programs/restless_vmms.cc), which says what the daemon must do for them. By a seed, which this program
prints, some of them get SIGKILL in the middle. The neighbour is a connection between two guests that stay, which checks each of
its rounds: it must not end, and must go on. Every 15 seconds all guests leave. Then the daemon must have no object, and as many
descriptors, threads and mappings of guest memory as before the first guest; and hardly more memory than after the first 15
seconds, which a sanitizer's runtime hides. Exit code 0: no error; 1: an error, reported as a sentence. Works as any user.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), *(str(_HERE.parent / name) for name in ("cluster", "vm")), str(_HERE.parents[1] / "tools")]

from harness import as_unit  # noqa: E402  (the path above comes first)
from harness.daemon import REPOSITORY, Adapter, Daemon, binary  # noqa: E402  (the path above comes first)
from soak import seconds_of  # noqa: E402
from soaking.gauge import Quiet, Slack, difference, growth, objects_of, usage_of  # noqa: E402
from soaking.guest import Broken, Guest  # noqa: E402
from soaking.outcome import outcome_of  # noqa: E402

_FOLDER = REPOSITORY / "build" / "soak" / "memory"
_RESTLESS = ("A1", "A2", "A3")
_NEIGHBOURS = {"B1": 101, "B2": 102}  # and the last bytes of their GIDs
_PERIOD_S = 15.0
_BLOCK_BYTES = 16384
_PACE_MS = 1
_GUARD_S = 60.0


class MemorySoak:
    """One run. `folder` gets the daemon's log."""

    def __init__(self, seed: int, folder: Path = _FOLDER) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._moments: list[tuple[Quiet, int]] = []  # and the mappings of guest memory
        self.done: Counter[str] = Counter()  # what the VMMs did, and the neighbour's rounds

    def run(self, seconds: float) -> None:
        """AssertionError: what was wrong."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pvrdma-") as run_folder:
            adapters = [Adapter(name, Path(run_folder) / f"{name}.sock", f"02:00:00:00:00:{number:02x}", 18)
                        for number, name in enumerate((*_RESTLESS, *_NEIGHBOURS), start=1)]
            daemon = Daemon(adapters, Path(run_folder), self._folder)
            daemon.start()
            try:
                self._quiet(daemon)
                end = time.monotonic() + seconds
                while (left := end - time.monotonic()) > 0:
                    self._work(daemon, min(left, _PERIOD_S))
                    self._quiet(daemon)
            finally:
                code = daemon.stop()
            assert code == 0, f"the daemon stopped with {code}; its log is {daemon.log}"

    def _work(self, daemon: Daemon, seconds: float) -> None:
        sockets = {adapter.name: str(adapter.socket) for adapter in daemon.adapters}
        guests = [Guest(name, sockets[name], gid, self._random.getrandbits(32), _PACE_MS) for name, gid in _NEIGHBOURS.items()]
        try:
            _connect(*guests)
            self._be_restless(guests, [sockets[name] for name in _RESTLESS], seconds)
            self.done["neighbour_rounds"] += _expect_rounds(guests)
            for guest in guests:
                guest.leave()
        finally:
            for guest in guests:
                guest.kill()

    def _be_restless(self, guests: list[Guest], sockets: list[str], seconds: float) -> None:
        """The VMMs run to their end, or until they are killed and others come."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            is_killed = self._random.random() < 0.3
            command = [str(binary("restless_vmms", "tests/soak")), "--seed", str(self._random.getrandbits(32)), "--seconds", str(left)]
            with subprocess.Popen(command + [word for socket in sockets for word in ("--socket", socket)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as vmms:
                try:
                    kill_at = time.monotonic() + self._random.uniform(0, left) if is_killed else end + _GUARD_S
                    while vmms.poll() is None and time.monotonic() < kill_at:
                        _expect_nothing_lost(guests)
                        time.sleep(0.05)
                    ended = vmms.poll() is not None
                finally:
                    vmms.kill()
                said = vmms.communicate()[0].strip()
            assert ended or is_killed, f"'{' '.join(command)}' does not end"
            assert not ended or said.startswith("done"), f"'{' '.join(command)}' said: {said}"
            words = said.split()[1:] if ended else []
            self.done.update({name: int(count) for name, count in zip(words[::2], words[1::2])})
            self.done["killed"] += not ended

    def _quiet(self, daemon: Daemon) -> None:
        """No guest is there. Everything must be as before the first one."""
        deadline = time.monotonic() + _GUARD_S
        while True:
            now, maps = _look(daemon)
            start, maps_at_start = self._moments[0] if self._moments else (now, maps)
            wrong = difference("the daemon", start, now)
            if wrong is None and maps != maps_at_start:
                wrong = f"the daemon has {maps} mappings of guest memory, at the start {maps_at_start}"
            if wrong is None:
                break
            assert time.monotonic() < deadline, wrong
            time.sleep(0.2)
        self._moments.append((now, maps))
        if len(self._moments) > 2 and not as_unit.is_sanitized(binary("pvrdmad")):
            grown = growth("the daemon", [moment for moment, _ in self._moments[1:]], Slack())
            assert grown is None, grown


def _connect(one: Guest, other: Guest) -> None:
    """Both have one connection, with the number 1."""
    made = {guest.name: " ".join(guest.ask(f"make 1 {_BLOCK_BYTES}", "made")[1:]) for guest in (one, other)}
    for guest, role, peer in ((other, "answer", one), (one, "ask", other)):
        guest.ask(f"join 1 {role} {peer.gid} {made[peer.name]}", "joined")


def _expect_nothing_lost(guests: list[Guest]) -> None:
    for guest in guests:
        for event in guest.events():
            raise Broken(f"the neighbour {guest.name} noticed: {event.kind} {event.text}")


def _expect_rounds(guests: list[Guest]) -> int:
    """How many rounds the connection had. It must still work."""
    def rounds() -> int:
        _expect_nothing_lost(guests)
        return int(guests[0].ask("rounds", "rounds")[1])
    before = rounds()
    deadline = time.monotonic() + _GUARD_S
    while rounds() == before:
        assert time.monotonic() < deadline, f"the neighbour stands still in round {before}"
        time.sleep(0.01)
    return before


def _look(daemon: Daemon) -> tuple[Quiet, int]:
    objects = objects_of(daemon)  # at first: the first request starts the threads of the API
    maps = Path(f"/proc/{daemon.pid}/maps").read_text(encoding="utf-8").count("/memfd:")
    return Quiet(time.monotonic(), usage_of(daemon.pid), objects), maps


def main() -> int:
    """Parses the command line and runs the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=seconds_of, default=seconds_of("10m"), help="default: 10m")
    parser.add_argument("--build", help="folder of the build to use; default: PVRDMA_BUILD, or build/release")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="of all choices; default: another each time")
    options = parser.parse_args()
    if options.build is not None:
        os.environ["PVRDMA_BUILD"] = str(Path(options.build).resolve())
    soak = MemorySoak(options.seed)
    return outcome_of("memory soak", options.time, options.seed, soak.run, soak.done)


if __name__ == "__main__":
    sys.exit(main())
