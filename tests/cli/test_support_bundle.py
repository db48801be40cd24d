"""pvrdmactl support-bundle: the tar of a real daemon, and of none.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_support_bundle.py
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_cli import PVRDMACTL, adapter, run, running_daemon

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def contents(tar: Path) -> dict[str, str]:
    """The files by their names in the bundle's folder."""
    with tarfile.open(tar) as opened:
        files = {member.name: opened.extractfile(member) for member in opened.getmembers()}
        assert all(name.startswith("pvrdma-support/") and file is not None for name, file in files.items())
        return {name.removeprefix("pvrdma-support/"): file.read().decode() for name, file in files.items() if file is not None}


def test_a_running_daemon(folder: Path) -> None:
    tar, token, config = folder / "support.tar", folder / "api.token", folder / "pvrdmad.toml"
    token.write_text(f"{SECRET}\n", encoding="ascii")
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        config.write_text(f'[api]\ntoken_file = "{token}"\n', encoding="ascii")
        done = daemon.ctl("support-bundle", str(tar), "--config", str(config))
        assert (done.returncode, done.stderr) == (0, "")
        files = contents(tar)
        assert done.stdout.startswith(f"{tar}: {len(files)} files\n")
        assert tar.stat().st_mode & 0o777 == 0o600
        assert files["versions.txt"].startswith("pvrdmactl ")
        assert [each["name"] for each in json.loads(files["api/v1/adapters.json"])] == ["VM-01"]
        assert {"api/v1/version.json", "api/v1/process.json", "api/v1/paths.json", "api/v1/qps.json", "api/v1/stats.json"} <= set(files)
        assert "api/v1/watch.json" not in files, "it would never end"
        assert "# TYPE pvrdma_" in files["metrics.txt"]
        assert files["pvrdmad.toml"] == config.read_text(encoding="ascii")
        assert "healthy" in json.loads(files["doctor.json"])
        assert not any(SECRET in text for text in files.values())
        left_out = [line.removeprefix("left out: ") for line in done.stdout.splitlines()[1:]]
        assert files["missing.txt"].splitlines() == left_out
        assert any(line.startswith("api/v1/cluster.json: ") for line in left_out)  # this daemon is in no cluster

        again = daemon.ctl("support-bundle", str(tar))
        assert again.returncode == 1
        assert again.stderr == f"pvrdmactl: {tar} exists already: name another file\n"
        assert contents(tar) == files


def test_the_log_is_that_of_the_service(folder: Path) -> None:
    """A program stands for journalctl and prints its arguments: this machine's journal may have no lines of the service."""
    programs = folder / "bin"
    programs.mkdir()
    journalctl = programs / "journalctl"
    journalctl.write_text('#!/bin/sh\necho "journal: $*"\n', encoding="ascii")
    journalctl.chmod(0o755)
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        done = run(PVRDMACTL, "--api", str(daemon.api), "support-bundle", str(folder / "support.tar"),
                   env={"PATH": f"{programs}:{os.environ['PATH']}"})
        assert (done.returncode, done.stderr) == (0, "")
    said = contents(folder / "support.tar")["log.txt"]
    assert said.startswith("journal: ") and "--unit=pvrdmad" in said.split()


def test_no_daemon(folder: Path) -> None:
    tar, config = folder / "support.tar", folder / "none.toml"
    done = run(PVRDMACTL, "--api", str(folder / "none.sock"), "--json", "support-bundle", str(tar), "--config", str(config))
    assert (done.returncode, done.stderr) == (0, "")
    summary, files = json.loads(done.stdout), contents(tar)
    assert (summary["file"], sorted(summary["files"])) == (str(tar), sorted(files))
    assert any(line.startswith(f"api: the daemon cannot be reached at {folder}/none.sock") for line in summary["missing"])
    assert f"pvrdmad.toml: cannot read {config}: No such file or directory" in summary["missing"]
    assert "the daemon cannot be reached" in files["doctor.json"]


def test_a_folder_that_does_not_exist(folder: Path) -> None:
    done = run(PVRDMACTL, "support-bundle", str(folder / "none" / "support.tar"))
    assert done.returncode == 1
    assert done.stderr == f"pvrdmactl: cannot make {folder}/none/support.tar: No such file or directory\n"


def test_a_link_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "elsewhere")
    done = run(PVRDMACTL, "support-bundle", str(folder / "link"))
    assert (done.returncode, done.stderr) == (1, f"pvrdmactl: {folder}/link exists already: name another file\n")
    assert not (folder / "elsewhere").exists()
