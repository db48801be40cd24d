"""The wire: a namespace with a bridge, and a namespace for each host, joined to it by two veth pairs.

Host number i (from 1) has eth1 with 10.77.0.i/24, which carries PVRDMA, and eth2 without an address. The bridge itself is
10.77.0.254, etcd's address. Nothing of it is visible in the tests' own namespace.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

PORT = 28250  # of PVRDMA between hosts
STORE_PORT = 2379
WIRE_ADDRESS = "10.77.0.254"
_BRIDGE_MAC = "02:00:0a:4d:00:fe"  # otherwise a bridge changes its MAC with its ports
_NUMBERS = itertools.count(1)  # numbers this process's networks, of which several can exist at a time


def address_of(index: int) -> str:
    """The address of host number `index`."""
    return f"10.77.0.{index}"


class Network:
    """Namespaces for `hosts`, numbered from 1 in their order."""

    def __init__(self, hosts: list[str]) -> None:
        prefix = f"pvrdma-{os.getpid()}-{next(_NUMBERS)}"
        self._wire = f"{prefix}-wire"
        self._spaces = {host: f"{prefix}-{host}" for host in hosts}
        self._ports = {host: f"port{index}" for index, host in enumerate(hosts, 1)}
        self._spares = {host: f"spare{index}" for index, host in enumerate(hosts, 1)}
        self._made: list[str] = []

    def open(self) -> None:
        """Makes the network."""
        self._make_space(self._wire)
        _run("ip", "-n", self._wire, "link", "add", "br0", "address", _BRIDGE_MAC, "type", "bridge")
        _run("ip", "-n", self._wire, "address", "add", f"{WIRE_ADDRESS}/24", "dev", "br0")
        _run("ip", "-n", self._wire, "link", "set", "br0", "up")
        for index, (host, space) in enumerate(self._spaces.items(), 1):
            self._make_space(space)
            # Only eth1 answers for its address. Otherwise neighbours cache eth2's MAC, and lose the host when eth2 is
            # connected elsewhere.
            _run("ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
            for nic, port in (("eth1", self._ports[host]), ("eth2", self._spares[host])):
                _run("ip", "-n", self._wire, "link", "add", port, "type", "veth", "peer", "name", nic, "netns", space)
                _run("ip", "-n", self._wire, "link", "set", port, "master", "br0", "up")
                _run("ip", "-n", space, "link", "set", nic, "up")
            _run("ip", "-n", space, "address", "add", f"{address_of(index)}/24", "dev", "eth1")

    def close(self) -> None:
        """Removes the network. Programs that still run in a namespace lose its interfaces."""
        for space in reversed(self._made):
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)
        self._made.clear()

    def inside(self, host: str | None = None) -> list[str]:
        """The words before a command that run it in a host's namespace (None: the wire's)."""
        return ["ip", "netns", "exec", self._wire if host is None else self._spaces[host]]

    def unplug_spare(self, host: str) -> str:
        """Disconnects eth2's cable from the bridge. Returns the end that is now free."""
        _run("ip", "-n", self._wire, "link", "set", self._spares[host], "nomaster")
        return self._spares[host]

    def cut(self, host: str) -> None:
        """Unplugs a host's cable."""
        _run("ip", "-n", self._wire, "link", "set", self._ports[host], "down")

    def mend(self, host: str) -> None:
        """Plugs it in again."""
        _run("ip", "-n", self._wire, "link", "set", self._ports[host], "up")

    def lose(self, host: str, percent: int) -> None:
        """Drops this percentage of the PVRDMA packets that arrive at a host, at random; 0 ends that."""
        self._filter(host, f"numgen random mod 100 < {percent} drop" if percent else None)

    def block(self, host: str, blocked: bool) -> None:
        """Drops all PVRDMA packets that arrive at a host: its peers get no answer, and no connection is reset."""
        self._filter(host, "drop" if blocked else None)

    def hide_store(self, host: str, hidden: bool) -> None:
        """Drops all packets between a host and etcd, in both directions, but no PVRDMA packets."""
        port = self._ports[host]
        chains = {"to_store": f"hook ingress device {port} priority 0; tcp dport {STORE_PORT} drop;",
                  "from_store": f"hook egress device {port} priority 0; tcp sport {STORE_PORT} drop;"}
        _run(*self.inside(), "nft", "-f", "-", text=_table(f"netdev store_{port}", chains if hidden else {}))

    @contextmanager
    def narrowed(self, host: str, rate: str) -> Iterator[None]:
        """Limits the rate of packets to a host, for example to "20mbit"."""
        device = ("dev", self._ports[host], "root")
        _run("tc", "-n", self._wire, "qdisc", "add", *device, "tbf", "rate", rate, "burst", "64kb", "latency", "100ms")
        try:
            yield
        finally:
            _run("tc", "-n", self._wire, "qdisc", "delete", *device)

    def readdress(self, host: str, old: str, new: str) -> None:
        """Gives a host's eth1 another address."""
        space = self._spaces[host]
        _run("ip", "-n", space, "address", "add", f"{new}/24", "dev", "eth1")
        if old:
            _run("ip", "-n", space, "address", "delete", f"{old}/24", "dev", "eth1")

    def _filter(self, host: str, verdict: str | None) -> None:
        chains = {"input": f"hook input priority 0; tcp dport {PORT} {verdict}; tcp sport {PORT} {verdict};"} if verdict is not None else {}
        _run(*self.inside(host), "nft", "-f", "-", text=_table("inet pvrdma_test", chains))

    def _make_space(self, space: str) -> None:
        _run("ip", "netns", "add", space)
        self._made.append(space)
        _run("ip", "-n", space, "link", "set", "lo", "up")


def _table(name: str, chains: dict[str, str]) -> str:
    """Commands that replace an nftables table, or only remove it if there are no chains."""
    text = f"table {name}\ndelete table {name}\n"
    if chains:
        text += f"table {name} {{\n" + "".join(f"chain {chain} {{ type filter {rest} }}\n" for chain, rest in chains.items()) + "}\n"
    return text


def _run(*command: str, text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}: {done.stdout}{done.stderr}")
