"""The RPM package: its files, in the clean root that built it, which has the libraries. `make rpm` makes it.

No RPM distribution takes part: neither its dependencies nor its scripts are tried.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from packages import clean, roots, rpm

_PACKAGES = sorted(Path(os.environ.get("RPM_PACKAGES", rpm.REPOSITORY / "build/rpm")).glob("pvrdma-*.rpm"))
_TRY = r"""
groupadd --system pvrdma
useradd --system --gid pvrdma pvrdma
rpm --install --nodeps --noscripts /build/*.rpm
rpm --query --list pvrdma
rpm --query --configfiles pvrdma
pvrdmactl --version
mkdir -p /run/pvrdma
pvrdmad --config /etc/pvrdma/pvrdmad.toml --check
"""


@pytest.mark.skipif(not _PACKAGES, reason="there is no build/rpm/pvrdma-*.rpm: make rpm")
@pytest.mark.skipif(os.geteuid() != 0, reason="a clean root needs root")
def test_the_installed_programs_run(tmp_path: Path) -> None:
    (package,) = _PACKAGES
    scratch = tmp_path / "scratch"
    folder = scratch / "upper/build"
    folder.mkdir(parents=True)
    shutil.copy(package, folder)
    clean.run(roots.to_build(rpm.SUITE), scratch, _TRY, tmp_path / "log")
    printed = (tmp_path / "log").read_text(encoding="utf-8")
    version = package.name.split("-")[1]
    assert f"pvrdmactl {version}\n" in printed and "is valid" in printed, printed
    lines = printed.splitlines()
    assert lines.count("/etc/pvrdma/pvrdmad.toml") == 2, "a file, and a configuration file"
    assert {"/usr/sbin/pvrdmad", "/usr/bin/pvrdmactl", "/usr/lib/systemd/system/pvrdmad.service"} <= set(lines)
