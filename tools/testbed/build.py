"""Makes sure that everything for the VM tests exists, and says where it is."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from testbed import cache, debroot, initramfs, rootexec
from testbed.progress import step
from testbed.recipes import ROOTS, RootRecipe, root_of_suite

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Testbed:
    """Where QEMU is, and one guest's kernel and file systems."""

    qemu_root: Path
    image: Path
    kernel_release: str

    @property
    def kernel(self) -> Path:
        """The guest's Linux, for QEMU's -kernel."""
        return self.image / "kernel"

    def archive(self, overlay: str) -> Path:
        """The cpio archive of an overlay ("base", "nvme", ...)."""
        path = self.image / f"{overlay}.cpio"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in self.image.glob("*.cpio")))
            raise ValueError(f"the {self.kernel_release} guest has no overlay '{overlay}'; it has: {known}")
        return path

    def qemu(self) -> list[str]:
        """The start of a QEMU command line: the program and the path of its firmware."""
        share = self.qemu_root / "usr/share"
        return [*rootexec.command(self.qemu_root, "/usr/bin/qemu-system-x86_64"),
                "-L", str(share / "qemu"), "-L", str(share / "seabios")]

    def qemu_environment(self) -> dict[str, str]:
        """Environment variables that QEMU needs besides the caller's."""
        return {"QEMU_MODULE_DIR": str(self.qemu_root / "usr/lib/x86_64-linux-gnu/qemu")}


def ensure(suite: str = ROOTS[0].suite) -> Testbed:
    """Builds everything that is missing for guests of this Debian suite. If nothing is, it returns at once and
    needs no network."""
    qemu_root = debroot.ensure(ROOTS[0])
    recipe = root_of_suite(suite)
    root = debroot.ensure(recipe)
    image = cache.ensure(f"guest-{suite}", _image_key(root, recipe), lambda out: _pack(root, recipe, out))
    return Testbed(qemu_root=qemu_root, image=image, kernel_release=initramfs.kernel_release(root))


def main(arguments: list[str]) -> int:
    """The command line of tools/testbed/build."""
    parser = argparse.ArgumentParser(prog="tools/testbed/build", description=__doc__)
    parser.add_argument("--suite", action="append", choices=[recipe.suite for recipe in ROOTS],
                        help="the guest's Debian suite; may be repeated (default: %s)" % ROOTS[0].suite)
    options = parser.parse_args(arguments)
    try:
        for suite in options.suite or [ROOTS[0].suite]:
            testbed = ensure(suite)
            print(f"testbed: guest Debian {suite}, Linux {testbed.kernel_release} in {testbed.image}, QEMU in {testbed.qemu_root}")
    except (RuntimeError, OSError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


def _image_key(root: Path, recipe: RootRecipe) -> str:
    scripts = [path for folder in (_HERE / "guest", initramfs.PROGRAM_SOURCES)
               for path in sorted(folder.iterdir()) if path.is_file()]
    return cache.key_of(root.name, repr(recipe.overlays), _HERE / "initramfs.py", _HERE / "kernel_image.py", *scripts)


def _pack(root: Path, recipe: RootRecipe, out: Path) -> None:
    with step(f"guest image of Debian {recipe.suite}"):
        initramfs.pack(root, recipe, out)
