"""What the tests of commands that go on share: a cluster of one host, and pvrdmactl whose output is read as it comes."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from test_cli import GUARD_S, PVRDMACTL, Daemon, adapter, running_daemon
from test_doctor import member


@contextmanager
def only_host(config: str = "") -> Iterator[Daemon]:
    """The cluster's only host, with an adapter. pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        folder = Path(name)
        with running_daemon(folder, config + adapter(folder, 1) + member(folder)) as running:
            yield running


@contextmanager
def pvrdmactl(daemon: Daemon, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed at the end if it still runs."""
    process = subprocess.Popen([PVRDMACTL, "--api", str(daemon.api), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    guard = threading.Timer(GUARD_S, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()
