"""One QEMU virtual machine with a vmxnet3 and, at the next function of the same slot, a PVRDMA adapter over vfio-user."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.channel import Channel, GuestLost, GuestTimeout, Result
from harness.qmp import Qmp
from testbed import Testbed

BOOT_GUARD_S = 120.0
_POWER_OFF_GUARD_S = 30.0
_MONITOR_GUARD_S = 10.0
_SUCCESSOR_GUARD_S = 30.0
FIRST_SLOT = 0x10
DEVICE = "vmw_pvrdma0"
# Where a VM that started bare gets its adapter: the slots of the machine itself take no devices while it runs. By default a
# port has addresses for 2 MiB, and the doorbells alone need 8.
_PORT = "pvrdma-port"
_EMPTY_PORT = ("-device", f"pcie-root-port,id={_PORT},bus=pcie.0,addr={FIRST_SLOT:x}.0,chassis=1,slot=1,mem-reserve=16M")
# Without KVM, "rep movsb" copies byte by byte. Kernel and libc do not use it if the processor does not call it fast (ERMS,
# FSRM). A fifth level of page tables (LA57) makes each miss of the TLB slower.
_PROCESSORS = {"kvm": "max", "tcg": "max,-erms,-fsrm,-la57"}


@dataclass(frozen=True)
class VmSpec:
    """The differences between VMs. `adapter` is the daemon's vfio-user socket, None for no adapter.

    `archives` are further cpio archives of guest files. `rdma_device` is the device that the guest's programs use, `nic` is
    QEMU's name of its NIC, and `devices` are QEMU's arguments for further devices. `memory_backend` is QEMU's object for the
    guest's memory without its name and size, empty for QEMU's default. With `starts_bare` NIC and adapter are missing
    until `plug_adapter()`.
    """

    name: str
    address: str
    address6: str
    mac: str
    adapter: Path | None = None
    overlays: tuple[str, ...] = ()
    archives: tuple[Path, ...] = ()
    memory_mib: int = 512
    memory_backend: str = "memory-backend-memfd,share=on"
    processors: int = 1
    load_driver: bool = True
    rdma_device: str = DEVICE
    nic: str = "vmxnet3"
    devices: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    starts_bare: bool = False


class GuestCommandFailed(AssertionError):
    """A guest command ended with a code other than 0."""


def link_local(mac: str) -> str:
    """The IPv6 link-local address that Linux makes of a MAC."""
    octets = [int(octet, 16) for octet in mac.split(":")]
    identifier = bytes([octets[0] ^ 2, *octets[1:3], 0xff, 0xfe, *octets[3:]])
    return str(ipaddress.IPv6Address(bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0]) + identifier))


class Job:
    """A command running in a guest."""

    def __init__(self, vm: Vm, channel: Channel, request: int, command: str) -> None:
        self._vm = vm
        self._channel = channel
        self._request = request
        self.command = command

    @property
    def done(self) -> bool:
        """Whether it or its guest has ended."""
        return self._channel.done(self._request)

    def wait(self, timeout_s: float = 60.0) -> Result:
        """Its result. On timeout it is killed, and GuestTimeout has its output."""
        try:
            return self._channel.wait(self._request, timeout_s)
        except GuestTimeout as timeout:
            printed = self.output_so_far()
            self.kill()
            raise GuestTimeout(f"{self._vm.name}: '{self.command}' still ran after {timeout_s:g} s; "
                               f"it had printed:\n{printed}") from timeout
        except GuestLost as lost:
            raise GuestLost(f"{self._vm.name}: '{self.command}': {lost}") from lost

    def output_so_far(self) -> str:
        """Its output up to now."""
        return self._vm.run(f"cat /run/jobs/{self._request}/output").output

    def kill(self, signal_name: str = "KILL") -> None:
        """Sends a signal to the command and to everything that it started."""
        self._vm.run(f"kill -{signal_name} -$(cat /run/jobs/{self._request}/pid)")


class Vm:
    """A VM that can be started, rebooted, powered off, killed, and started again. `logs` keeps console and QEMU output.

    `nic` is its interface on the Ethernet. `run_folder` is for sockets; keep its path short (a UNIX socket path has at most 107 characters).
    """

    nic = "eth0"

    def __init__(self, spec: VmSpec, testbed: Testbed, hub: Path, run_folder: Path, logs: Path) -> None:
        self.spec = spec
        self.name = spec.name
        self.address = spec.address
        self.address6 = spec.address6
        self.console_log = logs / f"{spec.name}.console"
        self.qemu_log = logs / f"{spec.name}.qemu"
        self._testbed = testbed
        self._hub = hub
        self._agent_path = run_folder / f"{spec.name}.agent"
        self._run_folder = run_folder
        self._starts = 0
        self._consoles: dict[int, Path] = {}  # of all QEMUs, by process id
        self._image = run_folder / f"{spec.name}.cpio"
        self._process: subprocess.Popen[bytes] | None = None
        self._successor: subprocess.Popen[bytes] | None = None
        self._arrival: VmSpec | None = None  # its specification after it has moved to the successor
        self.successor_monitor: Path | None = None  # the QMP socket of the successor that was started last
        self._channel: Channel | None = None

    @property
    def rdma_device(self) -> str:
        """The RDMA device that its programs use."""
        return self.spec.rdma_device

    @property
    def link_local(self) -> str:
        """Its IPv6 link-local address, from the MAC."""
        return link_local(self.spec.mac)

    @property
    def running(self) -> bool:
        """Whether its QEMU process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts QEMU and returns at once; `wait_ready` waits for the guest."""
        assert not self.running, f"{self.name} already runs"
        self._release()
        self._channel = Channel(self._agent_path)
        self._process = self._start_qemu(self._command(self.spec.adapter),
                                         ["-qmp", f"unix:{self.monitor},server=on,wait=off"])

    def start_waiting(self, adapter: Path | None = None) -> int:
        """Starts a QEMU that waits for a checkpoint (`pvrdmactl vm restore`), in place of the one that has ended. Returns
        its process id.

        If `adapter` is given, it becomes the socket of the VM's adapter.
        """
        assert not self.running, f"{self.name} runs"
        if adapter is not None:
            self.spec = dataclasses.replace(self.spec, adapter=adapter)
        monitor = self.monitor
        monitor.unlink(missing_ok=True)
        self._process = self._start_qemu(self._command(self.spec.adapter),
                                         ["-qmp", f"unix:{monitor},server=on,wait=off", "-S", "-incoming", "defer"])
        self._wait_for(monitor, self._process)
        return self._process.pid

    def outlive_qemu(self) -> None:
        """The guest will continue in another QEMU, so its commands are not lost when this QEMU ends."""
        self._connected().outlive_qemu()

    def wait_ended(self) -> None:
        """Waits until its QEMU has ended by itself."""
        assert self._process is not None
        self._process.wait(_POWER_OFF_GUARD_S)

    def start_successor(self, without_adapter: bool = False) -> int:
        """Starts a QEMU that waits to take over the guest (`pvrdmactl vm upgrade-vmm`). Returns its process id."""
        assert self._successor is None, f"{self.name} has a QEMU that waits"
        first, second = self._vmm_socket("qmp"), self._vmm_socket("next.qmp")
        self.successor_monitor = second if first.exists() else first
        channel = {"channel-type": "cpr", "addr": {"transport": "socket", "type": "unix", "path": str(self._vmm_socket("cpr"))}}
        self._vmm_socket("cpr").unlink(missing_ok=True)
        command = self._command(None if without_adapter else self.spec.adapter)
        self._successor = self._start_qemu(command, [
            "-qmp", f"unix:{self.successor_monitor},server=on,wait=off", "-S", "-incoming", f"unix:{self._vmm_socket('main')}",
            "-incoming", json.dumps(channel)])
        self._wait_for(self._vmm_socket("cpr"), self._successor)
        return self._successor.pid

    def start_arriving(self, adapter: Path) -> int:
        """Starts a QEMU that waits for the guest, with another daemon's adapter (`pvrdmactl vm migrate`). Returns
        its process id."""
        assert self._successor is None, f"{self.name} has a QEMU that waits"
        self._arrival = dataclasses.replace(self.spec, adapter=adapter)
        monitor = vmm_socket(adapter, "qmp")
        monitor.unlink(missing_ok=True)
        self._successor = self._start_qemu(self._command(adapter),
                                           ["-qmp", f"unix:{monitor},server=on,wait=off", "-S", "-incoming", "defer"])
        self._wait_for(monitor, self._successor)
        return self._successor.pid

    def run_states(self) -> list[str]:
        """The answers to `info status` of its running QEMUs: first the one that waits for the guest, then the guest's.

        In this order, a guest that moves meanwhile is not seen to run in both.
        """
        states = []
        for qemu in dict.fromkeys((self._successor, self._process)):  # for a moment they may be the same
            try:
                if qemu is not None and qemu.poll() is None:
                    states.append(_status(self._consoles[qemu.pid]))
            except OSError:  # it has just ended
                pass
        return states

    def tell_qemu(self, command: str) -> str:
        """Sends a command to its QEMU's console, for example "stop". Returns the answer to `info status`
        afterwards."""
        return _status(self._consoles[self.pid], command)

    def wait_successor_ended(self) -> None:
        """Waits until the waiting QEMU has ended by itself."""
        assert self._successor is not None
        self._successor.wait(_POWER_OFF_GUARD_S)

    def forget_arrival(self) -> None:
        """The guest stays where it is. The QEMU that waited for it, if any, ends by itself."""
        if self._successor is not None:
            self.wait_successor_ended()
        self._successor = self._arrival = None

    def settle(self, arrived: bool) -> None:
        """Whether the guest has finally arrived in the QEMU that waited for it. The other QEMU is ended if the VM
        is paused in it."""
        left = self._process if arrived else self._successor
        if arrived and self._arrival is not None:
            self.spec, self._process = self._arrival, self._successor
        self._successor = self._arrival = None
        if left is not None:
            process.stop(left, timeout_s=5.0)

    def start_without_adapter(self, arguments: list[str]) -> int:
        """Starts another QEMU of this guest's kind with additional arguments and without an adapter. Returns its
        process id."""
        assert self._successor is None, f"{self.name} has a QEMU that waits"
        self._successor = self._start_qemu(self._command(None), arguments)
        return self._successor.pid

    @property
    def pid(self) -> int:
        """The process id of its QEMU."""
        assert self._process is not None
        return self._process.pid

    @property
    def monitor(self) -> Path:
        """Its QMP socket, at the path that the daemon expects."""
        return self._vmm_socket("qmp")

    def follow_successor(self) -> None:
        """The guest is now in the successor. Waits until the earlier QEMU has ended."""
        assert self._process is not None and self._successor is not None
        if self._arrival is not None:
            self.spec, self._arrival = self._arrival, None
        self._process.wait(_POWER_OFF_GUARD_S)
        self._process, self._successor = self._successor, None

    def end_successor(self) -> None:
        """Ends the waiting QEMU if it has not ended by itself."""
        assert self._successor is not None
        process.stop(self._successor, timeout_s=5.0)
        self._successor = None

    def kill_successor(self) -> None:
        """kill -9 of the waiting QEMU."""
        assert self._successor is not None
        self._successor.kill()
        self._successor.wait()
        self._successor = None

    @property
    def boots(self) -> int:
        """How often the guest has booted."""
        return self._connected().boots

    def wait_ready(self, boots: int = 1) -> None:
        """Waits until the guest accepts commands (for the `boots`-th time since QEMU started)."""
        channel = self._connected()
        deadline = time.monotonic() + BOOT_GUARD_S
        while not channel.wait_for_boot(boots, timeout_s=0.5):
            if not self.running or time.monotonic() > deadline:
                state = "did not come up" if self.running else "ended while it started"
                raise GuestLost(f"{self.name} {state}; {self.qemu_log}:\n{process.tail(self.qemu_log)}\n"
                                f"{self.console_log}:\n{process.tail(self.console_log)}")

    def run(self, command: str, timeout_s: float = 30.0) -> Result:
        """Runs a shell command in the guest to its end."""
        return self.start_job(command).wait(timeout_s)

    def check(self, command: str, timeout_s: float = 30.0) -> str:
        """Like `run`, for a command that must succeed. Returns its output."""
        result = self.run(command, timeout_s)
        if result.exit_code != 0:
            raise GuestCommandFailed(f"{self.name}: '{command}' ended with {result.exit_code}:\n{result.output}")
        return result.output

    def start_job(self, command: str) -> Job:
        """Starts a shell command in the guest and returns at once. Any number can run at the same time."""
        channel = self._connected()
        return Job(self, channel, channel.submit(command + "\n"), command)

    def reboot(self) -> None:
        """Reboots the guest without shutting down its programs, and waits until it is up again."""
        boots = self.boots
        self.start_job("reboot -f")
        self.wait_ready(boots + 1)

    def reset(self) -> None:
        """Resets the machine without asking the guest. Waits until it is up again."""
        boots = self.boots
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor:
            monitor.connect(str(self._monitor_path))
            monitor.sendall(b"system_reset\n")
            self.wait_ready(boots + 1)

    def plug_adapter(self) -> None:
        """Plugs NIC and adapter into the port of a VM that started bare. The guest sees both when the NIC comes, because
        it is function 0."""
        with closing(Qmp(self.monitor)) as monitor:
            monitor.execute("device_add", driver="vfio-user-pci", id="adapter", bus=_PORT, addr="0.1",
                            socket={"type": "unix", "path": str(self.spec.adapter)})
            monitor.execute("netdev_add", type="stream", id="net", server=False, addr={"type": "unix", "path": str(self._hub)})
            monitor.execute("device_add", driver=self.spec.nic, id="nic", bus=_PORT, addr="0.0", multifunction=True,
                            netdev="net", mac=self.spec.mac, romfile="")

    def unplug_adapter(self) -> None:
        """Asks the guest to give up NIC and adapter, which are one slot. Returns at once."""
        with closing(Qmp(self.monitor)) as monitor:
            monitor.execute("device_del", id="nic")

    def power_off(self) -> None:
        """Powers the guest off and waits for QEMU to end."""
        assert self._process is not None
        self.start_job("poweroff -f")
        try:
            self._process.wait(_POWER_OFF_GUARD_S)
        except subprocess.TimeoutExpired as timeout:
            raise GuestTimeout(f"{self.name} did not power off within {_POWER_OFF_GUARD_S:g} s; "
                               f"{self.console_log}:\n{process.tail(self.console_log)}") from timeout

    def kill(self) -> None:
        """kill -9 of its QEMU: to the host, the VM has crashed."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends QEMU if it runs, and frees its resources on the host. The logs stay."""
        for qemu in (self._successor, self._process):
            if qemu is not None:
                process.stop(qemu, timeout_s=5.0)
        self._release()
        self._image.unlink(missing_ok=True)

    def _connected(self) -> Channel:
        assert self._channel is not None, f"{self.name} was never started"
        return self._channel

    def _release(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._agent_path.unlink(missing_ok=True)
        self._monitor_path.unlink(missing_ok=True)
        if self.spec.adapter is not None:
            for name in ("qmp", "next.qmp", "main", "cpr"):
                self._vmm_socket(name).unlink(missing_ok=True)

    @property
    def _monitor_path(self) -> Path:
        return self._run_folder / f"{self.name}.monitor{self._starts}"

    def _vmm_socket(self, name: str) -> Path:
        return vmm_socket(self.spec.adapter or self._run_folder / f"{self.name}.sock", name)

    def _start_qemu(self, command: list[str], arguments: list[str]) -> subprocess.Popen[bytes]:
        qemu = process.start([*command, *arguments], self.qemu_log, self._testbed.qemu_environment())
        self._consoles[qemu.pid] = self._monitor_path
        return qemu

    def _wait_for(self, path: Path, qemu: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _SUCCESSOR_GUARD_S
        while not path.exists():
            assert qemu.poll() is None and time.monotonic() < deadline, process.tail(self.qemu_log)
            time.sleep(0.02)

    def _initrd(self) -> Path:
        if not self.spec.overlays:
            return self._testbed.archive("base")
        with open(self._image, "wb") as image:
            for overlay in ("base", *self.spec.overlays):
                image.write(self._testbed.archive(overlay).read_bytes())
            for archive in self.spec.archives:
                image.write(archive.read_bytes())
        return self._image

    def _command(self, adapter: Path | None) -> list[str]:
        spec = self.spec
        self._starts += 1
        # On a busy host an emulated timer is late. Without these options the kernel may then panic while it boots
        # ("IO-APIC + timer doesn't work"), or, from 7.2 on, treat the TSC as unstable and change to the slow HPET.
        clock = ("no_timer_check", "tsc=reliable")
        # The kernel's tests of its own ciphers take half a second of each boot, random addresses nearly one.
        arguments = ["console=ttyS0", "quiet", *clock, "cryptomgr.notests", "nokaslr", f"pvrdma.name={spec.name}",
                     f"pvrdma.ip={spec.address}/24", f"pvrdma.ip6={spec.address6}/64", *spec.kernel_arguments]
        if not spec.load_driver:
            arguments.append("pvrdma.driver=no")
        machine = "q35,aux-ram-share=on"
        backend: list[str] = []
        if spec.memory_backend:
            machine += ",memory-backend=ram"
            backend = ["-object", f"{spec.memory_backend},id=ram,size={spec.memory_mib}M"]
        return [
            *self._testbed.qemu(),
            "-name", spec.name,
            "-accel", acceleration(),
            "-machine", machine,
            "-cpu", _PROCESSORS[acceleration()],
            "-m", str(spec.memory_mib),
            "-smp", str(spec.processors),
            *backend,
            "-nodefaults", "-display", "none",
            "-chardev", f"file,id=console,path={self.console_log},append=on", "-serial", "chardev:console",
            "-kernel", str(self._testbed.kernel),
            "-initrd", str(self._initrd()),
            "-append", " ".join(arguments),
            "-chardev", f"socket,id=monitor,path={self._monitor_path},server=on,wait=off", "-mon", "chardev=monitor,mode=readline",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,path={self._agent_path}",
            "-device", "virtserialport,chardev=agent,name=pvrdma.agent",
            *spec.devices,
            *(_EMPTY_PORT if spec.starts_bare else
              slot(FIRST_SLOT, f"server=off,addr.type=unix,addr.path={self._hub}", spec.mac, adapter, spec.nic)),
        ]


def vmm_socket(adapter: Path, name: str) -> Path:
    """Where `pvrdmactl vm qemu-args` puts a socket of the VM's QEMU: in a folder that the adapter's daemon has made.

    An earlier build of the daemon (test_other_version.py) makes none, and there the socket is beside the adapter's.
    """
    folder = adapter.with_suffix(".vmm")
    return folder / name if folder.is_dir() else adapter.with_suffix(f".{name}")


def _status(console: Path, command: str = "") -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor:
        monitor.settimeout(_MONITOR_GUARD_S)
        monitor.connect(str(console))
        monitor.sendall(f"{command}\ninfo status\n".encode())
        said = ""
        while "VM status: " not in said or not said.endswith("(qemu) "):
            more = monitor.recv(4096)
            if not more:
                raise OSError("QEMU has ended")
            said += more.decode(errors="replace")
    return said.rpartition("VM status: ")[2].splitlines()[0].strip()


def slot(number: int, stream: str, mac: str, adapter: Path | None, nic: str = "vmxnet3") -> list[str]:
    """QEMU's arguments for PCI slot `number`: a NIC on a `-netdev stream,STREAM`, and the daemon's adapter in the
    next function."""
    place = f"bus=pcie.0,addr={number:x}.0,multifunction=on"
    arguments = ["-netdev", f"stream,id=net{number:x},{stream}",
                 "-device", f"{nic},netdev=net{number:x},mac={mac},{place},romfile="]
    if adapter is not None:
        device = {"driver": "vfio-user-pci", "bus": "pcie.0", "addr": f"{number:x}.1",
                  "socket": {"type": "unix", "path": str(adapter)}}
        arguments += ["-device", json.dumps(device)]
    return arguments


def acceleration() -> str:
    """"kvm" if the processor supports virtualisation, else "tcg". /dev/kvm alone is no proof: on some machines it
    exists but does not work."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
    return "kvm" if ("vmx" in flags or "svm" in flags) and Path("/dev/kvm").exists() else "tcg"
