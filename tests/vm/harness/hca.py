"""VMs as hosts: the daemon, etcd, and Soft-RoCE as the HCA inside a guest; several hosts may share one VM."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import as_unit, soft_roce
from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.guest_programs import ENVIRONMENT, built, installed, pack
from harness.vm import Job, Vm
from testbed import ensure

_UP_GUARD_S = 60.0
_MEMORY_MIB = 1024
_LOOPBACK = "127.0.0.1"
_CHECKER_PORT = 18515


@dataclass(frozen=True)
class HostInGuest:
    """One host. Its daemon's configuration and API are in a separate folder in the guest."""

    vm: Vm
    name: str
    address: str
    vm_name: str  # the host's VM
    etcd: str  # etcd's address

    @property
    def folder(self) -> str:
        """The host's folder in the guest."""
        return f"/run/{self.name}"

    @property
    def socket(self) -> str:
        """The socket of its VM's adapter."""
        return f"{self.folder}/{self.vm_name}.sock"

    def configure(self, lines: str = "", shards: int = 1) -> None:
        """Writes its configuration and appends `lines`. Without a ward: an adapter that takes long because the guest is
        emulated would come there."""
        text = "\n".join(["[daemon]", f'api_socket = "{self.folder}/api.sock"', f"shards = {shards}", "ward = false", "[host]", f'name = "{self.name}"',
                          'vmnics = ["eth0"]', f'socket_folder = "{self.folder}"', "[store]", 'type = "etcd"',
                          f'endpoints = ["http://{self.etcd}:2379"]', lines, ""])
        self.vm.check(f"mkdir -p {self.folder} && cat > {self.folder}/pvrdmad.toml <<'END'\n{text}END")

    def start(self, limit_kib: int | None = None) -> Job:
        """Starts the daemon with the rights of its unit, but with this limit of locked memory if it is given. Waits until its API
        answers, and until it has the store: then it takes edits."""
        job = self.vm.start_job(f"export {ENVIRONMENT}; echo $$ > {self.folder}/pid; "
                                f"{as_unit.shell_words(self.folder, limit_kib)} pvrdmad --config {self.folder}/pvrdmad.toml")
        until(f"{self.name} has the store", lambda: job.done or self._has_store())
        assert not job.done, job.output_so_far()
        return job

    def _has_store(self) -> bool:
        told = self.vm.run(self._ctl("--json cluster get"))
        return told.exit_code == 0 and json.loads(told.output)["store"]["connected"]

    def end(self, signal: str = "TERM") -> None:
        """Ends the daemon, and waits until it has ended."""
        pid = self.vm.check(f"cat {self.folder}/pid").strip()
        self.vm.check(f"kill -{signal} {pid}")
        until(f"{self.name} has ended", lambda: self.vm.run(f"test -d /proc/{pid}").exit_code != 0)

    def start_checker(self, options: str, waits: bool = True) -> Job:
        """Starts rc_checker in this guest. With `waits` it returns when the checker runs."""
        job = self.vm.start_job(f"export {ENVIRONMENT}; echo $$ > /run/checker.pid; exec rc_checker {options}")
        until("rc_checker runs", lambda: not waits or job.done or "running" in job.output_so_far())
        return job

    def end_checker(self) -> None:
        """Makes the checker report its results and end."""
        self.vm.check("kill -TERM $(cat /run/checker.pid)")

    def ctl(self, command: str) -> str:
        """The output of pvrdmactl."""
        return self.vm.check(self._ctl(command))

    def ctl_json(self, command: str) -> Any:
        """The output of pvrdmactl, as JSON."""
        return json.loads(self.ctl(f"--json {command}"))

    def try_ctl(self, command: str) -> str:
        """The output of pvrdmactl, also if it fails."""
        return self.vm.run(self._ctl(command)).output

    def _ctl(self, command: str) -> str:
        return f"{ENVIRONMENT} pvrdmactl --api {self.folder}/api.sock {command}"


def until(what: str, holds: object, guard_s: float = _UP_GUARD_S) -> None:
    """Waits until `holds()`. AssertionError after the guard's time."""
    deadline = time.monotonic() + guard_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within {guard_s:g} s: {what}"
        time.sleep(0.2)


