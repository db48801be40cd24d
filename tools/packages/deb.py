"""Builds the .deb packages by debhelper, in a clean root of each Debian release, without network."""

from __future__ import annotations

import argparse
import email.utils
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packages import roots
from testbed import cache
from testbed.progress import step

REPOSITORY = Path(__file__).resolve().parents[2]

# Arguments: the root, a folder with the changes to it, a compiler cache. The namespaces end with the build.
_ENTER = r"""
set -eu
mkdir "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mount -t proc proc "$2/root/proc"
mkdir "$2/root/ccache"
mount --bind "$3" "$2/root/ccache"
exec chroot "$2/root" env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 CCACHE_DIR=/ccache sh -euc "$4"
"""
_BUILD = r"""
cd /build/pvrdma
dpkg-buildpackage --build=binary --no-sign
lintian --allow-root --fail-on error --display-info ../*.changes
"""


def build(suite: str, tarball: Path, out: Path) -> list[Path]:
    """Builds the packages of a source tarball and puts them in `out`. RuntimeError with the end of the log if a step
    or lintian fails."""
    root = roots.to_build(suite)
    compiled = Path(os.environ.get("CCACHE_DIR") or cache.folder().parent / "ccache")
    compiled.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    log = out / "build.log"
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as scratch, step(f"packages for Debian {suite}"):
        upper = Path(scratch) / "upper"
        _unpack(suite, tarball, upper / "build")
        with log.open("wb") as output:
            done = subprocess.run(["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh",
                                   str(root), scratch, str(compiled), _BUILD], stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
            raise RuntimeError(f"building the packages for {suite} failed; the end of {log}:\n" + "\n".join(tail))
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
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/deb", metavar="DIR",
                        help="for each release, DIR/SUITE gets its packages (default: build/deb)")
    options = parser.parse_args(arguments)
    dist = [str(REPOSITORY / "tools/dist"), *([options.version] if options.version else [])]
    try:
        tarball = Path(subprocess.run(dist, check=True, text=True, stdout=subprocess.PIPE).stdout.strip())
        for suite in options.suite or roots.RELEASES:
            for package in build(suite, tarball, options.out.resolve() / suite):
                print(package)
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    return 0
