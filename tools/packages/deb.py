"""Builds the .deb packages by debhelper, in a clean root of each Debian release, without network."""

from __future__ import annotations

import argparse
import email.utils
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packages import clean, roots
from testbed.progress import step

REPOSITORY = Path(__file__).resolve().parents[2]

_BUILD = r"""
cd /build/pvrdma
dpkg-buildpackage --build=binary --no-sign
lintian --allow-root --fail-on error --display-info ../*.changes
"""


def build(suite: str, tarball: Path, out: Path) -> list[Path]:
    """Builds the packages of a source tarball and puts them in `out`. RuntimeError with the end of the log if a step
    or lintian fails."""
    root = roots.to_build(suite)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as scratch, step(f"packages for Debian {suite}"):
        upper = Path(scratch) / "upper"
        _unpack(suite, tarball, upper / "build")
        clean.run(root, Path(scratch), _BUILD, out / "build.log")
        for old in out.glob("*.deb"):
            old.unlink()
        return [Path(shutil.copy(package, out)) for package in sorted((upper / "build").glob("*.deb"))]


def _unpack(suite: str, tarball: Path, folder: Path) -> None:
    """The sources in folder/pvrdma, with debian/ where debhelper looks for it."""
    folder.mkdir(parents=True)
    with tarfile.open(tarball) as archive:
        top = archive.getnames()[0].split("/")[0]
        made = archive.getmember(f"{top}/VERSION").mtime
        archive.extractall(folder)
    source = (folder / top).rename(folder / "pvrdma")
    shutil.copytree(source / "packaging/debian", source / "debian")
    version = (source / "VERSION").read_text(encoding="utf-8")
    maintainer = re.findall(r"^Maintainer: (.*)$", (source / "debian/control").read_text(encoding="utf-8"), re.MULTILINE)[0]
    (source / "debian/changelog").write_text(
        f"pvrdma ({version}-1+deb{roots.RELEASES[suite]}) {suite}; urgency=medium\n\n  * New release; see CHANGELOG.md.\n\n"
        f" -- {maintainer}  {email.utils.formatdate(made)}\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """The command line of tools/deb."""
    parser = argparse.ArgumentParser(prog="tools/deb", description=__doc__)
    parser.add_argument("--suite", action="append", choices=list(roots.RELEASES), help="a Debian release; may be repeated (default: all)")
    parser.add_argument("--version", help="instead of what tools/version says")
    parser.add_argument("--commit", help="whose packages (default: the last one)", default="HEAD")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/deb", metavar="DIR",
                        help="for each release, DIR/SUITE gets its packages (default: build/deb)")
    options = parser.parse_args(arguments)
    dist = [str(REPOSITORY / "tools/dist"), options.version or "", options.commit]
    try:
        tarball = Path(subprocess.run(dist, check=True, text=True, stdout=subprocess.PIPE).stdout.strip())
        for suite in options.suite or roots.RELEASES:
            for package in build(suite, tarball, options.out.resolve() / suite):
                print(package)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    return 0
