"""Complete Debian systems in folders, made by mmdebstrap: to build packages in, to install them in, and to make images of.

Unlike the roots of the VM tests (testbed/debroot.py), their packages are configured and their files belong to the
users of the system. So making and using them needs root.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from testbed import apt, cache
from testbed.progress import step

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
# Debian's releases, by suite.
RELEASES = {"bookworm": 12, "trixie": 13}

# lintian checks the packages, and rpm builds its own kind. ccache makes a second build quick; CMakeLists.txt uses it when it is
# there.
_BUILD_TOOLS = ("ccache", "lintian", "rpm")
# What a host has that is no dependency of the packages. Tests look with procps.
_HOST_PACKAGES = ("systemd-sysv", "procps")


def to_build(suite: str) -> Path:
    """A root with what packaging/debian/control needs to build."""
    control = (PACKAGING / "debian/control").read_text(encoding="utf-8")
    needed = re.findall(r"^Build-Depends: (.*(?:\n .*)*)", control, re.MULTILINE)
    return _ensure("build", suite, "buildd", _BUILD_TOOLS, ("build-dep", str(PACKAGING)), needed[0])


def to_install(suite: str, dependencies: str) -> Path:
    """A root with systemd, and with `dependencies` (of a package's control file) of the packages to try."""
    return _ensure("host", suite, "apt", _HOST_PACKAGES, ("satisfy", dependencies), dependencies)


def to_boot(suite: str, dependencies: str, backports: tuple[str, ...] = ()) -> Path:
    """A root with systemd and Debian's kernel, and with `dependencies`. The packages `backports` come from SUITE-backports."""
    return _ensure("boot", suite, "apt", (*_HOST_PACKAGES, "linux-image-amd64"), ("satisfy", dependencies), dependencies, backports)


def of_an_image(suite: str, dependencies: str) -> Path:
    """A root with `dependencies` and what no Debian system can be without. It has no apt and no systemd."""
    return _ensure("image", suite, "essential", (), ("satisfy", f"systemd-standalone-sysusers, {dependencies}"), dependencies)


def _ensure(kind: str, suite: str, variant: str, packages: tuple[str, ...], also: tuple[str, ...], dependencies: str,
            backports: tuple[str, ...] = ()) -> Path:
    if os.geteuid() != 0:
        raise RuntimeError("a complete Debian root can only be made by root")
    key = cache.key_of(repr((suite, variant, packages, dependencies, backports)), Path(__file__))

    def build(folder: Path) -> None:
        with step(f"Debian {suite} root: {kind}"):
            _mmdebstrap(suite, variant, packages, also, backports, folder)

    return cache.ensure(f"{kind}-{suite}", key, build)


def _mmdebstrap(suite: str, variant: str, packages: tuple[str, ...], also: tuple[str, ...], backports: tuple[str, ...],
                folder: Path) -> None:
    """`also`: an apt-get command that runs from outside, with the settings and the proxies of this machine."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as settings:
        settings.write(apt.settings())
        settings.flush()
        archives = [f"deb {apt.mirror()} {suite} main"]
        if backports:
            archives.append(f"deb {apt.mirror()} {suite}-backports main")
        pins = "".join(f"Package: {package}\nPin: release n={suite}-backports\nPin-Priority: 990\n\n" for package in backports)
        done = subprocess.run(
            # Its mounts of /proc, /sys and /dev end with it, also if it is killed and the cache removes the folder.
            ["unshare", "--mount", "--propagation=private", "mmdebstrap", "--mode=root", "--format=directory",
             f"--variant={variant}", *(f"--include={package}" for package in packages), "--dpkgopt=force-unsafe-io", f"--aptopt={settings.name}", '--aptopt=APT::Install-Recommends "false"',
             f"--essential-hook=printf %s {shlex.quote(pins)} >\"$1\"/etc/apt/preferences.d/backports",
             "--customize-hook=APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get --yes -oDPkg::Chroot-Directory=\"$1\" " + shlex.join(also),
             suite, str(folder), *archives],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise RuntimeError(f"building the Debian {suite} root failed:\n{tail}")
