"""Each view shows what `pvrdmactl --json` tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from web.bridge import Bridge
from web.browser import Browser

# An RDMA NIC as a host reports it: no test machine has one.
DEVICE = {"name": "vmrdma0", "device": "mlx5_0", "driver": "nmlx5_rdma", "active": True, "mtu": 1024, "speed_mbps": 100000,
          "paired_uplink": "vmnic0", "description": "MT28800 Family [ConnectX-5 Ex]", "roce_v1": True, "roce_v2": True, "iwarp": False,
          "vmknic": "vmk2"}


def with_device(path: str, answer: Any) -> Any:
    """Shows DEVICE in esx-01."""
    if path == "/v1/hosts":
        answer[0]["rdma_devices"] = [dict(DEVICE)]  # states.py changes it
    return {"device": "vmrdma0", "stats": {"rx_bytes": 7}} if "/rdma/" in path else answer


def test_hosts(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts")
    told = guided[1].ctl("host", "list")
    assert [(row["Name"], row["State"][2:], row["Version"], row["PVRDMA VMkernel adapter"], row["Firewall pvrdma"]) for row in browser.grid("Hosts")] == \
        [(host["name"], "alive", host["version"], host["pvrdma_vmknic"], "enabled") for host in told]
    browser.go("#/hosts/esx-02/summary")
    assert browser.facts()["VMs"] == "VM-02" and browser.facts()["Lanes from here"] == "4"


def test_physical_adapters(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    bridge.overlay = with_device
    browser.open(bridge.page, "#/hosts/esx-01/configure/physical-adapters")
    told = guided[1].ctl("network", "nic", "list")
    rows = browser.grid("Physical adapters")
    assert list(rows[0]) == ["Device", "Actual Speed", "Switch", "MAC Address", "Driver", "PCI Location", "MTU", "RDMA"]
    assert [(row["Device"], row["Switch"], row["MAC Address"], row["MTU"]) for row in rows] == \
        [(nic["name"], SWITCH, nic["mac"], str(nic["mtu"])) for nic in told]
    assert [row["RDMA"] for row in rows] == ["vmrdma0", "--"]
    facts = browser.facts()
    assert (facts["Status"], facts["Device"], facts["Protocol"], facts["Used as"]) == ("Enabled", "vmrdma0", "RoCE v1, RoCE v2", f"uplink1 of {SWITCH}")


def test_rdma_adapters(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-01/configure/rdma-adapters")
    assert browser.grid("RDMA adapters") == []
    assert "Connections between hosts use TCP; none is needed." in browser.text("main")
    bridge.overlay = with_device
    rows = browser.wait("the device", lambda: browser.grid("RDMA adapters"))
    assert list(rows[0].items()) == [
        ("Name", "vmrdma0"), ("Driver", "nmlx5_rdma"), ("State", "Active"), ("Paired Uplink", "vmnic0"), ("RoCE v1 enabled", "Yes"),
        ("RoCE v2 enabled", "Yes"), ("iWARP enabled", "No")]
    browser.wait("the counters", lambda: "rx_bytes" in browser.facts())
    facts = browser.facts()
    assert (facts["Description"], facts["MTU"], facts["Speed"]) == (DEVICE["description"], "1024", "100 Gbit/s")
    assert (facts["VMkernel Adapter"], facts["TCP/IP Stack"], facts["IP Address"]) == ("vmk2", "defaultTcpipStack", "10.77.0.1")


def test_vmkernel_adapters_settings_and_firewall(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-02/configure/vmkernel-adapters")
    assert browser.grid("VMkernel adapters") == [{"Device": "vmk2", "IP Address": guided[2].address, "PVRDMA": "Yes"}]
    browser.go("#/hosts/esx-02/configure/advanced")
    [row] = browser.grid("Advanced System Settings")
    [told] = guided[1].ctl("system", "settings", "advanced", "list", "-H", "esx-02", "-o", "/Net/PVRDMAVmknic")
    assert (row["Name"], row["Value"], row["Description"]) == ("Net.PVRDMAVmknic", told["value"], told["description"])
    browser.go("#/hosts/esx-02/configure/firewall")
    browser.wait("the rules", lambda: browser.grid("Firewall")[0]["Protocol"] == "TCP")
    assert browser.grid("Firewall") == [{"Name": "pvrdma", "Incoming Ports": "28250", "Outgoing Ports": "28250", "Protocol": "TCP", "State": "Enabled"}]


def test_switches(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/networking")
    [told] = guided[1].ctl("dvs", "list")
    assert browser.grid("Distributed Switches") == [
        {"Name": SWITCH, "Version": told["version"], "Uplinks": "2", "Port Groups": "1", "Hosts": "2", "VMs": "2"}]
    browser.go(f"#/networking/{SWITCH}/configure/port-groups")
    assert browser.grid("Port Groups") == [{"Name": PORTGROUP, "VLAN ID": "None", "MTU": "1500", "Native endpoints": "not allowed", "VMs": "VM-01, VM-02"}]
    browser.go(f"#/networking/{SWITCH}/configure/uplinks")
    assert [(row["Host"], row["Uplink"], row["Physical adapter"], row["Link"]) for row in browser.grid("Uplinks")] == \
        [(member["host"], slot, nic, "Up") for member in told["members"] for slot, nic in sorted(member["uplinks"].items())]
    browser.go(f"#/networking/{SWITCH}/configure/hosts")
    assert [row["Host"] for row in browser.grid("Hosts")] == ["esx-01", "esx-02"]
    browser.go("#/hosts/esx-01/configure/virtual-switches")
    assert [(row["Switch"], row["Physical adapter"]) for row in browser.grid("Virtual switches")] == [(SWITCH, "vmnic0"), (SWITCH, "vmnic1")]


def test_vms(browser: Browser, guided: Fleet, bridge: Bridge, downloads: Path) -> None:
    browser.open(bridge.page, "#/vms")
    told = {vm["name"]: vm for vm in guided[1].ctl("vm", "list")}
    rows = {row["Name"]: row for row in browser.grid("VMs")}
    assert set(rows) == set(told)
    for name, row in rows.items():
        assert (row["State"][2:], row["Host"], row["Compatibility"], row["Memory"], row["Network"], row["Device Protocol"]) == \
            ("Powered Off", told[name]["host"], "VM version 14", "512 MiB", PORTGROUP, "RoCE v2")
    assert (rows["VM-01"]["Adapter"], rows["VM-02"]["Adapter"]) == ("off", "--")  # esx-01 does not know esx-02's adapters
    browser.go("#/vms/VM-01/summary")
    assert browser.facts()["MAC Address"] == told["VM-01"]["adapter"]["mac"]
    browser.go("#/vms/VM-01/power-on")
    arguments = guided[1].ctl("vm", "qemu-args", "VM-01")["arguments"]
    browser.wait("the arguments", lambda: browser.text("main pre").splitlines() == arguments)
    browser.click("Download", "main")
    assert browser.wait("the file", lambda: next(iter(downloads.glob("VM-01.xml")), None)).read_text(encoding="utf-8").strip() == guided[1].ctl_text("vm", "libvirt-xml", "VM-01").strip()


# The daemon's reasons why a VM cannot be powered on, and the title of the dialog in which each is mended.
_MENDS = {"VM VM-01 has 512 MiB of memory and 0 reserved, and PVRDMA needs all of it reserved: pvrdmactl vm set VM-01 --reserve 512": ("Edit Settings", "Edit Settings: VM-01"),
          f"host esx-01 of VM VM-01 is not a member of the distributed switch {SWITCH}: add it with pvrdmactl dvs add-host or place the VM on a member": ("Add Host", "Add and Manage Hosts"),
          f"vmnic0 of host esx-01 is paired with the RDMA device vmrdma0 and must be the host's only uplink of the distributed switch {SWITCH} (no teaming): free the "
          "other uplinks first, or put the second NIC on another switch": ("Manage host", "Add and Manage Hosts"),
          "VM VM-01 has hardware version 12 and PVRDMA adapters need 13 or later: upgrade it with pvrdmactl vm upgrade": ("Upgrade VM Compatibility", "Upgrade VM Compatibility: VM-01")}


def test_what_keeps_a_vm_from_work_has_the_button_that_mends_it(browser: Browser, bridge: Bridge) -> None:
    told: dict[str, str] = {}

    def troubled(path: str, answer: Any) -> Any:
        if path == "/v1/vms":
            answer[0] |= told
        if path == "/v1/adapters":
            answer[0] |= {"guest_os": "Linux 6.1, 64 bit", "driver_version": 20, "gids": [{"index": 0, "gid": "fe80::7", "roce": "v2", "lost_to": "esx-02"}]}
        return answer
    bridge.overlay = troubled
    browser.open(bridge.page, "#/vms/VM-01")
    browser.wait("the GID", lambda: "0: fe80::7 (RoCE v2) lost to esx-02" in browser.text("main ul.plain"))
    facts = browser.facts()
    assert (facts["Guest"], facts["Driver version"]) == ("Linux 6.1, 64 bit", "20")
    reasons = list(_MENDS)
    for refusal, not_served in zip(reasons[::2], reasons[1::2]):
        told |= {"power_on_refusal": refusal, "not_served": not_served}
        for box, reason in ((".alert-warning", refusal), (".alert-danger", not_served)):
            browser.wait("the reason", lambda box=box, reason=reason: browser.text(f"main {box} .alert-text") == reason)
            browser.click(_MENDS[reason][0], f"main {box}")
            assert browser.text("dialog h1").startswith(_MENDS[reason][1])
            browser.click("Cancel", "dialog")
    told["not_served"] = "the socket /run/pvrdma/VM-01.sock is in use by another process"
    browser.wait("the reason", lambda: browser.text("main .alert-danger .alert-text") == told["not_served"])
    assert browser.run("return document.querySelector('main .alert-danger button')") is None, "no dialog mends that"
    told["power_on_refusal"] = reasons[-1]
    browser.go("#/home")
    browser.click("Upgrade VM Compatibility", "main")
    assert browser.text("dialog h1") == "Upgrade VM Compatibility: VM-01"


def test_a_vm_at_work(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/vms")
        browser.wait("both are on, and VM-01 has traffic", lambda: [
            (row["State"][2:], row["Throughput"] not in ("--", "0.0 Mbit/s")) for row in browser.grid("VMs")] == [("Powered On", True), ("Powered On", False)])
        browser.go("#/vms/VM-01/summary")
        told = guided[1].ctl("adapter", "get", "VM-01")
        assert browser.facts()["Adapter"] == told["state"] == "active"
        assert told["gids"] and all(gid["gid"] in browser.text("main") for gid in told["gids"])
        assert not browser.button("Edit Settings").is_enabled() and "VM-01 is powered on." in browser.text("main")
        browser.go("#/hosts/esx-01/configure/firewall")
        browser.click("Edit")
        browser.tick("allow_all", False)
        many = len([path for path in guided[1].ctl("path", "list") if path["peer_host"] == "esx-02"])
        lost = f"esx-01 then loses its {many} connections with esx-02 ({guided[2].address}): no allowed address is theirs."
        browser.wait("the warning", lambda: browser.text("dialog .alert-warning") == lost)
        browser.tick("enabled", False)
        assert browser.text("dialog .alert-warning") == f"esx-01 then neither listens nor connects: it loses its {many} connections with 1 other host."
        browser.click("Cancel", "dialog")
        browser.go("#/vms/VM-01/summary")
    browser.wait("VM-01 is off", lambda: browser.facts()["State"] == "Powered Off")


def test_the_search_finds_addresses(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page)
    mac = guided[1].ctl("vm", "get", "VM-02")["adapter"]["mac"]
    browser.driver.find_element("id", "search").send_keys(mac, "\n")
    browser.wait("the VM's page", lambda: browser.text("main h1").endswith("VM-02"))
    browser.run("const field = document.getElementById('search'); field.value = 'vm'; field.dispatchEvent(new Event('input'))")
    browser.wait("what has such a name comes before hosts, whose NICs are called vmnic0", lambda: browser.text(".results").split("\n")[:3] == ["VM-01", "VM-02", "esx-01"])


@pytest.mark.parametrize("address", ["#/nowhere", "#/hosts/esx-99", "#/vms/%E0%A4%A", "#/networking/none", "#/hosts/esx-01/configure/none"])
def test_an_address_that_leads_nowhere_says_so(browser: Browser, bridge: Bridge, address: str) -> None:
    browser.open(bridge.page, address)
    assert " has no " in browser.text("main .alert-warning")
