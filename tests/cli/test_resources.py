"""A daemon that the system gives too little: it says so in one sentence, or serves.

Run by ctest (label cli), or as test_cli.py.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from test_cli import GUARD_S, IS_SANITIZED, adapter, pvrdmad, running_daemon

MIB = 1 << 20

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer's runtime needs address space and stacks of its own")


def limited(limit: str, command: list[str]) -> list[str]:
    """The command, under a limit of prlimit(1)."""
    return ["prlimit", limit, *command]


def test_without_room_for_its_threads_it_says_so(tmp_path: Path) -> None:
    """Each thread needs a stack in the address space. The less there is of that, the earlier a thread's start fails."""
    config = tmp_path / "pvrdmad.toml"
    config.write_text(f'[daemon]\napi_socket = "{tmp_path / "api.sock"}"\n{adapter(tmp_path, 1)}', encoding="utf-8")
    refused = 0
    for mib in range(96, 420, 24):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify = tmp_path / f"notify-{mib}"
        manager.bind(str(notify))
        daemon = subprocess.Popen(limited(f"--as={mib * MIB}", pvrdmad(tmp_path, "--config", str(config))),
                                  stderr=subprocess.PIPE, text=True, env={**os.environ, "NOTIFY_SOCKET": str(notify)})
        try:
            manager.settimeout(0.05)
            while daemon.poll() is None:
                try:
                    if manager.recv(100) == b"READY=1":
                        break
                except TimeoutError:
                    continue
            if daemon.poll() is None:
                daemon.terminate()
            log = daemon.communicate(timeout=GUARD_S)[1]
        finally:
            daemon.kill()
            daemon.wait()
            manager.close()
        if daemon.returncode == 0:
            continue
        refused += 1
        assert daemon.returncode in (2, 4), f"{mib} MiB: {daemon.returncode}: {log}"
        assert "pvrdmad: cannot " in log.splitlines()[-1], f"{mib} MiB: {log}"
    assert refused > 2


def test_a_long_range_ends_no_thread_whatever_the_limit_of_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the API reads this header by recursion."""
    monkeypatch.setattr("test_cli.pvrdmad", lambda *given: limited(f"--stack={MIB}:{MIB}", pvrdmad(*given)))
    with running_daemon(tmp_path, adapter(tmp_path, 1)) as daemon:
        for ranges in ("0-1," * 1900, "0" * 7900):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.settimeout(GUARD_S)
            client.connect(str(daemon.api))
            client.sendall(f"GET /v1/daemon HTTP/1.1\r\nHost: localhost\r\nRange: bytes={ranges.rstrip(',')}\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 ")
            client.close()
        assert daemon.process.poll() is None
        assert daemon.stop()[0] == 0
