"""Traffic between two adapters while a test interferes with it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[2] / "build/dev"
RC_CHECKER = os.environ.get("RC_CHECKER", str(_BUILD / "tests/cluster/rc_checker"))
_GUARD_S = 60


def until(what: str, condition: Callable[[], bool]) -> None:
    """Waits until the condition is true; the time limit is a hang guard."""
    end = time.monotonic() + _GUARD_S
    while not condition():
        assert time.monotonic() < end, f"not within {_GUARD_S} s: {what}"
        time.sleep(0.02)


class Traffic:
    """rc_checker between two adapters. It checks that each request is executed exactly once."""

    def __init__(self, sockets: Path, log: Path) -> None:
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen([RC_CHECKER, "--a", str(sockets / "vm-01.sock"), "--b",
                                             str(sockets / "vm-02.sock"), "--timeout", "16"],
                                            stdout=out, stderr=subprocess.STDOUT)
        self.advance(5)

    def rounds(self) -> int:
        progress = [line for line in self.log.read_text().splitlines() if line.startswith("progress ")]
        return int(progress[-1].split()[1]) if progress else 0

    def advance(self, rounds: int) -> None:
        goal = self.rounds() + rounds
        until(f"round {goal}", lambda: self.rounds() >= goal or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()


@contextmanager
def traffic(sockets: Path, log: Path) -> Iterator[Traffic]:
    """Traffic that ends without an error of the checker. `sockets` is the folder of vm-01.sock and vm-02.sock."""
    running = Traffic(sockets, log)
    try:
        yield running
        running.process.terminate()
        assert running.process.wait(_GUARD_S) == 0, running.log.read_text()
    finally:
        running.process.kill()
        running.process.wait()
