"""Runs programs of a Debian root.

From outside, a program runs through the root's own loader, which needs neither chroot nor privileges. Programs that start
others (a compiler) run inside the root, which needs root privileges or a user namespace, as building the root did.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def command(root: Path, program: str) -> list[str]:
    """The command line prefix that runs `program` (an absolute path inside the root)."""
    return [*_loader(root), "--argv0", program, str(resolve(root, program))]


def run_inside(root: Path, *command_line: str) -> None:
    """Runs a program with `root` as its /. RuntimeError with its output if it fails."""
    become_root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    done = subprocess.run([*become_root, "chroot", str(root), *command_line], check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={"PATH": "/usr/bin:/usr/sbin", "LC_ALL": "C"})
    if done.returncode != 0:
        raise RuntimeError(f"'{' '.join(command_line)}' in {root} ended with {done.returncode}:\n{done.stdout}")


def libraries_of(root: Path, program: str) -> list[str]:
    """The shared libraries of `program`, including the loader, as paths inside the root; empty for a static
    program."""
    listing = subprocess.run([*_loader(root), "--list", str(resolve(root, program))], check=False, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    if "not found" in listing:
        raise RuntimeError(f"{program} of {root} misses libraries:\n{listing}")
    found = []
    for line in listing.splitlines():
        path = line.split("=>")[-1].split("(")[0].strip()
        if path.startswith(str(root)):
            found.append(path.removeprefix(str(root)))
    return found


def resolve(root: Path, path: str) -> Path:
    """Follows symbolic links like a process inside the root, so that absolute ones stay inside."""
    target = root
    parts = list(Path(path).parts[1:])
    for _ in range(100):
        if not parts:
            return target
        step = target / parts.pop(0)
        if step.is_symlink():
            link = step.readlink()
            if link.is_absolute():
                target = root
                parts = [*link.parts[1:], *parts]
            else:
                parts = [*link.parts, *parts]
        elif step.name == "..":
            target = target.parent
        else:
            target = step
    raise RuntimeError(f"{path} in {root} is a loop of symbolic links")


def _loader(root: Path) -> list[str]:
    return [str(root / _LIBRARIES / "ld-linux-x86-64.so.2"), "--library-path", str(root / _LIBRARIES)]
