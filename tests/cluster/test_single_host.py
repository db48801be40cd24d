"""A single host with a SQLite store: on a disk that fills up, and under another program's lock."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fleet.host import Host
from fleet.network import Network, address_of
from fleet.until import until
from harness import process
from harness.daemon import REPOSITORY

_NAME = "esx-01"
_HW = ("--hw", "14", "--memory", "512", "--reserve", "all", "--portgroup", "PG")
_LOGS = REPOSITORY / "build" / "cluster-logs" / "single-host"


class Disk:
    """A small file system that holds the store."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store.db"
        self._folder = folder
        self._filler = folder / "filler"

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Mounts it, and unmounts it when the block ends for any reason."""
        self._folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "pvrdma-test", str(self._folder)], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=True)

    def fill(self) -> None:
        """Writes until no block is free."""
        with open(self._filler, "ab", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        assert os.statvfs(self._folder).f_bavail == 0

    def clear(self) -> None:
        """Frees the space again."""
        self._filler.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    small = Disk(folder / "disk")
    try:
        with small.mounted():
            yield small
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def host(disk: Disk, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host with a switch and VM-01, whose adapter it serves, and with nothing left to write."""
    logs = _LOGS / request.node.name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    network = Network([_NAME])
    one = Host(_NAME, address_of(1), network, f'type = "sqlite"\npath = "{disk.store}"',
               disk.store.parents[1] / "host", logs, state=disk.store.parent)
    with ExitStack() as stack:
        stack.callback(network.close)
        network.open()
        stack.callback(lambda: print(process.tail(one.log)))  # pytest shows it if the test has failed
        stack.callback(one.close)
        one.start()
        one.ctl("dvs", "create", "Switch")
        one.ctl("dvs", "portgroup", "add", "Switch", "PG")
        one.ctl("dvs", "add-host", "Switch", _NAME)
        one.ctl("vm", "create", "VM-01", "--host", _NAME, *_HW)
        _wait_alive(one)
        _wait_served(one, "VM-01")
        yield one


def _store(host: Host) -> dict[str, Any]:
    state: dict[str, Any] = host.ctl("cluster", "get")["store"]
    return state


def _wait_alive(host: Host) -> None:
    """Waits until the host's live record is in the store."""
    until("the host is alive", lambda: host.ctl("host", "get", _NAME)["alive"])


def _wait_connected(host: Host) -> None:
    until("the store is back", lambda: _store(host)["connected"])


def _configuration(host: Host) -> list[Any]:
    return [host.ctl(what, "list") for what in ("dvs", "vm", "host", "adapter")]


def _wait_served(host: Host, *vms: str) -> None:
    until("the VMs' adapters are served", lambda: {adapter["name"] for adapter in host.ctl("adapter", "list")} == set(vms))


def _is_refused(host: Host, disk: Disk, reason: str, way_out: str) -> None:
    """Checks that an edit is refused, at first and while the store cannot be written, and that it changes
    nothing."""
    before = _configuration(host)
    assert [adapter["name"] for adapter in before[-1]] == ["VM-01"]
    for _ in range(3):
        sentence = host.refusal("dvs", "create", "Refused")
        for part in (str(disk.store), reason, way_out, "nothing was changed"):
            assert part in sentence, sentence
        until("the store counts as away", lambda: not _store(host)["connected"])
        assert reason in _store(host)["trouble"]
    assert _configuration(host) == before


def _edits_pass_and_survive(host: Host) -> None:
    """Checks that edits succeed without a restart, and that every acknowledged edit survives kill -9."""
    host.ctl("dvs", "create", "Late")
    host.ctl("vm", "create", "VM-02", "--host", _NAME, *_HW)
    _wait_served(host, "VM-01", "VM-02")
    before = _configuration(host)
    assert {dvs["name"] for dvs in before[0]} == {"Switch", "Late"}
    host.kill()
    host.start()
    _wait_alive(host)
    _wait_served(host, "VM-01", "VM-02")
    assert _configuration(host) == before


def test_the_disk_is_full_for_a_while(host: Host, disk: Disk) -> None:
    disk.fill()
    _is_refused(host, disk, "the disk is full", "free some space")
    disk.clear()
    _wait_connected(host)
    _edits_pass_and_survive(host)


def test_the_disk_is_full_at_the_start(host: Host, disk: Disk) -> None:
    """After kill -9 the dead process's live record cannot be removed yet."""
    disk.fill()
    host.kill()
    host.start()
    _wait_served(host, "VM-01")
    _is_refused(host, disk, "the disk is full", "free some space")
    assert not host.ctl("host", "get", _NAME)["alive"]
    disk.clear()
    _wait_connected(host)
    _wait_alive(host)
    _edits_pass_and_survive(host)


def test_another_program_locks_the_file(host: Host, disk: Disk) -> None:
    with closing(sqlite3.connect(disk.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        _is_refused(host, disk, "another program has locked the file", "end that program")
        other.execute("ROLLBACK")
        _wait_connected(host)
    _edits_pass_and_survive(host)
