"""tools/version and tools/dist: what names the sources, and that their tarball is reproducible.

Run by ctest (label cli), or: /usr/bin/python3 -m pytest tests/cli/test_dist.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GUARD_S = 60
PROJECT_VERSION = "".join(re.findall(r"^project\(.* VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text(), re.MULTILINE))

pytestmark = pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="these sources are no git clone")


def run(folder: Path, *command: str, umask: int = 0o022, **environment: str) -> str:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, umask=umask, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def git(clone: Path, *arguments: str) -> str:
    return run(clone, "git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false", *arguments)


def a_clone(folder: Path) -> Path:
    """The last commit, without its tags, and this tree's tools."""
    run(folder.parent, "git", "clone", "--quiet", "--no-tags", "--shared", str(REPOSITORY), str(folder))
    for tool in ("version", "dist"):
        shutil.copy(REPOSITORY / "tools" / tool, folder / "tools")
    return folder


def test_without_a_tag_the_version_is_that_of_cmake(tmp_path: Path) -> None:
    clone = a_clone(tmp_path / "clone")
    assert run(clone, "tools/version") == PROJECT_VERSION
    git(clone, "tag", "not-a-version")
    assert run(clone, "tools/version") == PROJECT_VERSION


def test_a_tag_is_the_version_and_later_commits_count_from_it(tmp_path: Path) -> None:
    clone = a_clone(tmp_path / "clone")
    git(clone, "tag", "v7.1.0-rc1")
    assert run(clone, "tools/version") == "7.1.0~rc1"
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "one")
    after_candidate = run(clone, "tools/version")
    assert re.fullmatch(r"7\.1\.0~rc1\+1\.g[0-9a-f]{7,}", after_candidate)
    git(clone, "tag", "v7.1.0")
    assert run(clone, "tools/version") == "7.1.0"
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "two")
    after_release = run(clone, "tools/version")
    assert re.fullmatch(r"7\.1\.0\+1\.g[0-9a-f]{7,}", after_release)
    ages = ["7.1.0~rc1", after_candidate, "7.1.0", after_release, "7.1.1"]
    for older, newer in zip(ages, ages[1:]):
        run(clone, "dpkg", "--compare-versions", older, "lt", newer)


def test_the_same_commit_makes_the_same_tarball(tmp_path: Path) -> None:
    """Whatever the umask, the time zone, the files' times and git's configuration."""
    first, second = a_clone(tmp_path / "first"), a_clone(tmp_path / "second")
    git(second, "config", "tar.umask", "0077")
    for path in second.iterdir():
        os.utime(path, (0, 0))
    one = Path(run(first, "tools/dist", TZ="UTC", LC_ALL="C"))
    two = Path(run(second, "tools/dist", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8"))
    assert one != two and one.name == two.name == f"pvrdma-{PROJECT_VERSION}.tar.gz"
    assert one.read_bytes() == two.read_bytes()
    assert [path.name for path in one.parent.iterdir()] == [one.name]


def test_a_tarball_knows_its_version(tmp_path: Path) -> None:
    clone = a_clone(tmp_path / "clone")
    tarball = Path(run(clone, "tools/dist", "7.1.0"))
    with tarfile.open(tarball) as archive:
        names = set(archive.getnames())
        archive.extractall(tmp_path / "unpacked")
    tracked = git(clone, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert {f"pvrdma-7.1.0/{name}" for name in (*tracked, "VERSION")} <= names
    assert {name.split("/")[0] for name in names} == {"pvrdma-7.1.0"}
    shutil.copy(REPOSITORY / "tools/version", tmp_path / "unpacked/pvrdma-7.1.0/tools/version")
    assert run(tmp_path / "unpacked/pvrdma-7.1.0", "tools/version") == "7.1.0"
