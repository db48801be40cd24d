"""Builds a Debian root with mmdebstrap: packages unpacked, none configured, the driver compiled inside.

The root never runs as an installed system, so `--variant=extract` is enough, without the maintainer scripts and the
initramfs that they would build. The result is unpacked as ordinary files of the calling user.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from testbed import apt, cache
from testbed.progress import step
from testbed.recipes import RootRecipe

_HERE = Path(__file__).resolve().parent
_BUILD_DRIVERS = _HERE / "guest" / "build-drivers"
_UNPACK_ALONE = _HERE / "guest" / "unpack-alone"
_NOT_NEEDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# Debian 12's packages still have /bin and /lib as folders, and a root with separate folders confuses tools of both
# suites.
_MERGE_USR = ('for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -sfn "usr/$d" "$1/$d"; done')


def ensure(recipe: RootRecipe) -> Path:
    """The root of `recipe`, from the cache if it is there."""
    contents = (recipe.suite, recipe.packages, recipe.backports, recipe.alone)
    key = cache.key_of(repr(contents), Path(__file__), _BUILD_DRIVERS, _UNPACK_ALONE)
    return cache.ensure(f"root-{recipe.suite}", key, lambda folder: _build(recipe, folder))


def _build(recipe: RootRecipe, folder: Path) -> None:
    archive = apt.mirror()
    sources = [f"deb {archive} {recipe.suite} main"]
    if recipe.backports:
        sources.append(f"deb {archive} {recipe.suite}-backports main")
    log_path = cache.folder() / f"root-{recipe.suite}.log"
    with tempfile.TemporaryDirectory(prefix="pvrdma-root-") as scratch, open(log_path, "w", encoding="utf-8") as log:
        os.chmod(scratch, 0o755)  # mmdebstrap's own user must read the files below when it runs unprivileged
        command = _mmdebstrap(recipe, sources, Path(scratch))
        with step(f"Debian {recipe.suite} root: download, unpack, compile drivers"):
            producer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
            unpack = subprocess.run(["tar", "-x", "--no-same-owner", "--exclude=./dev", "-C", str(folder)],
                                    stdin=producer.stdout, stderr=log, check=False)
            assert producer.stdout is not None
            producer.stdout.close()
            failed = producer.wait() != 0 or unpack.returncode != 0
    if failed:
        tail = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-25:]
        raise RuntimeError(f"building the Debian {recipe.suite} root failed; the end of {log_path}:\n" + "\n".join(tail))


def _mmdebstrap(recipe: RootRecipe, sources: list[str], scratch: Path) -> list[str]:
    settings = scratch / "apt.conf"
    settings.write_text(apt.settings(), encoding="utf-8")
    pins = scratch / "backports"
    pins.write_text("".join(f"Package: {package}\nPin: release n={recipe.suite}-backports\nPin-Priority: 990\n\n"
                            for package in recipe.backports), encoding="utf-8")
    return [
        "mmdebstrap",
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        "--variant=extract",
        "--format=tar",
        f"--aptopt={settings}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_NEEDED),
        f"--setup-hook={_MERGE_USR}",
        f"--setup-hook=copy-in {pins} /etc/apt/preferences.d",
        f"--extract-hook={_BUILD_DRIVERS}",
        *([f'--extract-hook={_UNPACK_ALONE} "$1" {" ".join(recipe.alone)}'] if recipe.alone else []),
        *(f"--include={package}" for package in recipe.packages),
        recipe.suite,
        "-",
        *sources,
    ]
