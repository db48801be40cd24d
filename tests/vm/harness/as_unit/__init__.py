"""Daemons of the tests run as the shipped unit would run them: as an ordinary user, with the unit's restrictions.

When the tests run as root, `command()` starts a program by `start.py`, which reads packaging/pvrdmad.service and applies its
settings without systemd. When the tests run as an ordinary user, programs start as that user and nothing is changed.
"""

from __future__ import annotations

import functools
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.as_unit.settings import Settings

UNIT = Path(__file__).resolve().parents[4] / "packaging" / "pvrdmad.service"
USER_ID = 64100  # of the daemon's user and group; no user and no VM of a test has it
_START = Path(__file__).with_name("start.py")
_RUNTIMES = (b"__asan_init", b"__tsan_init")


def command(program: Path, *arguments: str, writable: Sequence[Path] = (), readable: Sequence[Path] = (),
            xdp: bool = False) -> list[str]:
    """The words that start the program as the unit's service. The process that executes them becomes the program.

    `writable` are the folders that stand for the unit's RuntimeDirectory and StateDirectory. `readable` are further files
    and folders that the daemon needs; of this machine it otherwise sees only the system's. `xdp`: it gets what links of kind xdp
    need, too.
    """
    called = [str(program), *arguments]
    if os.geteuid() != 0:
        return called
    words = [sys.executable, "-IB", str(_START), str(UNIT), str(USER_ID)]
    words += [word for folder in writable for word in ("--writable", str(folder))]
    words += [word for path in readable for word in ("--readable", str(path))]
    if xdp:
        words.append("--xdp")
    if is_sanitized(program):
        words.append("--any-call")
    return [*words, "--", *called]


def shell_words(folder: str, locked_kib: int | None = None) -> str:
    """The start of a shell's line, as root, that runs the rest of it with what a shell and setpriv(1) can give of the unit: user,
    capabilities, limits (of locked memory, if given, `locked_kib`) and umask. For guests, which have no Python. The daemon's
    files are in `folder`."""
    settings = Settings(UNIT)
    if locked_kib is None and settings.locked_bytes != resource.RLIM_INFINITY:
        locked_kib = settings.locked_bytes // 1024
    return (f"chown -R {USER_ID}:{USER_ID} {folder} && chmod {settings.folder_mode:o} {folder} && umask {settings.umask:04o} && "
            f"ulimit -n {settings.open_files} && ulimit -l {'unlimited' if locked_kib is None else locked_kib} && "
            f"exec setpriv --reuid {USER_ID} --regid {USER_ID} --clear-groups --bounding-set {_setprivs(settings.bounding)} "
            f"--inh-caps {_setprivs(settings.ambient)} --ambient-caps {_setprivs(settings.ambient)} --no-new-privs")


def user_id() -> int:
    """The user of the daemons."""
    return USER_ID if os.geteuid() == 0 else os.geteuid()


def as_its_user() -> list[str]:
    """The words before a command that run it as the daemon's user, with no capability."""
    return ["setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--"] if os.geteuid() == 0 else []


def give(*paths: Path) -> None:
    """Gives files or folders to the daemon's user, as packages and administrators do."""
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, USER_ID, USER_ID)


def give_folder(folder: Path) -> Path:
    """Makes a folder the daemon's, with the mode of the unit's RuntimeDirectory. Returns it."""
    give(folder)
    if os.geteuid() == 0:
        folder.chmod(Settings(UNIT).folder_mode)
    return folder


@functools.lru_cache
def is_sanitized(program: Path) -> bool:
    """Whether a sanitizer's runtime is in the program. It makes system calls of its own, which the unit does not permit."""
    text = program.read_bytes()
    return any(runtime in text for runtime in _RUNTIMES)


def _setprivs(capabilities: list[str]) -> str:
    return ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)])
