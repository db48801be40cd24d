"""Packs guest images (cpio archives for the kernel's initial file system) from a Debian root.

The base archive boots. Each further overlay is a separate archive, and QEMU's -initrd accepts them concatenated. The module
indices in the base archive cover all overlays, so overlays can be combined freely.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import tempfile
from pathlib import Path

from testbed import kernel_image, rootexec
from testbed.recipes import Compiled, Overlay, RootRecipe

_GUEST = Path(__file__).resolve().parent / "guest"
PROGRAM_SOURCES = Path(__file__).resolve().parents[2] / "tests" / "vm" / "programs"
_FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib", "usr/lib64")
_LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "usr/sbin": "bin", "lib": "usr/lib", "lib64": "usr/lib64"}
# The files that busybox's modprobe reads, also when the kernel requests a module by alias.
_INDICES = ("modules.dep", "modules.alias", "modules.symbols")


def pack(root: Path, recipe: RootRecipe, out: Path) -> None:
    """Writes `out`/NAME.cpio for each overlay of `recipe`, and `out`/kernel."""
    modules = _Modules(root)
    (out / "kernel").write_bytes(kernel_image.unpacked(_kernel(root, modules.release).read_bytes()))
    with tempfile.TemporaryDirectory(prefix="pvrdma-image-") as scratch:
        packed: set[Path] = set()  # modules and libraries of earlier archives
        for overlay in recipe.overlays:
            tree = Path(scratch) / overlay.name
            tree.mkdir()
            if overlay is recipe.overlays[0]:
                _base_system(root, recipe, tree)
                _indices(root, modules, recipe, tree)
            _programs(root, overlay, tree, packed)
            for name in overlay.modules:
                modules.copy(name, tree, packed)
            pack_tree(tree, out / f"{overlay.name}.cpio")


def kernel_release(root: Path) -> str:
    """The release ("6.12.107+deb13-amd64") of the root's only kernel."""
    return next((root / "usr/lib/modules").iterdir()).name


class _Modules:
    """The kernel modules of a root, found through its indices by name, or by alias as the kernel requests some."""

    def __init__(self, root: Path) -> None:
        self.release = kernel_release(root)
        self.folder = root / "usr/lib/modules" / self.release
        self._dependencies: dict[str, list[str]] = {}
        self._path: dict[str, str] = {}
        for line in (self.folder / "modules.dep").read_text(encoding="ascii").splitlines():
            path, _, needs = line.partition(":")
            self._path[_module_name(path)] = path
            self._dependencies[path] = needs.split()
        self._builtin = {_module_name(line)
                         for line in (self.folder / "modules.builtin").read_text(encoding="ascii").splitlines()}
        self._providers: dict[str, list[str]] = {}
        for line in (self.folder / "modules.alias").read_text(encoding="ascii").splitlines():
            keyword, _, rest = line.partition(" ")
            if keyword == "alias":
                alias, provider = rest.rsplit(maxsplit=1)
                self._providers.setdefault(alias, []).append(provider)

    def copy(self, name: str, tree: Path, packed: set[Path]) -> None:
        """Copies `name` and its dependencies, uncompressed, into `tree`, and adds them to `packed`. Skips modules that
        `packed` has.

        For an alias, it copies every module with that alias.
        """
        module = _module_name(name)
        if module in self._builtin:
            return
        found = [module] if module in self._path else self._providers.get(name, [])
        if not found:
            raise RuntimeError(f"Linux {self.release} has no module and no alias '{name}'; "
                               f"see modules.dep and modules.alias in {self.folder}")
        paths = [self._path[item] for item in found]
        for item in (*paths, *(needed for path in paths for needed in self._dependencies[path])):
            target = Path("usr/lib/modules") / self.release / item.removesuffix(".xz")
            if target in packed:
                continue
            data = (self.folder / item).read_bytes()
            (tree / target).parent.mkdir(parents=True, exist_ok=True)
            (tree / target).write_bytes(lzma.decompress(data) if item.endswith(".xz") else data)
            packed.add(target)


def _kernel(root: Path, release: str) -> Path:
    """The kernel's image: from Debian 14 on beside its modules, earlier in /boot."""
    places = (root / "usr/lib/modules" / release / "vmlinuz", root / "boot" / f"vmlinuz-{release}")
    for place in places:
        if place.is_file():
            return place
    raise RuntimeError(f"the root has no image of Linux {release}: neither {places[0]} nor {places[1]}")


