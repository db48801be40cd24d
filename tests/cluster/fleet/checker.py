"""rc_checker: RC traffic between two adapters that proves exactly-once execution (programs/rc_checker.cc)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from fleet.until import until
from harness import process
from harness.daemon import REPOSITORY

_START_GUARD_S = 30.0
_END_GUARD_S = 30.0


@dataclass(frozen=True)
class Outcome:
    """rc_checker's output at its end."""

    rounds: int
    longest_pause_ms: int
    errors: list[str]


class Checker:
    """Runs during its `with` block. Afterwards `outcome` is available; an error of the checker is raised."""

    def __init__(self, a: Path, b: Path, log: Path, *options: str) -> None:
        build = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release")
        self._command = [str(build / "tests" / "cluster" / "rc_checker"), "--a", str(a), "--b", str(b), *options]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.outcome: Outcome | None = None

    def __enter__(self) -> Checker:
        self._log.unlink(missing_ok=True)
        self._process = process.start(self._command, self._log)
        until("rc_checker runs", lambda: "running" in self._printed() or self._process.poll() is not None, _START_GUARD_S)
        if "running" not in self._printed():
            self._expect_running()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        code = process.stop(self._process, _END_GUARD_S)
        if kind is not None:
            return
        lines = self._printed().strip().splitlines()
        assert lines and lines[-1].startswith("{"), f"rc_checker ended with {code}:\n{process.tail(self._log)}"
        result = json.loads(lines[-1])
        self.outcome = Outcome(result["rounds"], result["longest_pause_ms"], result["errors"])
        assert code == 0 and not self.outcome.errors, f"rc_checker ended with {code}: {self.outcome.errors}"

    def rounds(self) -> int:
        """Rounds so far."""
        progress = [line for line in self._printed().splitlines() if line.startswith("progress ")]
        return int(progress[-1].split()[1]) if progress else 0

    def advance(self, rounds: int = 20, guard_s: float = 60.0) -> None:
        """Waits until `rounds` more rounds are done, each of them checked."""
        goal = self.rounds() + rounds
        until(f"rc_checker's round {goal}", lambda: self._expect_running() and self.rounds() >= goal, guard_s)

    def finish(self, guard_s: float = 60.0) -> None:
        """Waits for the end of the requested rounds."""
        self._process.wait(guard_s)

    def stands_still(self, for_s: float = 1.0) -> bool:
        """Whether no round ends for this time."""
        time.sleep(0.3)  # it reports ten times a second
        before = self.rounds()
        time.sleep(for_s)
        return self.rounds() == before

    def _expect_running(self) -> bool:
        assert self._process.poll() is None, f"rc_checker has ended:\n{process.tail(self._log)}"
        return True

    def _printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
