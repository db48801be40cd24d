"""The daemon's log: for the journal, for a terminal or file, and as JSON.

Run by ctest (label cli), or as test_cli.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from test_cli import GUARD_S, pvrdmad


def started_log(tmp_path: Path, *flags: str, is_journal: bool = False) -> list[str]:
    """The log of a daemon that starts and stops. Its standard error is a file, which may pretend to be the journal."""
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        state = os.fstat(stderr.fileno())
        environment = {**os.environ, "JOURNAL_STREAM": f"{state.st_dev}:{state.st_ino if is_journal else 1}"}
        value = f"name=VM-01,socket={tmp_path}/vm.sock,mac=52:54:00:12:34:51,hw=14"
        running = subprocess.Popen(pvrdmad(tmp_path, "--adapter", value, "--api-socket", str(tmp_path / "api.sock"), *flags),
                                   stderr=stderr, env=environment)
        try:
            until = time.monotonic() + GUARD_S
            while b"serves 1 adapter(s)" not in log.read_bytes():
                assert running.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.02)
            running.send_signal(signal.SIGTERM)
            assert running.wait(GUARD_S) == 0
        finally:
            running.kill()
            running.wait()
    return log.read_text().splitlines()


def test_the_journal_gets_priorities_and_no_time(tmp_path: Path) -> None:
    lines = started_log(tmp_path, is_journal=True)
    assert lines[-1] == "<6>pvrdmad: stopped"
    assert all(re.match("<[3467]>[^0-9]", line) for line in lines), lines


def test_elsewhere_the_time_is_utc(tmp_path: Path) -> None:
    lines = started_log(tmp_path)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z (info|warning) ", line) for line in lines), lines


def test_json_is_one_object_a_line(tmp_path: Path) -> None:
    objects = [json.loads(line) for line in started_log(tmp_path, "--log-format", "json", is_journal=True)]
    assert objects[-1]["message"] == "pvrdmad: stopped"
    assert all(list(each) == ["time", "level", "message"] for each in objects)
