"""Makes a container image (OCI) of the Debian package, without network: a small Debian system with the package, packed by
buildah."""

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
SUITE = "trixie"

_INSTALL = r"""
dpkg --install /build/*.deb
cd /
tar --create --file=/build/root.tar --one-file-system --sort=name --mtime="@$(stat --format %Y /build/*.deb)" \
  --exclude=./build --exclude=./ccache --exclude='./proc/*' --exclude='./dev/*' --exclude='./run/*' --exclude='./tmp/*' \
  --exclude='./var/cache/*' --exclude='./var/lib/apt/*' --exclude='./var/log/*' .
"""
# The user is that of the package. Whoever runs the image names the user of the host who owns the folders.
_CONFIGURATION = ("--user", "pvrdma", "--entrypoint", '["/usr/sbin/pvrdmad"]', "--cmd", "--config /etc/pvrdma/pvrdmad.toml")


def build(package: Path, out: Path) -> Path:
    """Makes the image of a package and puts it in `out`. RuntimeError if a step fails."""
    root = roots.of_an_image(SUITE, _field(package, "Depends"))
    version = _field(package, "Version").rpartition("-")[0]
    image = out / f"pvrdma-{version}.oci.tar"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as scratch, step("container image"):
        folder = Path(scratch) / "upper/build"
        folder.mkdir(parents=True)
        (folder / package.name).write_bytes(package.read_bytes())
        clean.run(root, Path(scratch), _INSTALL, out / "build.log")
        _pack(folder / "root.tar", image, version, Path(scratch) / "storage")
    return image


def _pack(files: Path, image: Path, version: str, storage: Path) -> None:
    def buildah(*arguments: str | Path) -> str:
        command = ["buildah", "--storage-driver", "vfs", "--root", storage / "root", "--runroot", storage / "run", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"buildah {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    container = buildah("from", "scratch")
    buildah("add", container, files, "/")
    buildah("config", *_CONFIGURATION, "--label", f"org.opencontainers.image.version={version}", container)
    image.unlink(missing_ok=True)
    # A tag of an image has no "+" and no "~".
    buildah("commit", "--quiet", container, f"oci-archive:{image}:pvrdma:{version.replace('+', '-').replace('~', '-')}")


def _field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(arguments: list[str]) -> int:
    """The command line of tools/oci."""
    parser = argparse.ArgumentParser(prog="tools/oci", description=__doc__)
    parser.add_argument("--packages", type=Path, default=REPOSITORY / "build/deb" / SUITE, metavar="DIR",
                        help=f"the folder with the Debian package (default: build/deb/{SUITE})")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/oci", metavar="DIR",
                        help="where the image goes (default: build/oci)")
    options = parser.parse_args(arguments)
    packages = sorted(options.packages.glob("pvrdma_*.deb"))
    if not packages:
        print(f"oci: there is no {options.packages}/pvrdma_*.deb: run make deb SUITE={SUITE}", file=sys.stderr)
        return 1
    if shutil.which("buildah") is None:
        print("oci: there is no buildah: apt install buildah", file=sys.stderr)
        return 1
    try:
        print(build(packages[0], options.out.resolve()))
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"oci: {error}", file=sys.stderr)
        return 1
    return 0
