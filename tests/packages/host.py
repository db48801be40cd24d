"""A host of a Debian release in namespaces, with the release's own systemd and apt and without network."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from machine import Machine
from packages import roots

_REPOSITORY = Path(__file__).resolve().parents[2]
# Not below /tmp: Debian 13's systemd mounts a file system there.
PACKAGES = Path(os.environ.get("PACKAGES", _REPOSITORY / "build/deb"))
OLDER = Path(os.environ.get("OLDER_PACKAGES", _REPOSITORY / "build/deb-older"))
# What tests look at a host with.
_TOOLS = ("apparmor", "openssl", "strace")
SUITES = [suite for suite in roots.RELEASES if any((PACKAGES / suite).glob("*.deb"))]


@dataclass
class Host:
    """A machine and the packages of its release."""

    suite: str
    machine: Machine

    def package(self, folder: Path, name: str) -> Path:
        """A package of this release in PACKAGES or OLDER."""
        return _package(folder, self.suite, name)

    def install(self, *packages: Path) -> None:
        self.machine.shell("DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends " + " ".join(map(str, packages)))

    def version(self, name: str) -> str:
        """The upstream version of a package of PACKAGES."""
        return field(self.package(PACKAGES, name), "Version").rpartition("-")[0]

    def of_service(self, name: str) -> str:
        return self.machine.shell(f"systemctl show --property {name} --value pvrdmad").strip()


def field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _package(folder: Path, suite: str, name: str) -> Path:
    (path,) = (folder / suite).glob(f"{name}_*.deb")
    return path


@contextmanager
def host_of(suite: str, name: str, *more: str, shown: tuple[Path, ...] = ()) -> Iterator[Host]:
    """A host that has what the package `name` depends on, and `more` Debian packages. It sees the folders `shown`."""
    if os.geteuid() != 0:
        pytest.skip("a machine in namespaces needs root")
    root = roots.to_install(suite, ", ".join([field(_package(PACKAGES, suite, name), "Depends"), *_TOOLS, *more]))
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    try:
        with closing(Machine(folder, PACKAGES, OLDER, *shown, root=root)) as machine:
            yield Host(suite, machine)
    finally:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink(missing_ok=True)
