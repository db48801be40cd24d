"""gid_binder: guests that bind GIDs (programs/gid_binder.cc)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

from fleet.until import until
from harness import process
from harness.daemon import REPOSITORY

_END_GUARD_S = 15.0


class Binder:
    """A guest of the adapter at `socket`, which runs from the entry of its `with` block to stop() or to the
    block's end."""

    def __init__(self, socket: Path, log: Path, *options: str) -> None:
        build = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release")
        self._command = [str(build / "tests" / "cluster" / "gid_binder"), "--adapter", str(socket), *options]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Binder:
        self._log.unlink(missing_ok=True)
        self._process = process.start(self._command, self._log)
        until("gid_binder has tried", lambda: self.said() or self._process.poll() is not None)
        assert self._process.poll() is None, f"gid_binder has ended:\n{process.tail(self._log)}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.stop()

    def stop(self) -> None:
        """The guest leaves."""
        code = process.stop(self._process, _END_GUARD_S)
        assert code == 0, f"gid_binder ended with {code}:\n{process.tail(self._log)}"

    def said(self) -> str:
        """Its first word of output: bound or refused."""
        words = self._log.read_text(encoding="utf-8", errors="replace").split() if self._log.exists() else []
        return words[0] if words else ""
