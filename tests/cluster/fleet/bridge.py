"""A host's bridge with the NIC of one of its VMs, and the rules that `dvs roce-rules` prints for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fleet.host import Host
from fleet.network import Network, address_of
from harness import as_unit, process


class Bridge:
    """br0 of the host, with eth2 as its uplink. The other end of the uplink's cable (`far_end`, in the wire's namespace) is
    free. The VM's NIC is tap1, which the test holds and plugs in; pvrdmad's port is pvroce0.
    """

    def __init__(self, host: Host, network: Network, switch: str, vm: str, mtu: int) -> None:
        self.host = host
        self.space = network.inside(host.name)[3]
        self.wire_space = network.inside()[3]
        self.far_end = network.unplug_spare(host.name)
        self._inside = network.inside(host.name)
        self._switch = switch
        self._vm = vm
        self._mtu = str(mtu)

    def make(self) -> None:
        """Makes the bridge. Afterwards no device in the host's namespace or on its wire sends frames by itself."""
        for space in (self.space, self.wire_space):
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                            "net.ipv6.conf.default.disable_ipv6=1"], check=True)
        self.run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        self.run("ip", "link", "set", "dev", "br0", "mtu", self._mtu, "up")
        subprocess.run(["ip", "-n", self.wire_space, "link", "set", "dev", self.far_end, "mtu", self._mtu], check=True)
        self.plug("eth2")

    def run(self, *command: str, text: str | None = None) -> str:
        """The output of a command in the host's namespace."""
        done = subprocess.run([*self._inside, *command], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def rules(self, *options: str) -> None:
        """Executes the printed commands, as an administrator would."""
        printed = self.host.ctl_text("dvs", "roce-rules", self._switch, self.host.name, "--bridge", "br0", "--taps",
                                     f"{self._vm}=tap1", "--user", str(as_unit.user_id()), *options)
        assert self.run("sh", "-e", text=printed) == ""

    def plug(self, device: str) -> None:
        """Makes a device a port of the bridge."""
        self.run("ip", "link", "set", "dev", device, "mtu", self._mtu, "master", "br0", "up")

    def lose(self, percent: int) -> None:
        """Drops this percentage of the frames that leave or enter by the cable, at random."""
        chains = "".join(f"chain {hook} {{ type filter hook {hook} device eth2 priority 0; numgen random mod 100 < {percent} drop; }}\n"
                         for hook in ("ingress", "egress"))
        self.run("nft", "-f", "-", text=f"table netdev lossy {{\n{chains}}}\n")

    def delivered(self, device: str) -> int:
        """How many frames were passed to the holder of a tap."""
        links = json.loads(self.run("ip", "-j", "-s", "link", "show", "dev", device))
        return int(links[0]["stats64"]["tx"]["packets"])

    def table(self) -> set[tuple[str, str]]:
        """The forwarding table: MACs and the ports where the bridge expects them."""
        entries = json.loads(self.run("bridge", "-j", "fdb", "show", "br", "br0"))
        return {(entry["mac"], entry["ifname"]) for entry in entries}

    def ports_of(self, mac: str) -> list[str]:
        """The ports where the bridge expects a MAC."""
        return [port for known, port in self.table() if known == mac]


@contextmanager
def lone_hosts(macs: list[str], logs: Path, mtu: int) -> Iterator[list[Bridge]]:
    """For each MAC, a host that is a cluster of its own, with a bridge and with a VM, VM-01, that has this MAC
    and may reach native endpoints.
    """
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    names = [f"esx-{number:02d}" for number in range(1, len(macs) + 1)]
    network = Network(names)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pvrdma-")))
        stack.callback(network.close)
        network.open()
        bridges = []
        for number, (name, mac) in enumerate(zip(names, macs), 1):
            host = Host(name, address_of(number), network, f'type = "sqlite"\npath = "{folder}/{name}/store.db"', folder / name, logs)
            stack.callback(lambda log=host.log: print(process.tail(log)))  # pytest shows it if the test has failed
            stack.callback(host.close)
            host.start()
            host.ctl("dvs", "create", "Switch")
            host.ctl("dvs", "portgroup", "add", "Switch", "PG", "--mtu", str(mtu), "--native-endpoints", "on")
            host.ctl("dvs", "add-host", "Switch", name)
            host.ctl("vm", "create", "VM-01", "--host", name, "--hw", "18", "--memory", "512", "--reserve", "all", "--portgroup", "PG",
                     "--mac", mac)
            bridges.append(Bridge(host, network, "Switch", "VM-01", mtu))
            bridges[-1].make()
        yield bridges