class HcaHosts(Ensemble):
    """Two hosts, esx-01 with VM-01 and esx-02 with VM-02, each with a Soft-RoCE device as its HCA. etcd runs on the first.

    A derived class defines the guests, and which host runs in which guest.
    """

    def __init__(self, logs: Path, processors: int = 1) -> None:
        super().__init__(logs)
        self._processors = processors
        self.hosts: list[HostInGuest] = []

    def _adapters(self) -> list[Adapter]:
        return []

    def _start_guests(self, count: int) -> None:
        archive = self._run / "hca.cpio"
        pack(archive, [*built("src/pvrdmad/pvrdmad", "src/pvrdmactl/pvrdmactl", "tests/cluster/rc_checker", "tests/cluster/rc_perf"),
                       *installed("etcd", "etcdctl", "setpriv")])
        self._start_vms(ensure("trixie"), [
            dataclasses.replace(soft_roce.spec(index, ("siw",)), name=f"HCA-{index:02d}", archives=(archive,), memory_mib=_MEMORY_MIB,
                                processors=self._processors)
            for index in range(1, count + 1)])

    def _start_hosts(self, etcd_address: str) -> None:
        """Starts devices, etcd and daemons. Then configures the cluster like examples/two_hosts.sh, with one
        uplink: that of the HCA."""
        for vm in self.vms:
            soft_roce.add_device(vm)
        endpoint, first = f"http://{etcd_address}:2379", self.hosts[0]
        first.vm.start_job(f"{ENVIRONMENT} etcd --data-dir /tmp/etcd --listen-client-urls {endpoint} --advertise-client-urls {endpoint}"
                           " --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync --log-level warn")
        health = f"{ENVIRONMENT} ETCDCTL_API=3 etcdctl --endpoints={endpoint} endpoint health"
        until("etcd answers", lambda: first.vm.run(health).exit_code == 0)
        for host in self.hosts:
            host.configure()
            host.start()
        ctl = first.ctl
        ctl("dvs create DSwitch --uplinks 1")
        ctl("dvs portgroup add DSwitch DPortGroup-PVRDMA --vlan 0")
        for host in self.hosts:
            ctl(f"dvs add-host DSwitch {host.name}")
            ctl(f"dvs uplink set DSwitch {host.name} uplink1 vmnic0")
            ctl(f"network ip interface add -H {host.name} -i vmk2 --address {host.address}")
            ctl(f"system settings advanced set -H {host.name} -o /Net/PVRDMAVmknic -s vmk2")
            ctl(f"network firewall ruleset set -H {host.name} -e true -r pvrdma")
            ctl(f"vm create {host.vm_name} --host {host.name} --hw 14 --memory 512 --reserve all --portgroup DPortGroup-PVRDMA"
                " --protocol v2")
        for host in self.hosts:
            until(f"{host.socket} is there", lambda host=host: host.vm.run(f"test -S {host.socket}").exit_code == 0)

    def paths(self) -> set[tuple[str, str]]:
        """(kind, reason) of the paths of the connections of the first host's VM."""
        return {(path["path"], path["reason"]) for path in self.hosts[0].ctl_json("path list")}

    def restart(self, host: HostInGuest, lines: str = "", limit_kib: int | None = None, shards: int = 1) -> None:
        """Ends a host's daemon and starts it with another configuration. Afterwards its VM's adapter exists
        again."""
        host.end()
        host.configure(lines, shards)
        host.start(limit_kib)
        until(f"{host.socket} is there", lambda: host.vm.run(f"test -S {host.socket}").exit_code == 0)


class HcaMachine(HcaHosts):
    """One VM in which both hosts share the device, like two processes.

    Each has its own address, and both have the NIC as vmnic0. With `apart` the addresses are not on the NIC: TCP does not
    need it, and the HCA is reached by its link-local GID.
    """

    def __init__(self, logs: Path, apart: bool = False, processors: int = 1) -> None:
        super().__init__(logs, processors)
        self._apart = apart

    @property
    def vm(self) -> Vm:
        """The guest."""
        return self.vms[0]

    def _start(self) -> None:
        self._start_guests(1)
        first = self.vm.address
        addresses = ("10.9.0.1", "10.9.0.2") if self._apart else (first, first.replace(".61", ".62"))
        for address in addresses:
            self.vm.check(f"ip address add {address}/24 dev {'lo' if self._apart else 'eth0'} || test {address} = {first}")
        self.hosts = [HostInGuest(self.vm, f"esx-0{i}", address, f"VM-0{i}", _LOOPBACK) for i, address in enumerate(addresses, 1)]
        self._start_hosts(_LOOPBACK)

    def start_checker(self, rounds: int) -> Job:
        """Starts rc_checker between the two hosts' VMs and returns when it runs. It does `rounds` rounds on each
        of four connections."""
        a, b = (host.socket for host in self.hosts)
        return self.hosts[0].start_checker(f"--a {a} --b {b} --rounds {rounds}")


class TwoHcaHosts(HcaHosts):
    """Two VMs on one Ethernet, with a host in each."""

    def _start(self) -> None:
        self._start_guests(2)
        self.hosts = [HostInGuest(vm, f"esx-0{i}", vm.address, f"VM-0{i}", self.vms[0].address) for i, vm in enumerate(self.vms, 1)]
        self._start_hosts(self.vms[0].address)

    def start_checkers(self) -> list[Job]:
        """Starts rc_checker in both hosts, between their VMs, until HostInGuest.end_checker() on the first. A's
        job is the first."""
        first, second = self.hosts
        responder = second.start_checker(f"--b {second.socket} --listen 0.0.0.0:{_CHECKER_PORT}", waits=False)
        until("B listens", lambda: second.vm.run(f"netstat -ltn | grep -q :{_CHECKER_PORT}").exit_code == 0)
        return [first.start_checker(f"--a {first.socket} --peer {second.address}:{_CHECKER_PORT}"), responder]
