"""Programs of this machine's build that run in a guest: its glibc must not be older.

The guest has its own libibverbs with the providers. The other libraries are copied together with the programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.daemon import REPOSITORY
from testbed.initramfs import pack_tree

_FOLDER = "opt/pvrdma"
ENVIRONMENT = f"PATH=/{_FOLDER}/bin:$PATH LD_LIBRARY_PATH=/{_FOLDER}/lib"
# The guest's own libraries.
_GUESTS = re.compile(r"^(?:ld-linux|(?:libc|libm|libpthread|libdl|librt)\.so|libgcc_s|libibverbs|libnl-)")


def built(*names: str) -> list[Path]:
    """Files of the build that the tests use, by their paths in it."""
    build = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release")
    return [build / name for name in names]


def installed(*names: str) -> list[Path]:
    """Programs of this machine."""
    return [Path(shutil.which(name) or f"/usr/bin/{name}") for name in names]


def pack(target: Path, programs: Sequence[Path]) -> None:
    """Writes a cpio archive with the stripped programs and the libraries that the guest lacks. ENVIRONMENT finds them."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-guest-") as scratch:
        binaries, libraries = (Path(scratch) / _FOLDER / name for name in ("bin", "lib"))
        for folder in (binaries, libraries):
            folder.mkdir(parents=True)
        for program in programs:
            subprocess.run(["strip", "-o", str(binaries / program.name), str(program)], check=True)
            linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
            for name, path in re.findall(r"^\s*(\S+) => (/\S+)", linked, re.MULTILINE):
                if not _GUESTS.match(name):
                    shutil.copy(path, libraries / name)
        pack_tree(Path(scratch), target)
