"""System calls that Python's library does not have."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 2, 8, 24, 38, 47
_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_SYS_MOUNT_SETATTR = 442  # on all architectures
_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("userns_fd", ctypes.c_uint64)]


def checked(result: int, what: str) -> int:
    """The result of a call of libc. OSError with the call's name if it is -1."""
    if result == -1:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def unshare(flags: int) -> None:
    checked(_libc.unshare(flags), "unshare")


def prctl(option: int, *values: int) -> None:
    checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])), f"prctl({option}, {values})")


def parent_death_signal() -> int:
    """The signal that the kernel sends when the parent ends."""
    value = ctypes.c_int()
    checked(_libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(value)), "prctl(PR_GET_PDEATHSIG)")
    return value.value


def mount(source: str, target: Path | str, kind: str = "", flags: int = 0, options: str = "") -> None:
    checked(_libc.mount(source.encode(), str(target).encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None),
            f"mount {source} at {target}")


def bind(file: int, target: Path) -> None:
    """Shows the open file or folder, with all that is mounted below it, at `target`, which exists."""
    mount(f"/proc/self/fd/{file}", target, flags=MS_BIND | MS_REC)


def make_read_only(place: Path) -> None:
    """Makes a mount and all mounts below it read-only."""
    _set_attributes(place, _AT_RECURSIVE, _MountAttributes(set=_MOUNT_ATTR_RDONLY))


def make_writable(place: Path) -> None:
    """Makes one mount writable again."""
    _set_attributes(place, 0, _MountAttributes(clear=_MOUNT_ATTR_RDONLY))


def _set_attributes(place: Path, flags: int, attributes: _MountAttributes) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    checked(_libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, str(place).encode(), flags, ctypes.byref(attributes), size), f"mount_setattr {place}")


def make_root(place: Path) -> None:
    """Makes a mount point the root, and removes the earlier root from this process's view."""
    os.chdir(place)
    checked(_libc.pivot_root(b".", b"."), f"pivot_root {place}")
    checked(_libc.umount2(b".", _MNT_DETACH), "umount2 of the earlier root")
    os.chdir("/")
