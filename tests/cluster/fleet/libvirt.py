"""A libvirtd of a user's session, and VMs whose QEMU it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from xml.sax.saxutils import quoteattr

from harness import process
from harness.block import Block
from harness.vm import Vm

_READY_GUARD_S = 20.0
_CALL_GUARD_S = 60.0
# For libvirt a root is the system's: as anybody else it serves a session. Outside it is root all the same.
_AS_A_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
# What the domain says itself, with the number of values that follow.
_LIBVIRTS = {"-name": 1, "-accel": 1, "-machine": 1, "-cpu": 1, "-m": 1, "-object": 1, "-nodefaults": 0, "-display": 1,
             "-S": 0, "-kernel": 1, "-initrd": 1, "-append": 1}
_DOMAIN = """<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <os><type arch='x86_64' machine='q35'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>{append}</cmdline></os>
  <features><acpi/><apic/></features>
  <cpu mode='maximum'/>
  <devices><emulator>{emulator}</emulator><controller type='usb' model='none'/><memballoon model='none'/></devices>
  <qemu:commandline>
    <qemu:arg value='-machine'/><qemu:arg value='aux-ram-share=on'/>
{arguments}
  </qemu:commandline>
</domain>
"""


class Libvirt(Block):
    """`folder`'s path is short, and nothing is there yet. `qemu` is the start of QEMU's command line."""

    def __init__(self, folder: Path, log: Path, qemu: list[str], environment: dict[str, str]) -> None:
        self.folder = folder
        self._log = log
        self._daemon: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        self._environment = {**environment, "HOME": str(folder)}
        for name in ("runtime", "config", "cache", "data"):
            (folder / name).mkdir(mode=0o700)
            self._environment["XDG_RUNTIME_DIR" if name == "runtime" else f"XDG_{name.upper()}_HOME"] = str(folder / name)
        (folder / "config" / "libvirt").mkdir()
        (folder / "config" / "libvirt" / "qemu.conf").write_text('stdio_handler = "file"\n', encoding="ascii")
        self.emulator = folder / "qemu"
        exports = "".join(f"export {name}={value}\n" for name, value in environment.items())
        self.emulator.write_text(f'#!/bin/sh\n{exports}exec {" ".join(qemu)} "$@"\n', encoding="utf-8")
        self.emulator.chmod(0o755)

    def _start(self) -> None:
        self._daemon = process.start([*_AS_A_USER, "libvirtd"], self._log, self._environment)
        deadline = time.monotonic() + _READY_GUARD_S
        while not (self.folder / "runtime" / "libvirt" / "libvirt-sock").is_socket():
            assert self._daemon.poll() is None and time.monotonic() < deadline, process.tail(self._log)
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the daemon; its domains go on, and are ended by who made them."""
        if self._daemon is not None:
            process.stop(self._daemon, timeout_s=10.0)

    def virsh(self, *arguments: str) -> str:
        """What `virsh ARGUMENTS` prints."""
        done = subprocess.run([*_AS_A_USER, "virsh", "-q", "-c", "qemu:///session", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=_CALL_GUARD_S, check=False, env={**os.environ, **self._environment})
        assert done.returncode == 0, f"virsh {' '.join(arguments)}: {done.stdout}{done.stderr}\n{process.tail(self._log)}"
        return done.stdout

    def pid_of(self, domain: str) -> int:
        """Of its QEMU."""
        return int((self.folder / "runtime" / "libvirt" / "qemu" / "run" / f"{domain}.pid").read_text(encoding="ascii"))


class LibvirtVm(Vm):
    """A VM whose QEMU is a domain of the libvirt beside its adapter's socket, by that socket's folder."""

    libvirts: dict[Path, Libvirt] = {}

    def _start_qemu(self, command: list[str], arguments: list[str]) -> Domain:  # type: ignore[override]
        assert self.spec.adapter is not None
        values = [*command[len(self._testbed.qemu()):], *arguments]
        incoming = "-incoming" in values
        adapter = (self._arrival if incoming and self._arrival is not None else self.spec).adapter
        assert adapter is not None
        libvirt = self.libvirts[adapter.parent]
        rest: list[str] = []
        said: dict[str, str] = {}
        position = 0
        while position < len(values):
            option = values[position]
            more = _LIBVIRTS.get(option)
            if more is None:
                rest.append(option)
            else:
                said[option] = " ".join(values[position + 1:position + 1 + more])
                position += more
            position += 1
        if incoming:  # the daemon is to wait until libvirt has started the domain
            rest = [re.sub(r"\.qmp,server", ".starting,server", value) for value in rest]
        xml = _DOMAIN.format(name=self.name, memory=self.spec.memory_mib, kernel=said["-kernel"], initrd=said["-initrd"], append=said["-append"],
                             emulator=libvirt.emulator, arguments="\n".join(f"    <qemu:arg value={quoteattr(value)}/>" for value in rest))
        file = libvirt.folder / f"{self.name}.xml"
        file.write_text(xml, encoding="utf-8")
        libvirt.virsh("create", str(file), *(["--paused"] if incoming else []))
        domain = Domain(libvirt.pid_of(self.name))
        self._consoles[domain.pid] = self._monitor_path
        if incoming:
            adapter.with_suffix(".starting").rename(adapter.with_suffix(".qmp"))
        return domain


class Domain:
    """The QEMU of a domain: what a Popen tells and does of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it lives."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            return 0
        return 0 if state == "Z" else None

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("QEMU", timeout or 0.0)
            time.sleep(0.02)
        return 0

    def send_signal(self, number: int) -> None:
        """As kill(2)."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)
