"""Child processes that never outlive the test harness."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The kernel takes the end of the starting thread for the harness's end, so one permanent thread starts all
# children.
_PARENT = ThreadPoolExecutor(1)


def start(command: list[str], log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts `command` with its output appended to `log`.

    The process gets its own session, so Ctrl-C reaches only the harness, which then stops it in order. If the harness dies
    before that, the kernel kills the process.
    """
    with open(log, "ab") as output:
        return _PARENT.submit(subprocess.Popen, ["setpriv", "--pdeathsig", "KILL", "--", *command],
                              stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                              env={**os.environ, **(environment or {})}).result()


def stop(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Sends SIGTERM, and SIGKILL after `timeout_s`. Returns the exit code (negative: the signal)."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def tail(path: Path, lines: int = 30) -> str:
    """The last lines of a log, or a note that it does not exist."""
    if not path.is_file():
        return f"({path} does not exist)"
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
