"""Two or more hosts, their store, and their VMs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.checker import Checker
from fleet.etcd import Etcd
from fleet.host import Certificates, Host
from fleet.network import Network, address_of
from fleet.until import until
from harness import process, rdma, soft_roce
from harness.block import Block
from harness.daemon import REPOSITORY, binary
from harness.hub import Hub
from harness.vm import Vm, VmSpec
from testbed import Testbed, ensure

SWITCH = "DSwitch"
PORTGROUP = "DPortGroup-PVRDMA"
_GUARD_S = 60.0


class Fleet(Block):
    """Hosts esx-01, esx-02 ... in one cluster. On entry it starts network, etcd and daemons, and configures nothing.

    `certificates` by host name enable mutual TLS. `etcd_options` are additional arguments. `store_of` is called when etcd
    runs but no daemon does, and returns additional lines for each host's [store]. VMs have the doorbell mode
    PVRDMA_DOORBELLS (default: the daemon's). Each host has `shards`, or else PVRDMA_SHARDS (default: 1).
    """

    def __init__(self, logs: Path, host_count: int = 2, certificates: dict[str, Certificates] | None = None,
                 lease_s: int = 5, etcd_options: list[str] | None = None,
                 store_of: Callable[[Fleet], dict[str, str]] | None = None, shards: int | None = None) -> None:
        self.logs = logs
        self.vms: dict[str, Vm] = {}
        names = [f"esx-{index:02d}" for index in range(1, host_count + 1)]
        self.network = Network(names)
        self.folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        self.etcd = Etcd(self.network, self.folder / "etcd", logs, etcd_options)
        self._store_of = store_of
        self.shards = shards or int(os.environ.get("PVRDMA_SHARDS", "1"))
        store = f'type = "etcd"\nendpoints = ["{self.etcd.endpoint}"]\nlease_s = {lease_s}'
        self.hosts = {name: Host(name, address_of(index), self.network, store, self.folder / name, logs,
                                 (certificates or {}).get(name), shards=self.shards)
                      for index, name in enumerate(names, 1)}
        self._hub: Hub | None = None

    @property
    def lanes(self) -> int:
        """How many TCP connections a host dials to another one at least: [tcp] lanes, divided by the shards, between the first shards."""
        return 4 // self.shards

    def __getitem__(self, number: int) -> Host:
        """Host number 1, 2 ..."""
        return self.hosts[f"esx-{number:02d}"]

    def close(self) -> None:
        """Ends VMs, daemons and etcd; removes namespaces and sockets. The logs stay."""
        for vm in self.vms.values():
            vm.close()
        for host in self.hosts.values():
            host.close()
        self.etcd.close()
        if self._hub is not None:
            self._hub.close()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tails(self) -> list[tuple[str, str]]:
        """(path, last lines) of every log, for the report of a failure."""
        return [(str(path), process.tail(path)) for path in sorted(self.logs.iterdir()) if path.is_file() and path.suffix != ".toml"]

    def make_folder(self, name: str) -> Path:
        """Makes a folder among the logs."""
        folder = self.logs / name
        folder.mkdir()
        return folder

    def follow_the_guide(self) -> str:
        """Runs examples/two_hosts.sh for the first two hosts and returns its output."""
        one, two = self[1], self[2]
        environment = {**os.environ, "PVRDMACTL": str(binary("pvrdmactl")), "PVRDMA_API": str(one.api),
                       "SWITCH": SWITCH, "PORTGROUP": PORTGROUP}
        command = [str(REPOSITORY / "examples" / "two_hosts.sh"), one.name, one.address, two.name, two.address]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=_GUARD_S, check=False)
        assert done.returncode == 0, f"two_hosts.sh ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        if options := _doorbell_options():
            for name in ("VM-01", "VM-02"):
                one.ctl("vm", "set", name, *options)
        return done.stdout

    def join(self, number: int) -> None:
        """Makes a further host a member of the guide's switch."""
        name, one = self[number].name, self[1]
        one.ctl_text("dvs", "add-host", SWITCH, name)
        one.ctl_text("dvs", "uplink", "set", SWITCH, name, "uplink1", "vmnic0")
        one.ctl_text("network", "ip", "interface", "add", "-H", name, "-i", "vmk2", "--address", self[number].address)
        one.ctl_text("system", "settings", "advanced", "set", "-H", name, "-o", "/Net/PVRDMAVmknic", "-s", "vmk2")
        one.ctl_text("network", "firewall", "ruleset", "set", "-H", name, "-e", "true", "-r", "pvrdma")

    def define_vm(self, name: str, number: int, *options: str) -> dict[str, Any]:
        """Defines a VM on a host with an adapter in the guide's port group. Returns the output of `vm get`."""
        return self[1].ctl("vm", "create", name, "--host", self[number].name, "--hw", "14", "--memory", "512",
                           "--reserve", "all", "--portgroup", PORTGROUP, *_doorbell_options(), *options)

    def boot(self, *names: str, overlays: tuple[str, ...] = (), kind: type[Vm] = Vm) -> list[Vm]:
        """Powers VMs on at the same time, each with 192.168.11.50+NN for VM-NN, and waits until their ports are
        active."""
        testbed: Testbed = ensure()
        hub = self._ethernet()
        booted = []
        for name in names:
            shown = self[1].ctl("vm", "get", name)
            octet = 50 + int(name.rpartition("-")[2])
            spec = VmSpec(name=name, address=f"192.168.11.{octet}", address6=f"fd00:11::{octet}",
                          mac=shown["adapter"]["mac"], adapter=self.socket_of(name),
                          memory_mib=shown["memory_mib"], overlays=overlays)
            booted.append(kind(spec, testbed, hub.path, self.folder, self.logs))
            self.vms[name] = booted[-1]
        for vm in booted:
            vm.start()
        for vm in booted:
            vm.wait_ready()
            rdma.wait_active(vm)
        return booted

    def boot_native(self) -> Vm:
        """Powers on a native endpoint, RXE-01 on the VMs' Ethernet, and waits until it is usable."""
        native = Vm(soft_roce.spec(1), ensure(), self._ethernet().path, self.folder, self.logs)
        self.vms[native.name] = native
        native.start()
        native.wait_ready()
        soft_roce.add_device(native)
        return native

    def link_roce(self, number: int, *vms: str) -> None:
        """Connects a host to the VMs' Ethernet, where it gets the RoCE frames to these VMs. Only while all VMs are off;
        restarts the daemon.

        Several hosts may get the same frames, as when a switch does not know yet on which of them a VM is.
        """
        self._hub = self._hub or Hub(self.folder / "ethernet.sock", tuple(self[1].ctl("vm", "get", name)["adapter"]["mac"] for name in vms))
        host = self[number]
        host.stop()
        host.add_lines(f'[[roce]]\nlink = "stream:{self._hub.link}"\nswitch = "{SWITCH}"')
        host.give(self._hub.link.parent)
        host.start()

    def checker(self, a: str, b: str, *options: str) -> Checker:
        """rc_checker between the adapters of two VMs that are off."""
        return Checker(self.socket_of(a), self.socket_of(b), self.logs / "rc_checker.log", *options)

    def socket_of(self, vm: str) -> Path:
        """The socket of the VM's adapter, once it is served: a host learns of its VMs a moment after their edit."""
        socket = Path(until(f"the host of {vm} is known", lambda: self[1].ctl("vm", "get", vm)["adapter"]["socket"]))
        until(f"the adapter of {vm} is served", socket.exists)
        return socket

    def paths(self) -> dict[str, set[str]]:
        """The paths in use on all hosts, by adapter."""
        shown: dict[str, set[str]] = {}
        for host in self.hosts.values():
            for path in host.ctl("path", "list"):
                shown.setdefault(path["adapter"], set()).add(path["path"])
        return shown

    def _ethernet(self) -> Hub:
        if self._hub is None:
            self._hub = Hub(self.folder / "ethernet.sock")
        return self._hub

    def _start(self) -> None:
        self.network.open()
        self.etcd.start()
        for name, lines in (self._store_of(self) if self._store_of is not None else {}).items():
            self.hosts[name].add_to_store(lines)
        for host in self.hosts.values():
            host.start()
        for host in self.hosts.values():
            until(f"{host.name} knows all hosts", lambda host=host: {each["name"] for each in host.ctl("host", "list") if each["alive"]},
                  accept=lambda seen: seen == set(self.hosts))


def _doorbell_options() -> list[str]:
    """The doorbell options of `vm create` and `vm set`."""
    mode = os.environ.get("PVRDMA_DOORBELLS")
    return ["--doorbells", mode] if mode else []
