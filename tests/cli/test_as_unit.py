"""Daemons of the tests run with the rights that packaging/pvrdmad.service gives, also if root runs the tests.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_as_unit.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import as_unit
from harness.as_unit.settings import Settings
from test_cli import adapter, pvrdmad, run, running_daemon, threads
from traffic import until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's daemons have that user's rights")

# Each prints one line if the kernel refuses it, as it must.
FORBIDDEN = """
import ctypes, mmap, os, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def raise_limit():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1] + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

for what, tried in {
    "become root": lambda: os.setuid(0),
    "write to the system": lambda: open("/usr/x", "w"),
    "write to /run": lambda: open("/run/x", "w"),
    "write what it may read": lambda: open("given", "w"),
    "home": lambda: os.listdir("/home"),
    "root's home": lambda: os.listdir("/root"),
    "another process": lambda: os.stat("/proc/1"),
    "sysctl": lambda: os.stat("/proc/sys"),
    "memory of the machine": lambda: os.stat("/dev/mem"),
    "modules": lambda: os.stat("/usr/lib/modules/" + os.uname().release),
    "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "namespace": lambda: call("unshare", 0x10000000),
    "another root": lambda: os.chroot("/"),
    "code that is written": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC),
    "realtime": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "personality": lambda: call("personality", 0x0040000),
    "set-group-ID": lambda: os.mkdir("sub", 0o2700),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -1),
    "limit": raise_limit,
    "clock": lambda: call("clock_settime", 0, ctypes.create_string_buffer(16)),
    "mount": lambda: call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    "trace": lambda: call("ptrace", 0, 0, 0, 0),
}.items():
    try:
        tried()
    except (OSError, ValueError):
        continue
    print(what)
"""
# Prints nothing if all of this succeeds.
PERMITTED = """
import os, socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_STREAM).close()
with open("made", "w"):
    os.chown("made", 64001, 64001)
assert os.stat("made").st_uid == 64001
os.sched_setaffinity(0, os.sched_getaffinity(0))
if os.path.exists("/dev/net/tun"):
    os.close(os.open("/dev/net/tun", os.O_RDWR))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield as_unit.give_folder(Path(name))


@as_root
def test_each_thread_has_the_rights_of_the_unit(folder: Path) -> None:
    settings = Settings(as_unit.UNIT)
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        for status in threads(daemon).values():
            assert set(status["Uid"].split() + status["Gid"].split()) == {str(as_unit.USER_ID)}
            assert status["Groups"].strip() == ""
            # CAP_CHOWN has number 0.
            assert settings.bounding == settings.ambient == ["CAP_CHOWN"]
            assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {1}
            assert status["NoNewPrivs"] == "1"
            assert status["Umask"] == f"{settings.umask:04o}"
        assert (folder / "vm-01.sock").stat().st_uid == as_unit.USER_ID


def in_unit(folder: Path, script: str) -> str:
    """What a Python script prints that runs as the unit's program would."""
    given = folder / "given"
    given.touch()
    as_unit.give(given)
    command = as_unit.command(Path("/usr/bin/python3"), "-IBc", f"import os; os.chdir({str(folder)!r})\n{script}", writable=[folder],
                              readable=[given])
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@as_root
def test_what_the_unit_forbids_fails(folder: Path) -> None:
    assert in_unit(folder, FORBIDDEN) == ""


@as_root
def test_what_the_daemon_needs_works(folder: Path) -> None:
    assert in_unit(folder, PERMITTED) == ""


@as_root
def test_files_of_the_test_are_seen_wherever_they_are(tmp_path: Path) -> None:
    """Also in a folder that only root may enter, such as root's home."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "seen").write_text("text", encoding="ascii")
    (closed / "hidden").write_text("other", encoding="ascii")
    done = run(*as_unit.command(Path("/usr/bin/grep"), "-r", ".", str(closed), readable=[closed / "seen"]))
    assert done.stdout == f"{closed}/seen:text\n"


_DIES = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from harness import as_unit, process
folder = Path(sys.argv[2])
started = process.start(as_unit.command(Path("/usr/bin/sleep"), "1000", writable=[folder]), folder / "log")
while Path(f"/proc/{started.pid}/comm").read_text() != "sleep\\n":
    assert started.poll() is None
print(started.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@as_root
def test_a_program_ends_with_the_tests_that_started_it(folder: Path) -> None:
    """Also if they are killed: the kernel forgets the signal for this when a process changes its user."""
    pid = run("/usr/bin/python3", "-c", _DIES, str(Path(as_unit.__file__).parents[2]), str(folder)).stdout.strip()
    assert pid.isdigit()
    until("it has ended", lambda: not Path(f"/proc/{pid}/exe").exists())


@pytest.mark.parametrize(("old", "new", "named"), [
    ("LockPersonality=yes", "LockPersonality=yes\nPrivateUsers=yes", "PrivateUsers=yes"),
    ("ProtectSystem=strict", "ProtectSystem=full", "ProtectSystem=full"),
    ("RestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies=~AF_PACKET AF_UNIX", "RestrictAddressFamilies=~AF_PACKET"),
    ("DeviceAllow=/dev/net/tun rw", "DeviceAllow=/dev/net/tun r", "DeviceAllow=/dev/net/tun r"),
    ("NoNewPrivileges=yes\n", "", "NoNewPrivileges is missing"),
])
def test_a_unit_that_the_tests_do_not_understand_stops_them(tmp_path: Path, old: str, new: str, named: str) -> None:
    shipped = as_unit.UNIT.read_text(encoding="utf-8")
    assert shipped.count(old) == 1
    unit = tmp_path / "pvrdmad.service"
    unit.write_text(shipped.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        settings = Settings(unit)
        assert settings.devices and settings.families


def controls(which: str) -> set[str]:
    """The kernel's congestion controls: those that are "available", or those "allowed" to ordinary users."""
    return set(Path(f"/proc/sys/net/ipv4/tcp_{which}_congestion_control").read_text(encoding="ascii").split())


def member(folder: Path, more: str = "") -> str:
    """A cluster of one host."""
    return f'[host]\nname = "esx-01"\nsocket_folder = "{folder}"\n[store]\npath = "{folder}/store.db"\n{more}'


def test_a_host_whose_kernel_keeps_cubic_for_root_joins_with_another(folder: Path) -> None:
    """Root's daemon could use cubic, so it would not show this."""
    with running_daemon(folder, member(folder)) as daemon:
        assert daemon.ctl("cluster", "get").returncode == 0
        code, log = daemon.stop()
    assert code == 0
    assert ("instead of cubic: only root may use it" in log) == ("cubic" not in controls("allowed")), log


def test_a_congestion_control_that_is_roots_is_refused(folder: Path) -> None:
    kept = sorted(controls("available") - controls("allowed"))
    if not kept:
        pytest.skip("this kernel allows all its congestion controls to everybody")
    config = folder / "pvrdmad.toml"
    config.write_text(member(folder, f'[tcp]\ncongestion_control = "{kept[0]}"\n'), encoding="utf-8")
    done = run(*pvrdmad(folder, "--config", str(config), "--check"))
    assert done.returncode == 2
    assert f'[tcp] congestion_control = "{kept[0]}": only root may use it' in done.stderr
