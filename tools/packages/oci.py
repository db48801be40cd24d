"""Makes container images (OCI) of the Debian package, without network: small Debian systems with the package, packed by
buildah. One runs the daemon, the other one programs for CI."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Image:
    """An image: its name, the Debian packages besides those that our package needs, and buildah's settings of it."""

    name: str
    more: tuple[str, ...]
    configuration: tuple[str, ...]


IMAGES = (
    # The user is that of the package. Whoever runs the image names the user of the host who owns the folders.
    Image("pvrdma", (), ("--user", "pvrdma", "--entrypoint", '["/usr/sbin/pvrdmad"]', "--cmd", "--config /etc/pvrdma/pvrdmad.toml")),
    Image("pvrdma-ci", ("ibverbs-providers", "ibverbs-utils", "perftest"), ("--user", "nobody", "--cmd", "/bin/bash")),
)


def build(image: Image, package: Path, out: Path) -> Path:
    """Makes an image of the package and puts it in `out`. RuntimeError if a step fails."""
    root = roots.of_an_image(SUITE, ", ".join([_field(package, "Depends"), *image.more]))
    version = _field(package, "Version").rpartition("-")[0]
    file = out / f"{image.name}-{version}.oci.tar"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".work-", dir=out) as scratch, step(f"container image {image.name}"):
        folder = Path(scratch) / "upper/build"
        folder.mkdir(parents=True)
        (folder / package.name).write_bytes(package.read_bytes())
        clean.run(root, Path(scratch), _INSTALL, out / "build.log")
        _pack(image, version, folder / "root.tar", file, Path(scratch) / "storage")
    return file


def _pack(image: Image, version: str, files: Path, file: Path, storage: Path) -> None:
    def buildah(*arguments: str | Path) -> str:
        command = ["buildah", "--storage-driver", "vfs", "--root", storage / "root", "--runroot", storage / "run", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"buildah {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    container = buildah("from", "scratch")
    buildah("add", container, files, "/")
    buildah("config", *image.configuration, "--label", f"org.opencontainers.image.version={version}", container)
    file.unlink(missing_ok=True)
    # A tag of an image has no "+" and no "~".
    buildah("commit", "--quiet", container, f"oci-archive:{file}:{image.name}:{version.replace('+', '-').replace('~', '-')}")


def _field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(arguments: list[str]) -> int:
    """The command line of tools/oci."""
    parser = argparse.ArgumentParser(prog="tools/oci", description=__doc__)
    parser.add_argument("--packages", type=Path, default=REPOSITORY / "build/deb" / SUITE, metavar="DIR",
                        help=f"the folder with the Debian package (default: build/deb/{SUITE})")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/oci", metavar="DIR",
                        help="where the images go (default: build/oci)")
    options = parser.parse_args(arguments)
    packages = sorted(options.packages.glob("pvrdma_*.deb"))
    if not packages:
        print(f"oci: there is no {options.packages}/pvrdma_*.deb: run make deb SUITE={SUITE}", file=sys.stderr)
        return 1
    if shutil.which("buildah") is None:
        print("oci: there is no buildah: apt install buildah", file=sys.stderr)
        return 1
    try:
        for image in IMAGES:
            print(build(image, packages[0], options.out.resolve()))
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"oci: {error}", file=sys.stderr)
        return 1
    return 0
