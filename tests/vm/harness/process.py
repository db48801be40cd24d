"""Child processes that never outlive the harness."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PARENT = ThreadPoolExecutor(1)  # whose end the kernel takes for the harness's: one thread, until that ends


def start(command: list[str], log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts `command` with its output appended to `log`.

    It gets a session of its own, so that Ctrl-C reaches only the harness, which then stops it in order; and the kernel
    kills it when the harness dies without doing so.
    """
    with open(log, "ab") as output:
        return _PARENT.submit(subprocess.Popen, ["setpriv", "--pdeathsig", "KILL", "--", *command],
                              stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                              env={**os.environ, **(environment or {})}).result()


def stop(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Asks with SIGTERM, insists with SIGKILL after `timeout_s`; returns the exit code (negative: the signal)."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def tail(path: Path, lines: int = 30) -> str:
    """The last lines of a log, or a note that there is none."""
    if not path.is_file():
        return f"({path} does not exist)"
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
