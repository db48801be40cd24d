"""pvrdmactl watch and the web client's files, against a real daemon that is confined as always.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_watch.py
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import platform
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams import only_host, pvrdmactl
from test_cli import GUARD_S, Daemon

_WRITE = {"x86_64": 1, "aarch64": 64}[platform.machine()]  # the system call


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """The cluster's only host."""
    with only_host() as running:
        yield running


def data_of(process: subprocess.Popen[str], event: str) -> Any:
    """The data of the next event of this name."""
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == event:
            return told["data"]
    raise AssertionError(f"the stream ended before the event {event}")


def test_watch_prints_what_changes_until_an_interrupt(daemon: Daemon) -> None:
    with pvrdmactl(daemon, "watch") as process:
        assert data_of(process, "hello")["host"] == "esx-01"
        assert data_of(process, "inventory")["dvs"] == []
        assert data_of(process, "stats")["adapters"][0][:3] == ["VM-01", "off", True]
        assert daemon.ctl("dvs", "create", "DSwitch").returncode == 0
        while not (told := data_of(process, "inventory")["dvs"]):
            pass  # it tells what the host has found, too
        assert told == daemon.ctl_json("dvs", "list")
        process.send_signal(signal.SIGINT)
        assert process.wait(GUARD_S) == 0


def test_watch_ends_while_its_output_waits_for_a_reader(daemon: Daemon) -> None:
    with pvrdmactl(daemon, "watch") as process:
        data_of(process, "hello")
        waits_to_write = [str(_WRITE), "0x1"]
        # A few events fill it.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        deadline = time.monotonic() + GUARD_S
        while Path(f"/proc/{process.pid}/syscall").read_text(encoding="ascii").split()[:2] != waits_to_write:
            assert time.monotonic() < deadline, "its output is never full"
            assert daemon.ctl("dvs", "create", "DSwitch").returncode == 0
            assert daemon.ctl("dvs", "delete", "DSwitch").returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(GUARD_S) == 0


def test_a_daemon_that_stops_ends_the_stream(daemon: Daemon) -> None:
    with pvrdmactl(daemon, "watch") as process:
        data_of(process, "stats")
        assert daemon.stop()[0] == 0
        _, errors = process.communicate(timeout=GUARD_S)
        assert process.returncode == 1
        assert errors.startswith("pvrdmactl: the daemon ")


def test_the_fifth_watcher_of_a_user_is_refused(daemon: Daemon) -> None:
    watchers = [pvrdmactl(daemon, "watch") for _ in range(4)]
    try:
        for watcher in watchers:
            data_of(watcher.__enter__(), "hello")
        refused = daemon.ctl("watch")
        assert refused.returncode == 1
        user = f"uid {os.getuid()}"
        assert refused.stderr == (f"pvrdmactl: {user} gets no further watcher of this listener, which has at most 4 of one client and 6 "
                                  f"of all ({user}: 4): end one, or ask for the objects from time to time\n")
        assert daemon.ctl("adapter", "list").returncode == 0
    finally:
        for watcher in watchers:
            watcher.__exit__(None, None, None)


def get(daemon: Daemon, path: str) -> http.client.HTTPResponse:
    """A request as a browser sends it through a port that is forwarded to the socket."""
    connection = http.client.HTTPConnection("localhost", 8443)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.api))
    connection.request("GET", path, headers={"Sec-Fetch-Site": "same-origin"})
    return connection.getresponse()


def test_the_page_comes_through_a_forwarded_port(daemon: Daemon) -> None:
    assert get(daemon, "/").headers["Location"] == "/ui/"
    page = get(daemon, "/ui/")
    assert page.status == 200
    names = re.findall(r'(?:src|href)="([^"]+)"', page.read().decode())
    assert names
    for name in names:
        assert get(daemon, f"/ui/{name}").status == 200
    assert "web" in json.loads(get(daemon, "/v1/version").read())["features"]