def _module_name(path: str) -> str:
    return Path(path).name.split(".")[0].replace("-", "_")


def _base_system(root: Path, recipe: RootRecipe, tree: Path) -> None:
    for folder in _FOLDERS:
        (tree / folder).mkdir(parents=True)
    for link, target in _LINKS.items():
        (tree / link).symlink_to(target)
    for script in ("agent", "await-listener", "remote-shell"):
        shutil.copy(_GUEST / script, tree / "usr/bin" / script)
    shutil.copy(_GUEST / "init", tree / "init")
    (tree / "usr/lib64/ld-linux-x86-64.so.2").symlink_to("../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="ascii")
    (tree / "etc/group").write_text("root:x:0:\n", encoding="ascii")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")
    (tree / "usr/bin/sh").symlink_to("dash")
    busybox = rootexec.resolve(root, "/usr/bin/busybox")
    applets = subprocess.run([str(busybox), "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    better = {Path(program).name for overlay in recipe.overlays for program in overlay.programs} | {"sh"}
    for applet in applets:
        if applet not in better:
            (tree / "usr/bin" / applet).symlink_to("busybox")


def _indices(root: Path, modules: _Modules, recipe: RootRecipe, tree: Path) -> None:
    """Runs the root's depmod on the modules of all overlays together."""
    with tempfile.TemporaryDirectory(prefix="depmod-", dir=root / "tmp") as scratch:
        everything = Path(scratch)
        for overlay in recipe.overlays:
            for name in overlay.modules:
                modules.copy(name, everything, set())
        (everything / "lib").symlink_to("usr/lib")
        staged = everything / "usr/lib/modules" / modules.release
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            shutil.copyfile(modules.folder / name, staged / name)
        rootexec.run_inside(root, "depmod", "-b", f"/tmp/{everything.name}", modules.release)
        target = tree / "usr/lib/modules" / modules.release
        target.mkdir(parents=True)
        for name in _INDICES:
            shutil.copyfile(staged / name, target / name)


def _programs(root: Path, overlay: Overlay, tree: Path, packed: set[Path]) -> None:
    needed: set[str] = set()
    (tree / "usr/bin").mkdir(parents=True, exist_ok=True)
    for program in overlay.compiled:
        needed.update(_compile(root, program, tree / "usr/bin" / program.name))
    for program in overlay.programs:
        needed.update(rootexec.libraries_of(root, program))
        shutil.copy(rootexec.resolve(root, program), tree / "usr/bin" / Path(program).name)
    for path in overlay.files:
        source = rootexec.resolve(root, path)
        target = tree / path.lstrip("/")
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
            needed.update(library for plugin in source.glob("*.so") for library in rootexec.libraries_of(
                root, str(plugin).removeprefix(str(root))))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            if ".so" in target.name:
                needed.update(rootexec.libraries_of(root, path))
    for library in needed:
        target = Path(library.lstrip("/"))
        if target not in packed:
            (tree / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(rootexec.resolve(root, library), tree / target)
            packed.add(target)


def _compile(root: Path, program: Compiled, target: Path) -> list[str]:
    """Compiles PROGRAM_SOURCES/NAME.c into `target`. Returns the libraries that it needs."""
    with tempfile.TemporaryDirectory(prefix="compile-", dir=root / "tmp") as scratch:
        inside = "/tmp/" + Path(scratch).name
        shutil.copy(PROGRAM_SOURCES / f"{program.name}.c", scratch)
        rootexec.run_inside(root, "gcc", "-O2", "-Wall", "-Werror", "-o", f"{inside}/{program.name}",
                            f"{inside}/{program.name}.c", *program.flags)
        shutil.copy(Path(scratch) / program.name, target)
        return rootexec.libraries_of(root, f"{inside}/{program.name}")


def pack_tree(tree: Path, target: Path) -> None:
    """Writes the folder `tree` as an archive for a guest's kernel. All files belong to root."""
    names = "\0".join(sorted(str(path.relative_to(tree)) for path in tree.rglob("*")))
    with open(target, "wb") as archive:
        subprocess.run(["cpio", "--quiet", "--null", "--create", "--format=newc", "--owner=0:0", "--reproducible"],
                       input=names.encode(), stdout=archive, cwd=tree, check=True)
