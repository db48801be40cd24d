"""A libvirtd of a user's session, from the testbed's root, and VMs whose QEMU it starts."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.sax.saxutils import quoteattr

from conftest import make_fleet
from fleet.fleet import Fleet
from fleet.host import Host
from fleet.until import until
from harness import process
from harness.block import Block
from harness.vm import Vm
from testbed import Testbed, ensure

_READY_GUARD_S = 20.0
_CALL_GUARD_S = 60.0
# As root, libvirtd would be the system's. As any other user it serves a session. Outside the user namespace it is
# still root.
_AS_A_USER = "unshare --user --map-user=1000 --map-group=1000"
# Options that the domain itself defines, with the number of values that follow them.
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
    """A host's libvirt. `folder` has a short path and does not exist yet.

    `host` is the folder of the host's sockets. libvirt and its domains see it at `here`, on every host, so a domain's
    description fits all hosts.
    """

    def __init__(self, number: int, folder: Path, host: Path, here: Path, log: Path, testbed: Testbed) -> None:
        self.folder = folder
        self.host = host
        self.here = here
        self._log = log
        self._daemon: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        here.mkdir(exist_ok=True)
        self._environment = {**testbed.qemu_environment(), "HOME": str(folder)}
        for name in ("runtime", "config", "cache", "data", "bin"):
            (folder / name).mkdir(mode=0o700)
            self._environment["XDG_RUNTIME_DIR" if name == "runtime" else f"XDG_{name.upper()}_HOME"] = str(folder / name)
        settings = folder / "config" / "libvirt"
        settings.mkdir()
        (settings / "qemu.conf").write_text('stdio_handler = "file"\n', encoding="ascii")
        # libvirt refuses to migrate to itself, and so to a host with the same name or UUID.
        (settings / "libvirtd.conf").write_text(f'host_uuid = "{uuid.uuid4()}"\n', encoding="ascii")
        (host / "consoles").mkdir()  # QEMU may write there, but not in the daemon's folder
        self.emulator = here / "qemu"
        self._virsh = folder / "virsh.pid"
        exports = "".join(f"export {name}={value}\n" for name, value in testbed.qemu_environment().items())
        _write_script(host / "qemu", f'{exports}exec {" ".join(testbed.qemu())} "$@"')
        inside = f"hostname esx-{number:02d}; mount --bind {testbed.qemu_root}/usr /usr; mount --bind {host} {here}"
        _write_script(folder / "bin" / "inside", f"""exec unshare --mount --uts sh -c '{inside}; exec {_AS_A_USER} "$@"' inside "$@" """)
        self.let_virsh()

    def let_virsh(self, first: str = "") -> None:
        """Makes every virsh that a program runs execute `first` in a shell before. "$@" are virsh's arguments."""
        _write_script(self.folder / "bin" / "virsh", f'{first}\nexec {self.folder}/bin/inside /usr/bin/virsh "$@"')

    @property
    def uri(self) -> str:
        """The URI for connections from other hosts."""
        return f"qemu+unix:///session?socket={self.folder}/runtime/libvirt/libvirt-sock"

    @property
    def client_environment(self) -> dict[str, str]:
        """The environment that makes a program's `virsh` use this libvirt."""
        return {**os.environ, **self._environment, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "LIBVIRT_DEFAULT_URI": self.uri}

    def note_virsh(self) -> None:
        """From now on virsh_pid() is known once virsh migrates."""
        self._virsh.unlink(missing_ok=True)
        self.let_virsh(f'[ "$1" = migrate ] && echo $$ >{self._virsh}.new && mv {self._virsh}.new {self._virsh}')

    def migrates(self) -> bool:
        """Whether virsh has begun to migrate."""
        return self._virsh.exists()

    def virsh_pid(self) -> int:
        """The process id of the virsh that migrates."""
        return int(self._virsh.read_text(encoding="ascii"))

    def stop_virsh_when_all_is_there(self, source: Host) -> None:
        """Stops virsh in a slow migration and lets the migration finish: the VM is paused in two QEMUs, and libvirt waits
        for virsh.

        libvirt waits for half a minute.
        """
        until("memory goes over", lambda: source.ctl("motion", "get", "VM-01")["ram_bytes"])
        os.kill(self.virsh_pid(), signal.SIGSTOP)
        self.virsh("migrate-setspeed", "VM-01", "1000")
        until("all is there", lambda: source.ctl("motion", "get", "VM-01")["phase"], accept=lambda phase: phase == "waits for libvirt")

    def _start(self) -> None:
        self._daemon = process.start([str(self.folder / "bin" / "inside"), "/usr/sbin/libvirtd"], self._log, self._environment)
        deadline = time.monotonic() + _READY_GUARD_S
        while not (self.folder / "runtime" / "libvirt" / "libvirt-sock").is_socket():
            assert self._daemon.poll() is None and time.monotonic() < deadline, process.tail(self._log)
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the daemon, and the domains that are still running, whose descriptions it has."""
        if self._daemon is not None:
            process.stop(self._daemon, timeout_s=10.0)
        for description in (self.folder / "runtime" / "libvirt" / "qemu" / "run").glob("*.xml"):
            with suppress(FileNotFoundError, ValueError):  # it has just ended
                Domain(self.pid_of(description.stem)).kill()

    def virsh(self, *arguments: str) -> str:
        """The output of `virsh ARGUMENTS`."""
        done = subprocess.run(["virsh", "-q", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=_CALL_GUARD_S, check=False, env=self.client_environment)
        assert done.returncode == 0, f"virsh {' '.join(arguments)}: {done.stdout}{done.stderr}\n{process.tail(self._log)}"
        return done.stdout

    def know_qemu(self) -> None:
        """Makes libvirt probe QEMU's capabilities, which takes some seconds, once."""
        self.virsh("domcapabilities", "--emulatorbin", str(self.emulator))

    def domains(self) -> set[str]:
        """The names of the running domains."""
        return set(self.virsh("list", "--name").split())

    def pid_of(self, domain: str) -> int:
        """The process id of its QEMU."""
        return int((self.folder / "runtime" / "libvirt" / "qemu" / "run" / f"{domain}.pid").read_text(encoding="ascii"))


