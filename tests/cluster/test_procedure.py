"""The deployment guide's procedure (examples/two_hosts.sh), and each of its rules violated once."""

from __future__ import annotations

import re

import pytest

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until


def _connected(fleet: Fleet) -> bool:
    return all(peer["lanes_up"] >= fleet.lanes for host in fleet.hosts.values() for peer in host.ctl("cluster", "get")["tcp"]["peers"])


def test_the_guide(own_fleet: Fleet) -> None:
    until("doctor misses the guide's steps", lambda: own_fleet[1].ctl_outcome("doctor")[1],
          accept=lambda lines: "TROUBLE  vmknic: this host has no VMkernel adapter" in lines and "TROUBLE  ruleset pvrdma: disabled" in lines)
    printed = own_fleet.follow_the_guide()
    assert "vm qemu-args VM-02" in printed
    own_fleet.follow_the_guide()  # it can be run again
    until("both hosts are connected", lambda: _connected(own_fleet))
    with own_fleet.checker("VM-01", "VM-02") as checker:
        checker.advance(50)
        until("both VMs are on", lambda: {vm["name"]: vm["power"] for vm in own_fleet[2].ctl("vm", "list")},
              accept=lambda power: power == {"VM-01": "on", "VM-02": "on"})
    until("both VMs are off", lambda: all(vm["power"] == "off" for vm in own_fleet[1].ctl("vm", "list")))


def test_esxcli_words(shared_fleet: Fleet) -> None:
    """The commands in VMware's documents, word for word."""
    host = shared_fleet[1]
    rulesets = host.ctl_text("network", "firewall", "ruleset", "list").splitlines()
    assert rulesets[0].split() == ["Name", "Enabled"] and rulesets[2].split() == ["pvrdma", "true"]
    setting = host.ctl_text("system", "settings", "advanced", "list", "-o", "/Net/PVRDMAVmknic")
    assert re.search(r"^ +Path: /Net/PVRDMAVmknic$", setting, re.MULTILINE)
    assert re.search(r"^ +String Value: vmk2$", setting, re.MULTILINE)
    nics = host.ctl_text("network", "nic", "list").splitlines()
    assert nics[0].startswith("Name") and [line.split()[0] for line in nics[2:]] == ["vmnic0", "vmnic1"]
    header = host.ctl_text("rdma", "device", "list").splitlines()[0]
    assert header.split("  ") == ["Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Description"]
    assert host.ctl_text("rdma", "device", "protocol", "list").split()[:1] == ["Device"]
    assert host.ctl_text("rdma", "device", "vmknic", "list").split() [:3] == ["Device", "Vmknic", "NetStack"]
    assert "vmrdma0" in host.refusal("rdma", "device", "stats", "get", "-d", "vmrdma0")
    rules = host.ctl("network", "firewall", "ruleset", "rule", "list", "-r", "pvrdma")
    assert {rule["port_begin"] for rule in rules} == {28250}
    # Through the other host's daemon.
    assert shared_fleet[2].ctl("host", "get", "esx-01")["pvrdma_vmknic"] == "vmk2"


