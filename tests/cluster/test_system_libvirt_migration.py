"""A domain of libvirt's system instance moves to another one, with the hook on both hosts. Both hosts are in one machine, and
the first one's daemon is the installed unit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.button_guest import boot_elements, make_guest
from fleet.second_host import SecondHost
from fleet.system_host import SystemHost, system_host
from fleet.until import until

_DOMAIN = """<domain type='qemu'>
  <name>VM-01</name>
  <os><type arch='x86_64' machine='q35'>hvm</type>{boot}</os>
  <devices><interface type='user'><mac address='52:54:00:12:34:51'/></interface></devices>
</domain>"""


@pytest.fixture(name="host", scope="module")
def _host() -> Iterator[SystemHost]:
    with system_host() as host:
        yield host


@pytest.fixture(name="second", scope="module")
def _second(host: SystemHost) -> SecondHost:
    second = SecondHost(host)
    host.make_switch()
    host.machine.run("pvrdmactl", "dvs", "add-host", "DSwitch", second.name)
    for name, address in (("esx-01", "127.0.0.1"), (second.name, "127.0.0.2")):
        for words in (f"network ip interface add -H {name} -i vmk2 --address {address}",
                      f"system settings advanced set -H {name} -o /Net/PVRDMAVmknic -s vmk2",
                      f"network firewall ruleset set -H {name} -e true -r pvrdma"):
            host.machine.run("pvrdmactl", *words.split())
    return second


def test_a_domain_with_a_guest_moves(host: SystemHost, second: SecondHost) -> None:
    make_guest(host.machine)
    host.write("/root/VM-01.xml", _DOMAIN.format(boot=boot_elements("VM-01")))
    host.machine.shell("""cd /root
        pvrdmactl vm create VM-01 --hw 14 --memory 256 --reserve all --portgroup pg1 --mac 52:54:00:12:34:51 --owner libvirt-qemu
        pvrdmactl vm libvirt-xml VM-01 --merge VM-01.xml >VM-01.pvrdma.xml""")
    host.virsh("define", "/root/VM-01.pvrdma.xml")
    host.virsh("start", "VM-01")
    until("the guest's driver runs", lambda: host.ctl("adapter", "get", "VM-01")["state"], accept=lambda state: state == "active", guard_s=120)

    moved = host.ctl("vm", "migrate", "VM-01", "--to", second.name, "--libvirt", second.uri, "--migrateuri", "tcp:127.0.0.1")
    assert (moved["state"], moved["error"]) == ("done", ""), moved
    assert second.shell("cat /etc/libvirt/calls") == "vm libvirt-hook\n", "the hook let the arriving domain in"
    assert second.ctl("adapter", "get", "VM-01")["state"] == "active"
    assert host.virsh("list", "--all", "--name").split() == []
    host.virsh("-c", second.uri, "shutdown", "VM-01")
    until("the guest is off", lambda: host.virsh("-c", second.uri, "domstate", "--reason", "VM-01").strip(),
          accept=lambda state: state == "shut off (shutdown)")


def test_the_domain_starts_only_where_its_vm_is(host: SystemHost, second: SecondHost) -> None:
    host.virsh("define", "/root/VM-01.pvrdma.xml")
    assert "pvrdmactl: VM VM-01 is on host esx-02, not on this host esx-01: " in host.start_refused("VM-01")
    host.virsh("-c", second.uri, "start", "VM-01")
    until("its adapter has its VM", lambda: second.ctl("vm", "get", "VM-01")["power"], accept=lambda power: power == "on")
    host.virsh("-c", second.uri, "destroy", "VM-01")
