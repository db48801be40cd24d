"""Builds the .rpm package in the clean root of a Debian release, without network. No RPM distribution takes part, so the
packages that it needs to build are Debian's, and their RPM names are not checked."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packages import clean, roots
from testbed.progress import step

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = "bookworm"

_BUILD = r"""
cd /build
tarball=$(echo pvrdma-*.tar.gz)
version=${tarball#pvrdma-}
rpmbuild -tb --nodeps --define "_topdir /build" --define "pvrdma_version ${version%.tar.gz}" "$tarball"
"""


def build(tarball: Path, out: Path) -> list[Path]:
    """Builds the package of a source tarball and puts it in `out`. RuntimeError with the end of the log if that fails."""
    root = roots.to_build(SUITE)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as scratch, step("RPM package"):
        folder = Path(scratch) / "upper/build"
        folder.mkdir(parents=True)
        shutil.copy(tarball, folder)
        clean.run(root, Path(scratch), _BUILD, out / "build.log")
        for old in out.glob("*.rpm"):
            old.unlink()
        return [Path(shutil.copy(package, out)) for package in sorted((folder / "RPMS").rglob("*.rpm"))]


def main(arguments: list[str]) -> int:
    """The command line of tools/rpm."""
    parser = argparse.ArgumentParser(prog="tools/rpm", description=__doc__)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/rpm", metavar="DIR",
                        help="where the package goes (default: build/rpm)")
    options = parser.parse_args(arguments)
    try:
        tarball = Path(subprocess.run([REPOSITORY / "tools/dist"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip())
        for package in build(tarball, options.out.resolve()):
            print(package)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"rpm: {error}", file=sys.stderr)
        return 1
    return 0