_HW = ("--memory", "512", "--reserve", "all", "--portgroup", PORTGROUP)
# The violation -> the command, and what its refusal must say.
_BROKEN = {
    "hardware version 12": (("vm", "create", "X", "--hw", "12", *_HW), r"X.*12.*13"),
    "RoCE v2 on 13": (("vm", "create", "X", "--hw", "13", "--protocol", "v2", *_HW), r"v2.*14"),
    "unknown port group": (("vm", "create", "X", "--hw", "14", "--memory", "512", "--portgroup", "nowhere"), r"nowhere"),
    "unknown host": (("vm", "create", "X", "--host", "esx-99", "--hw", "14", *_HW), r"esx-99"),
    "a name taken": (("vm", "create", "VM-01", "--hw", "14", *_HW), r"VM-01"),
    "more reserved than there is": (("vm", "create", "X", "--hw", "14", "--memory", "512", "--reserve", "513"), r"513.*512"),
    "a MAC taken": (("vm", "set", "VM-01", "--portgroup", "nowhere"), r"nowhere"),
    "no downgrade": (("vm", "upgrade", "VM-01", "--hw", "13"), r"13"),
    "tag of no vmk": (("system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic", "-s", "vmk9"), r"vmk9"),
    "unknown setting": (("system", "settings", "advanced", "set", "-o", "/Net/Other", "-s", "1"), r"/Net/Other"),
    "tagged vmk removed": (("network", "ip", "interface", "remove", "-i", "vmk2"), r"vmk2"),
    "an address taken": (("network", "ip", "interface", "add", "-i", "vmk3", "--address", "10.77.0.2"), r"10\.77\.0\.2.*esx-02"),
    "no address": (("network", "ip", "interface", "add", "-i", "vmk3", "--address", "10.77"), r"10\.77"),
    "unknown ruleset": (("network", "firewall", "ruleset", "set", "-e", "true", "-r", "ssh"), r"ssh"),
    "bad network": (("network", "firewall", "ruleset", "allowedip", "add", "-r", "pvrdma", "-i", "1.2.3.4/99"), r"99"),
    "unknown vmnic": (("dvs", "uplink", "set", SWITCH, "esx-01", "uplink1", "vmnic7"), r"vmnic7"),
    "unknown uplink": (("dvs", "uplink", "set", SWITCH, "esx-01", "uplink9", "vmnic0"), r"uplink9"),
    "a switch in use": (("dvs", "delete", SWITCH), SWITCH),
    "a port group in use": (("dvs", "portgroup", "remove", SWITCH, PORTGROUP), PORTGROUP),
    "a member with VMs": (("host", "delete", "esx-02"), r"esx-02"),
}


@pytest.mark.parametrize("broken", _BROKEN)
def test_a_refused_change_says_why(shared_fleet: Fleet, broken: str) -> None:
    command, pattern = _BROKEN[broken]
    before = shared_fleet[1].ctl("vm", "list"), shared_fleet[1].ctl("dvs", "list"), shared_fleet[1].ctl("host", "list")
    sentence = shared_fleet[1].refusal(*command)
    assert re.search(pattern, sentence), sentence
    after = shared_fleet[1].ctl("vm", "list"), shared_fleet[1].ctl("dvs", "list"), shared_fleet[1].ctl("host", "list")
    assert before == after


def test_memory_must_be_reserved_before_power_on(shared_fleet: Fleet) -> None:
    one = shared_fleet[1]
    one.ctl("vm", "create", "VM-31", "--hw", "14", "--memory", "512", "--reserve", "511", "--portgroup", PORTGROUP)
    try:
        sentence = one.refusal("vm", "qemu-args", "VM-31")
        assert re.search(r"VM-31.*(511|512).*MiB", sentence), sentence
        with pytest.raises(AssertionError):  # a VMM that connects all the same is refused
            with shared_fleet.checker("VM-31", "VM-02"):
                pass
        until("the refusal is logged", lambda: "VM-31" in one.logged() and "reserv" in one.logged())
        assert one.ctl("vm", "get", "VM-31")["power"] == "off"
        one.ctl("vm", "set", "VM-31", "--reserve", "all")
        with shared_fleet.checker("VM-31", "VM-02") as checker:
            checker.advance(10)
            until("VM-31 is on", lambda: one.ctl("vm", "get", "VM-31")["power"] == "on")
            assert re.search(r"VM-31.*on", one.refusal("vm", "set", "VM-31", "--reserve", "511"))
            assert re.search(r"VM-31.*on", one.refusal("vm", "delete", "VM-31"))
            assert "esx-01" in one.refusal("dvs", "remove-host", SWITCH, "esx-01")
        until("VM-31 is off", lambda: one.ctl("vm", "get", "VM-31")["power"] == "off")
    finally:
        one.ctl("vm", "delete", "VM-31")


def test_an_upgrade_keeps_the_roce_version(shared_fleet: Fleet) -> None:
    one = shared_fleet[1]
    one.ctl("vm", "create", "VM-32", "--hw", "13", "--memory", "512", "--reserve", "all", "--portgroup", PORTGROUP)
    try:
        assert one.ctl("vm", "upgrade", "VM-32", "--hw", "14")["adapter"]["protocol"] == "v1"
        assert one.ctl("vm", "set", "VM-32", "--protocol", "v2")["adapter"]["protocol"] == "v2"
        assert one.ctl("vm", "upgrade", "VM-32", "--hw", "17")["adapter"]["protocol"] == "v2"
    finally:
        one.ctl("vm", "delete", "VM-32")


