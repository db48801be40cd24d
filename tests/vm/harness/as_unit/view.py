"""The file system that the unit shows to the daemon, as a mount namespace.

ProtectSystem, ProtectHome, PrivateTmp, PrivateMounts, ProtectKernelTunables, ProtectKernelModules, ProtectControlGroups, ProtectProc,
ProcSubset, DevicePolicy and DeviceAllow. A new root shows the system's folders, read-only, and what the test gives to its daemon. Under
systemd a device that is not allowed exists and cannot be opened; here it does not exist. What the test gives is reachable
whatever its parent folders' modes are, for a repository may be in root's home.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.as_unit import kernel

_ROOT = Path("/tmp")  # where the new root is made; the earlier one is open before
_NOT_SHOWN = {"dev", "home", "lost+found", "proc", "root", "tmp"}
_NO_OWN = {"etc", "usr"}  # without them no program starts, so a test's files cannot hide them
_OWN = {"tmp": "1777", "var/tmp": "1777", "dev": "755"}  # empty at first, with these modes
_HIDDEN = ("run/user", "usr/lib/modules")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # DevicePolicy=closed allows these


def enter(devices: list[str], writable: list[Path], readable: list[Path]) -> None:
    """Moves this process, which is root's, into the daemon's view of the files."""
    os.umask(0o022)
    try:
        kernel.unshare(kernel.CLONE_NEWNS)
    except PermissionError as error:
        raise SystemExit(f"the daemon cannot get a mount namespace of its own ({error}): run the tests as an ordinary user, or give "
                         "root of this container CAP_SYS_ADMIN") from error
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    own = {path: _open(path) for path in sorted(path.resolve() for path in (*writable, *readable))}  # folders before what is in them
    tops = {path.parts[1] for path in own} - _NO_OWN
    present = [entry for entry in os.scandir("/") if entry.name not in tops | _NOT_SHOWN]
    system = {entry.name: _open(Path(entry)) for entry in present if entry.is_dir(follow_symlinks=False)}
    links = {entry.name: os.readlink(entry) for entry in present if entry.is_symlink()}
    common = {path: _open(path) for path in (Path("/dev", name) for name in _DEVICES) if path.exists()}
    allowed = {path: path.stat() for path in _allowed(devices)}
    kernel.mount("tmpfs", _ROOT, "tmpfs", options="mode=755")
    for name, target in links.items():
        os.symlink(target, _ROOT / name)
    for name, file in system.items():
        _show(file, _ROOT / name)
    for folder, mode in ((*_OWN.items(), *((hidden, "755") for hidden in _HIDDEN if (_ROOT / hidden).is_dir()))):
        (_ROOT / folder).mkdir(parents=True, exist_ok=True)
        kernel.mount("tmpfs", _ROOT / folder, "tmpfs", options=f"mode={mode}")
    (_ROOT / "proc").mkdir()
    kernel.mount("proc", _ROOT / "proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, "hidepid=invisible,subset=pid")
    for path, file in {**common, **own}.items():
        _show(file, _ROOT / path.relative_to("/"))
    for path, state in allowed.items():
        _make_device(_ROOT / path.relative_to("/"), state)
    kernel.make_read_only(_ROOT)
    for place in ("proc", *_OWN, *(folder.resolve().relative_to("/") for folder in writable)):
        kernel.make_writable(_ROOT / place)
    kernel.make_root(_ROOT)


def _open(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _show(file: int, place: Path) -> None:
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    state = os.fstat(file)
    if stat.S_ISDIR(state.st_mode):
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    kernel.bind(file, place)


def _make_device(place: Path, state: os.stat_result) -> None:
    """Makes a device's file with udev's mode for the devices of the unit. Machines without udev have another mode."""
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(place, stat.S_IFCHR | 0o600, state.st_rdev)
    place.chmod(0o666)


def _allowed(devices: list[str]) -> list[Path]:
    """The files of these devices, if they exist."""
    files: list[Path] = []
    for device in devices:
        if device == "char-infiniband_verbs":
            files += sorted(Path("/dev/infiniband").glob("uverbs*"))
        elif device.startswith("/dev/"):
            files.append(Path(device))
        else:
            raise ValueError(f"DeviceAllow={device}: the tests do not know which files these devices have: add them to {__file__}")
    return [file for file in files if file.exists()]
