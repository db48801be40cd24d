"""tools/setup: it names the packages before it changes the machine. dpkg, apt and sudo are stubs, so nothing is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "tools" / "setup"
STUBS = {
    # Its last argument is the package.
    "dpkg-query": 'for package; do :; done\ncase " $MISSING " in *" $package "*) exit 1 ;; esac\necho installed\n',
    "apt-get": 'echo "$*" >> "$CALLS"\nexit "$APT_EXIT"\n',
    "sudo": 'exec "$@"\n',
}


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """The folder of the stubs."""
    for name, body in STUBS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}")
        program.chmod(0o755)
    return tmp_path


def run_setup(stubs: Path, *options: str, missing: str, apt_exit: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs tools/setup on a machine that lacks these packages."""
    environment = os.environ | {"PATH": f"{stubs}:{os.environ['PATH']}", "MISSING": missing, "APT_EXIT": str(apt_exit),
                                "CALLS": str(stubs / "calls")}
    return subprocess.run([SETUP, *options], text=True, capture_output=True, timeout=60, check=False, env=environment)


def calls(stubs: Path) -> str:
    """What apt-get was asked to do."""
    path = stubs / "calls"
    return path.read_text() if path.exists() else ""


def test_the_packages_are_named_first(stubs: Path) -> None:
    done = run_setup(stubs, missing="ninja-build mold")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "setup: this installs 2 package(s) and what they depend on: ninja-build mold"
    update, install = calls(stubs).splitlines()
    assert update.endswith(" update") and install.endswith(" ninja-build mold")


def test_a_failure_of_apt_ends_it(stubs: Path) -> None:
    done = run_setup(stubs, missing="mold", apt_exit=100)
    assert done.returncode == 1
    assert "setup: this installs 1 package(s)" in done.stdout and "setup: failed: " in done.stderr


def test_check_installs_nothing(stubs: Path) -> None:
    done = run_setup(stubs, "--check", missing="ninja-build mold")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "setup: missing: ninja-build mold\n")
    assert calls(stubs) == ""


def test_nothing_is_missing(stubs: Path) -> None:
    done = run_setup(stubs, missing="")
    assert done.returncode == 0
    assert done.stdout.startswith("setup: all ") and done.stdout.endswith(" packages are installed\n")
    assert calls(stubs) == ""
