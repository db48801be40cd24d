"""User, capabilities, limits and umask of the unit: User, Group, CapabilityBoundingSet, AmbientCapabilities, NoNewPrivileges, LimitNOFILE,
LimitMEMLOCK and UMask."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from contextlib import suppress

from harness.as_unit import kernel
from harness.as_unit.settings import Settings

_VERSION_3 = 0x20080522
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITIES_END = 64
_libc = ctypes.CDLL(None, use_errno=True)


def limit(settings: Settings) -> set[str]:
    """Sets umask and limits. In a container root may be unable to raise a limit, which then stays.

    Returns the capabilities that stand for such a limit: links of kind xdp need locked memory.
    """
    os.umask(settings.umask)
    _limit(resource.RLIMIT_NOFILE, settings.open_files)
    return {"CAP_IPC_LOCK"} if not _limit(resource.RLIMIT_MEMLOCK, settings.locked_bytes) and settings.xdp else set()


def drop(settings: Settings, user_id: int, more: set[str]) -> None:
    """Becomes the user, for good, with the unit's capabilities and some more."""
    bounding, ambient = (_numbers({*names, *more}) for names in (settings.bounding, settings.ambient))
    signal = kernel.parent_death_signal()  # the kernel forgets it with the user
    for capability in set(range(_CAPABILITIES_END)) - bounding:
        with suppress(OSError):  # this kernel has fewer capabilities
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal)
    _hold(ambient)
    for capability in ambient:
        kernel.prctl(kernel.PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def _limit(which: int, wanted: int) -> bool:
    try:
        resource.setrlimit(which, (wanted, wanted))
    except ValueError:
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))
        return False
    return True


def _hold(capabilities: set[int]) -> None:
    """Makes these the process's effective, permitted and inheritable capabilities."""
    mask = sum(1 << capability for capability in capabilities)
    words = [word for half in (mask & 0xFFFFFFFF, mask >> 32) for word in (half, half, half)]
    kernel.checked(_libc.capset(struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *words)), "capset")


def _numbers(names: set[str]) -> set[int]:
    library = ctypes.CDLL("libcap.so.2", use_errno=True)
    numbers = set()
    for name in names:
        number = ctypes.c_int()
        kernel.checked(library.cap_from_name(name.lower().encode(), ctypes.byref(number)), f"cap_from_name {name}")
        numbers.add(number.value)
    return numbers
