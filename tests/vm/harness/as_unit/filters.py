"""The unit's filters of system calls, made by libseccomp from systemd's own lists.

SystemCallFilter, SystemCallErrorNumber, SystemCallArchitectures, RestrictAddressFamilies, RestrictNamespaces, RestrictRealtime,
RestrictSUIDSGID, LockPersonality and MemoryDenyWriteExecute, as systemd.exec(5) describes them, and the calls that ProtectClock,
ProtectHostname, ProtectKernelLogs and ProtectKernelModules forbid.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import stat
import subprocess

from harness.as_unit.settings import Settings

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_EQUAL, _GREATER, _MASKED_EQUAL = 4, 6, 7
_UNKNOWN_CALL = -1
_PROTECTED = ("@clock", "@module", "sethostname", "setdomainname", "syslog")
_NAMESPACES = (0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_FAMILIES_END = 46
_AF_XDP = 44  # Python has no name for it
_POLICIES = {os.SCHED_FIFO, os.SCHED_RR, 6}  # 6 is SCHED_DEADLINE
_SHM_EXEC = 0o100000
# Calls with a mode, and the number of that argument.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1}
_OPENS = {"open": 1, "openat": 2}  # the number of the flags' argument; the mode is the next


class _Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class _Filter:
    """A filter in the making. A call that no rule names gets `default`."""

    def __init__(self, default: int) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(default))

    def add(self, action: int, call: str, *comparisons: tuple[int, int, int, int]) -> None:
        """Adds a rule for calls whose arguments fulfil all comparisons. Ignores a call that this machine does not have."""
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            return
        values = (_Comparison * len(comparisons))(*comparisons)
        self._check(self._library.seccomp_rule_add_array(self._context, action, number, len(comparisons), values), call)

    def load(self) -> None:
        """Applies it to this process, for good."""
        self._check(self._library.seccomp_load(self._context), "load")

    def _check(self, result: int, what: str) -> None:
        if result != 0:
            raise OSError(-result, f"libseccomp: {what}: {os.strerror(-result)}")


class Filters:
    """The filters of a unit. systemd's lists are read when this is made, while the process may still do so."""

    def __init__(self, settings: Settings) -> None:
        groups = _groups()
        self._permitted: set[str] = set()
        for line in settings.calls:
            named = _expand(line.removeprefix("~").split(), groups)
            self._permitted = self._permitted - named if line.startswith("~") else self._permitted | named
        self._permitted = (self._permitted | _expand(["@default"], groups)) - _expand(list(_PROTECTED), groups)
        self._families = {_AF_XDP if name == "AF_XDP" else int(getattr(socket, name)) for name in settings.families}

    def load(self) -> None:
        """Applies them to this process, which must not be able to get new privileges."""
        restricted = _Filter(_ALLOW)
        for family in set(range(_FAMILIES_END)) - self._families:
            restricted.add(_ERRNO | errno.EAFNOSUPPORT, "socket", (0, _EQUAL, family, 0))
        restricted.add(_ERRNO | errno.EAFNOSUPPORT, "socket", (0, _GREATER, _FAMILIES_END - 1, 0))
        _restrict(restricted)
        restricted.load()
        permitted = _Filter(_ERRNO | errno.EPERM)
        for call in self._permitted:
            permitted.add(_ALLOW, call)
        permitted.load()


def _restrict(restricted: _Filter) -> None:
    def refuse(call: str, *comparisons: tuple[int, int, int, int], code: int = errno.EPERM) -> None:
        restricted.add(_ERRNO | code, call, *comparisons)

    for flag in _NAMESPACES:
        for call in ("clone", "unshare"):
            refuse(call, (0, _MASKED_EQUAL, flag, flag))
    refuse("clone3", code=errno.ENOSYS)  # no filter can see its flags
    refuse("setns")
    for policy in _POLICIES:
        refuse("sched_setscheduler", (1, _EQUAL, policy, 0))
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for call, mode in _MODES.items():
            refuse(call, (mode, _MASKED_EQUAL, bit, bit))
        for call, flags in _OPENS.items():
            refuse(call, (flags, _MASKED_EQUAL, os.O_CREAT, os.O_CREAT), (flags + 1, _MASKED_EQUAL, bit, bit))
    refuse("openat2", code=errno.ENOSYS)
    refuse("personality", (0, _GREATER, 0, 0))
    both = mmap.PROT_WRITE | mmap.PROT_EXEC
    refuse("mmap", (2, _MASKED_EQUAL, both, both))
    for call in ("mprotect", "pkey_mprotect"):
        refuse(call, (2, _MASKED_EQUAL, mmap.PROT_EXEC, mmap.PROT_EXEC))
    refuse("shmat", (2, _MASKED_EQUAL, _SHM_EXEC, _SHM_EXEC))


def _groups() -> dict[str, list[str]]:
    """systemd's groups of system calls."""
    shown = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=True, env={"PATH": os.defpath, "SYSTEMD_COLORS": "0"}).stdout
    groups: dict[str, list[str]] = {}
    name = ""
    for line in shown.splitlines():
        if line.startswith("@"):
            name = line.strip()
            groups[name] = []
        elif line.startswith("    ") and not line.lstrip().startswith("#") and name:
            groups[name].append(line.strip())
        else:
            name = name if line.startswith("    ") else ""
    return groups


def _expand(words: list[str], groups: dict[str, list[str]]) -> set[str]:
    calls: set[str] = set()
    for word in words:
        calls |= _expand(groups[word], groups) if word.startswith("@") else {word}
    return calls