def test_port_groups_keep_apart(shared_fleet: Fleet) -> None:
    """Ports of one switch on different VLANs cannot reach each other; `path list` says why."""
    one = shared_fleet[1]
    one.ctl("dvs", "portgroup", "add", SWITCH, "Other", "--vlan", "7")
    one.ctl("vm", "create", "VM-33", "--hw", "14", "--memory", "512", "--reserve", "all", "--portgroup", "Other")
    try:
        with pytest.raises(AssertionError, match=r"ended with status"):
            with shared_fleet.checker("VM-33", "VM-02", "--timeout", "14") as checker:
                checker.advance(1)
    finally:
        until("VM-33 is off", lambda: one.ctl("vm", "get", "VM-33")["power"] == "off")
        one.ctl("vm", "delete", "VM-33")
        one.ctl("dvs", "portgroup", "remove", SWITCH, "Other")


@pytest.mark.parametrize("missing", ["vmknic", "ruleset", "allowed"])
def test_cross_host_traffic_needs_vmknic_and_ruleset_on_both_hosts(shared_fleet: Fleet, missing: str) -> None:
    """The setting is removed while traffic runs: the host neither listens nor connects, and the path says why.
    When it is restored, traffic continues."""
    one, two = shared_fleet[1], shared_fleet[2]
    ruleset = ("network", "firewall", "ruleset")
    take, give, why = {
        "vmknic": ((("system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic", "-s", ""),),
                   (("system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic", "-s", "vmk2"),), "vmknic"),
        "ruleset": (((*ruleset, "set", "-e", "false", "-r", "pvrdma"),),
                    ((*ruleset, "set", "-e", "true", "-r", "pvrdma"),), "ruleset"),
        "allowed": (((*ruleset, "set", "-a", "false", "-r", "pvrdma"),
                     (*ruleset, "allowedip", "add", "-r", "pvrdma", "-i", "192.0.2.0/24")),
                    ((*ruleset, "allowedip", "remove", "-r", "pvrdma", "-i", "192.0.2.0/24"),
                     (*ruleset, "set", "-a", "true", "-r", "pvrdma")), "10.77.0."),
    }[missing]
    with shared_fleet.checker("VM-01", "VM-02", "--timeout", "20") as checker:
        checker.advance()
        for command in take:
            two.ctl_text(*command)
        try:
            until("no path", lambda: {path["path"] for path in one.ctl("path", "list")} == {"none"})
            reasons = {path["reason"] for path in one.ctl("path", "list")}
            assert len(reasons) == 1 and why in reasons.pop() and checker.stands_still()
            if missing != "allowed":
                assert not two.ctl("cluster", "get")["tcp"]["listening"]
        finally:
            for command in give:
                two.ctl_text(*command)
        checker.advance()
        assert {path["path"] for path in one.ctl("path", "list")} == {"tcp"}


def test_a_disabled_firewall_replaces_the_ruleset(shared_fleet: Fleet) -> None:
    """The guide's step "or disable the firewall", while traffic runs: the host listens although its ruleset is disabled."""
    one, two = shared_fleet[1], shared_fleet[2]

    def firewall(*words: str) -> None:
        two.ctl_text("network", "firewall", *words)

    with shared_fleet.checker("VM-01", "VM-02", "--timeout", "20") as checker:
        checker.advance()
        try:
            firewall("ruleset", "set", "-e", "false", "-r", "pvrdma")
            until("no path", lambda: {path["path"] for path in one.ctl("path", "list")} == {"none"})
            firewall("set", "-e", "false")
            checker.advance()
            assert two.ctl("cluster", "get")["tcp"]["listening"]
            firewall("set", "-e", "true")
            until("the ruleset counts again", lambda: {path["path"] for path in one.ctl("path", "list")} == {"none"})
        finally:
            firewall("set", "-e", "true")
            firewall("ruleset", "set", "-e", "true", "-r", "pvrdma")
        checker.advance()
