"""A node of processes ends whole, also when a step of its start or its end fails. No VM."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster, Setup
from harness.daemon import Adapter, Daemon
from harness.mixed import Mixed
from harness.process_node import ProcessJob, ProcessNode

_ADDRESS, _ADDRESS6, _MAC = "192.168.11.81", "fd00:11::81", "52:54:00:12:34:81"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with one adapter for a node."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as folder:
        run = Path(folder)
        daemon = Daemon([Adapter("NODE-01", run / "node-01.sock", _MAC, 18, doorbells="mapped")], run, tmp_path)
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.stop()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the next node makes for itself."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as folder:
        made = Path(folder) / "node"

        def make(**_: str) -> str:
            made.parent.chmod(0o755)  # the daemon's user passes through
            made.mkdir()
            return str(made)

        monkeypatch.setattr(tempfile, "mkdtemp", make)
        yield made


def _users_of(folder: Path) -> list[str]:
    """The command lines that name the folder."""
    lines = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in line:
            lines.append(line)
    return lines


def test_node_whose_start_fails_leaves_nothing(daemon: Daemon, runtime: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        ProcessNode(daemon.api, daemon.adapters[0], "no address", _ADDRESS6, tmp_path)
    assert not runtime.exists()


def test_node_ends_its_standin_when_a_program_cannot_be_ended(daemon: Daemon, runtime: Path, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    node = ProcessNode(daemon.api, daemon.adapters[0], _ADDRESS, _ADDRESS6, tmp_path)
    assert _users_of(runtime)

    def fail(_: ProcessJob) -> None:
        raise PermissionError

    monkeypatch.setattr(ProcessJob, "kill", fail)
    with pytest.raises(PermissionError):
        node.close()
    assert not _users_of(runtime)
    assert not runtime.exists()


def test_vm_ends_when_the_node_beside_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        def close(self) -> None:
            raise TimeoutError

    closed = []
    mixed = Mixed(Setup(), tmp_path)
    monkeypatch.setattr(mixed, "_node", Stuck())
    monkeypatch.setattr(Cluster, "close", lambda _: closed.append(True))
    with pytest.raises(TimeoutError):
        mixed.close()
    assert closed