def _write_script(path: Path, lines: str) -> None:
    path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    path.chmod(0o755)


class LibvirtVm(Vm):
    """A VM whose QEMU is a domain of the libvirt in the folder of its adapter's socket."""

    libvirts: dict[Path, Libvirt] = {}

    def _start_qemu(self, command: list[str], arguments: list[str]) -> Domain:  # type: ignore[override]
        assert self.spec.adapter is not None
        values = [*command[len(self._testbed.qemu()):], *arguments]
        incoming = "-incoming" in values
        libvirt = self.libvirts[self.spec.adapter.parent]
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
        rest = [value.replace(str(self._monitor_path), str(libvirt.here / "consoles" / self.name)).replace(str(libvirt.host), str(libvirt.here))
                for value in rest]
        xml = _DOMAIN.format(name=self.name, memory=self.spec.memory_mib, kernel=said["-kernel"], initrd=said["-initrd"], append=said["-append"],
                             emulator=libvirt.emulator, arguments="\n".join(f"    <qemu:arg value={quoteattr(value)}/>" for value in rest))
        file = libvirt.folder / f"{self.name}.xml"
        file.write_text(xml, encoding="utf-8")
        libvirt.virsh("create", str(file), *(["--paused"] if incoming else []))
        return self._domain(libvirt)

    def _domain(self, libvirt: Libvirt) -> Domain:
        domain = Domain(libvirt.pid_of(self.name))
        self._consoles[domain.pid] = libvirt.host / "consoles" / self.name
        return domain

    def expect_arrival(self, adapter: Path) -> None:
        """libvirt will move the guest to the host with this adapter."""
        self._arrival = dataclasses.replace(self.spec, adapter=adapter)

    def follow_domain(self) -> None:
        """The move has happened. Waits until the earlier QEMU has ended."""
        assert self._arrival is not None and self._arrival.adapter is not None
        self._successor = self._domain(self.libvirts[self._arrival.adapter.parent])  # type: ignore[assignment]
        self.follow_successor()


class Domain:
    """The QEMU of a domain, with the functions of a Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it runs."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            return 0
        return 0 if state == "Z" else None

    def wait(self, timeout: float | None = None) -> int:
        """Waits until it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("QEMU", timeout or 0.0)
            time.sleep(0.02)
        return 0

    def send_signal(self, number: int) -> None:
        """Like kill(2)."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


@contextmanager
def make_libvirt_fleet(name: str, folder: Path) -> Iterator[Fleet]:
    """Two hosts, each with a libvirt that pvrdmactl's virsh uses. VM-01 and VM-03 are domains of esx-01's, and
    are on."""
    testbed = ensure()
    with make_fleet(name, folder) as made:
        made.follow_the_guide()
        made.define_vm("VM-03", 1)
        for name in ("VM-01", "VM-02", "VM-03"):
            made[1].ctl("vm", "set", name, "--owner", "root")  # libvirt's QEMUs are root's, but have no capability
        libvirts = [Libvirt(number, made.folder / f"l{number}", made[number].folder, made.folder / "here", made.logs / f"libvirt{number}.log",
                            testbed) for number in (1, 2)]
        with libvirts[0], libvirts[1]:
            LibvirtVm.libvirts = {made[number].folder: libvirt for number, libvirt in enumerate(libvirts, 1)}
            for number, libvirt in enumerate(libvirts, 1):
                made[number].ctl_environment = libvirt.client_environment
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(libvirts[1].know_qemu)
                made.boot("VM-01", "VM-03", kind=LibvirtVm)
                asked.result()
            yield made
            for vm in made.vms.values():
                vm.close()
