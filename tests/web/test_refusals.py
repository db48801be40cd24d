"""Every refusal that an edit of the page can meet: the daemon's sentence, which pvrdmactl gets too, at the field that it is about.
Nothing that was typed is lost.

What a form cannot send is not here: choices that a list does not offer, and more memory reserved than there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.host import Host
from fleet.until import until
from harness import process
from harness.daemon import binary
from web.bridge import Bridge
from web.browser import Browser
from web.monitor import FakeMonitor

Step = Callable[[Browser], object]
_TYPED = "return [...document.querySelectorAll('dialog input, dialog select, dialog textarea')].map((each) => each.type === 'checkbox' ? each.checked : each.value)"


def typed(name: str, text: str) -> Step:
    """Types into a field."""
    return lambda browser: browser.type(name, text)


def chosen(name: str, title: str) -> Step:
    """Chooses from a list."""
    return lambda browser: browser.choose(name, title)


def ticked(name: str, on: bool = True) -> Step:
    """Sets a box."""
    return lambda browser: browser.tick(name, on)


def forward(browser: Browser) -> None:
    """The wizard's next step."""
    browser.next()


def back(browser: Browser) -> None:
    """The wizard's step before."""
    browser.click("Back", "dialog")


class Refused(NamedTuple):
    """What the form gets, and the command that pvrdmactl refuses with the same sentence; in place of a command whose words pvrdmactl
    checks itself, a part of the sentence. `field`: where the sentence stands; empty: it is not about one field."""

    fill: tuple[Step, ...]
    command: tuple[str, ...] | str
    field: str = ""


class Form(NamedTuple):
    """A dialog and its refusals in the order in which they are met, so that one visit shows all. `setup`: commands before, `cleanup`:
    commands after them."""

    address: str
    button: str
    refused: dict[str, Refused]
    setup: tuple[tuple[str, ...], ...] = ()
    cleanup: tuple[tuple[str, ...], ...] = ()
    overlay: Callable[[str, Any], Any] = lambda _, answer: answer


_VMKS = "#/hosts/esx-01/configure/vmkernel-adapters"
_ADD_VMK = ("network", "ip", "interface", "add")
_GROUP = ("dvs", "portgroup", "add", SWITCH)
_VM = ("vm", "create", "X", "--hw", "14", "--memory", "512", "--reserve", "all", "--portgroup", PORTGROUP)
_OTHER = ("dvs", "create", "Other"), ("dvs", "add-host", "Other", "esx-01")
_VM_46 = ("vm", "create", "VM-46", "--hw", "13", "--memory", "512", "--reserve", "all", "--portgroup", PORTGROUP, "--mac", "52:54:00:00:46:01", "--addresses", "10.46.0.1")

_V13 = ("vm", "create", "X", "--hw", "13", *_VM[5:])
_FOLDED: Step = lambda browser: browser.run("document.querySelector('dialog details').open = true")  # noqa: E731  (it is a Step)
_VMNIC0: Step = lambda browser: browser.field("esx-01:uplink1").find_element("xpath", ".//option[starts-with(., 'vmnic0 ')]").click()  # noqa: E731


def _lists(path: str, *objects: dict[str, Any]) -> Callable[[str, Any], Any]:
    """Shows objects that have gone meanwhile."""
    return lambda asked, answer: list(objects) if asked == path else answer


_ENDED = {"id": 99, "adapter": "VM-01", "filter": "", "snaplen": 96, "count": 0, "duration": 0, "started_s": 0, "sent_bytes": 0, "dropped": 0}
_REMOVED = {"id": 99, "adapter": "VM-01", "drop": 0.1, "duplicate": 0, "delay": 0, "reorder": 0, "corrupt": 0, "late_ms": 1, "seed": 1,
            "counts": {"messages": 0, "dropped": 0, "duplicated": 0, "delayed": 0, "reordered": 0, "corrupted": 0}}

FORMS: dict[str, Form] = {
    "new switch": Form("#/networking", "New Distributed Switch", {
        "name taken": Refused((typed("name", SWITCH),), ("dvs", "create", SWITCH), "name"),
        "no uplinks": Refused((typed("name", "X"), forward, forward, typed("uplinks", "0")), ("dvs", "create", "X", "--uplinks", "0"), "uplinks"),
        "too many uplinks": Refused((typed("uplinks", "33"),), ("dvs", "create", "X", "--uplinks", "33"), "uplinks"),
    }),
    "remove switch": Form(f"#/networking/{SWITCH}", "Remove", {"in use": Refused((), ("dvs", "delete", SWITCH))}),
    "remove switch with members": Form("#/networking/Other", "Remove", {"in use": Refused((), ("dvs", "delete", "Other"))}, _OTHER, (
        ("dvs", "remove-host", "Other", "esx-01"), ("dvs", "delete", "Other"))),
    "new port group": Form(f"#/networking/{SWITCH}/configure/port-groups", "New Distributed Port Group", {
        "name taken": Refused((typed("name", PORTGROUP),), (*_GROUP, PORTGROUP), "name"),
        "VLAN 4095": Refused((typed("name", "X"), forward, chosen("vlan_type", "VLAN"), typed("vlan", "4095")), (*_GROUP, "X", "--vlan", "4095"), "vlan"),
        "MTU 1279": Refused((typed("vlan", "7"), typed("mtu", "1279")), (*_GROUP, "X", "--vlan", "7", "--mtu", "1279"), "mtu"),
        "MTU 9001": Refused((typed("mtu", "9001"),), (*_GROUP, "X", "--vlan", "7", "--mtu", "9001"), "mtu"),
        "bad peers": Refused((typed("mtu", "1500"), ticked("native_endpoints"), typed("native_peers", "10.0.0.0/24 10.0.0.0/33")),
                             (*_GROUP, "X", "--vlan", "7", "--native-endpoints", "on", "--native-peers", "10.0.0.0/24,10.0.0.0/33"), "native_peers"),
        "other native endpoints": Refused((typed("native_peers", ""), chosen("vlan_type", "None")), (*_GROUP, "X", "--native-endpoints", "on"), "native_endpoints"),
    }),
    "edit port group": Form(f"#/networking/{SWITCH}/configure/port-groups", f"Edit Settings of {PORTGROUP}", {
        "MTU 9001": Refused((typed("mtu", "9001"),), ("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9001"), "mtu"),
        "bad peers": Refused((typed("mtu", "1500"), ticked("native_endpoints"), typed("native_peers", "peer")),
                             ("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--native-endpoints", "on", "--native-peers", "peer"), "native_peers"),
    }),
    "remove port group": Form(f"#/networking/{SWITCH}", f"Remove {PORTGROUP}", {"in use": Refused((), ("dvs", "portgroup", "remove", SWITCH, PORTGROUP))}),
    "manage hosts": Form("#/networking/Other/configure/hosts", "Manage esx-01", {
        "NIC of another switch": Refused((_VMNIC0,), ("dvs", "uplink", "set", "Other", "esx-01", "uplink1", "vmnic0"), "esx-01:uplink1"),
        "device taken": Refused((chosen("esx-01:uplink1", "none"), forward, typed("esx-01:device", "vmk2"), typed("esx-01:address", "10.77.0.9")),
                                (*_ADD_VMK, "-i", "vmk2", "--address", "10.77.0.9"), "esx-01:device"),
        "address taken": Refused((typed("esx-01:device", "vmk9"), typed("esx-01:address", "10.77.0.2")), (*_ADD_VMK, "-i", "vmk9", "--address", "10.77.0.2"), "esx-01:address"),
    }, _OTHER, (("dvs", "remove-host", "Other", "esx-01"), ("dvs", "delete", "Other"))),
    "add networking": Form(_VMKS, "Add networking", {
        "device taken": Refused((typed("name", "vmk2"), typed("address", "10.77.0.9")), (*_ADD_VMK, "-i", "vmk2", "--address", "10.77.0.9"), "name"),
        "no device": Refused((typed("name", "eth0"),), (*_ADD_VMK, "-i", "eth0", "--address", "10.77.0.9"), "name"),
        "markup as a device": Refused((typed("name", "<img src=x>"),), "is not a name for a VMkernel adapter", "name"),
        "address taken": Refused((typed("name", "vmk3"), typed("address", "10.77.0.2")), (*_ADD_VMK, "-i", "vmk3", "--address", "10.77.0.2"), "address"),
        "no address": Refused((typed("address", "10.77"),), (*_ADD_VMK, "-i", "vmk3", "--address", "10.77"), "address"),
        "multicast address": Refused((typed("address", "224.0.0.1"),), (*_ADD_VMK, "-i", "vmk3", "--address", "224.0.0.1"), "address"),
    }),
    "remove a VMkernel adapter": Form(_VMKS, "Remove vmk2", {"tagged": Refused((), ("network", "ip", "interface", "remove", "-i", "vmk2"))}),
    "firewall": Form("#/hosts/esx-01/configure/firewall", "Edit", {
        "bad network": Refused((ticked("allow_all", False), typed("allowed", "1.2.3.4/99")), ("network", "firewall", "ruleset", "allowedip", "add", "-r", "pvrdma", "-i", "1.2.3.4/99"),
                               "allowed"),
    }),
    "new VM": Form("#/vms", "New Virtual Machine", {
        "name taken": Refused((typed("name", "VM-01"),), ("vm", "create", "VM-01", *_VM[3:]), "name"),
        "hardware version 12": Refused((typed("name", "X"), forward, chosen("hardware_version", "VM version 12"), forward), ("vm", "create", "X", "--hw", "12", *_VM[5:])),
        "RoCE v2 on 13": Refused((back, chosen("hardware_version", "VM version 13"), forward, chosen("protocol", "RoCE v2")), (*_V13, "--protocol", "v2"), "protocol"),
        "MAC bad": Refused((chosen("protocol", "RoCE v1"), typed("mac", "52:54:00")), (*_V13, "--mac", "52:54:00"), "mac"),
        "MAC multicast": Refused((typed("mac", "53:54:00:00:46:02"),), (*_V13, "--mac", "53:54:00:00:46:02"), "mac"),
        "MAC taken": Refused((typed("mac", "52:54:00:00:46:01"),), (*_V13, "--mac", "52:54:00:00:46:01"), "mac"),
        "memory": Refused((typed("mac", ""), typed("memory_mib", "2")), ("vm", "create", "X", "--hw", "13", "--memory", "2", *_VM[7:]), "memory_mib"),
        "address bad": Refused((typed("memory_mib", "512"), _FOLDED, typed("addresses", "10.46.0.2, 10.46")), (*_V13, "--addresses", "10.46.0.2,10.46"), "addresses"),
        "address taken": Refused((typed("addresses", "10.46.0.1"),), (*_V13, "--addresses", "10.46.0.1"), "addresses"),
        "owner unknown": Refused((typed("addresses", ""), typed("owner", "<b>nobody</b>")), (*_V13, "--owner", "<b>nobody</b>"), "owner"),
        "group unknown": Refused((typed("owner", ""), typed("group", "no such group")), (*_V13, "--group", "no such group"), "group"),
    }, (_VM_46,), (("vm", "delete", "VM-46"),)),
    "edit VM": Form("#/vms/VM-46", "Edit Settings", {
        "memory": Refused((typed("memory_mib", "3"),), ("vm", "set", "VM-46", "--memory", "3", "--reserve", "3"), "memory_mib"),
        "RoCE v2 on 13": Refused((typed("memory_mib", "512"), chosen("protocol", "RoCE v2")), ("vm", "set", "VM-46", "--protocol", "v2"), "protocol"),
        "address bad": Refused((chosen("protocol", "RoCE v1"), _FOLDED, typed("addresses", "x")), ("vm", "set", "VM-46", "--addresses", "x"), "addresses"),
        "owner unknown": Refused((typed("addresses", "10.46.0.1"), typed("owner", "no such user")), ("vm", "set", "VM-46", "--owner", "no such user"), "owner"),
    }, (_VM_46,), (("vm", "delete", "VM-46"),)),
    "inject faults": Form("#/faults", "Inject Faults", {
        "more than always": Refused((typed("drop", "1.1"),), "a probability from 0.000001 to 1", "drop"),
        "no number": Refused((typed("drop", "0.1"), typed("late_ms", "soon")), "number from 1 to 1000", "late_ms"),
        "twice": Refused((typed("late_ms", ""),), ("fault", "add", "--adapter", "VM-01", "--drop", "0.1"), "adapter"),
    }, (("fault", "add", "--adapter", "VM-01", "--drop", "0.1"),), (("fault", "remove", "--all"),)),
    "measure": Form("#/hosts/esx-01/monitor/hca", "Measure", {
        "no device": Refused((), ("hca", "check")),
        "memory": Refused((typed("memory_mib", "0"),), ("hca", "check", "--memory", "0"), "memory_mib"),
    }),
    "cancel a motion that has ended": Form("#/motions", "Cancel motion", {"ended": Refused((), ("vm", "migrate", "VM-01", "--cancel"))},
                                           overlay=_lists("/v1/motions", {"id": "m2", "vm": "VM-01", "from": "esx-01", "to": "esx-02", "state": "runs", "phase": "memory", "error": "",
                                                                          "since": "2026-01-02T03:04:05Z", "ram_bytes": 4, "remaining_bytes": 2})),
    "end a capture that has ended": Form("#/captures", "End capture 99", {"ended": Refused((), ("adapter", "capture", "end", "99"))}, overlay=_lists("/v1/captures", _ENDED)),
    "remove a fault that was removed": Form("#/faults", "Remove fault 99", {"removed": Refused((), ("fault", "remove", "99"))}, overlay=_lists("/v1/faults", _REMOVED)),
}


def submit(browser: Browser) -> None:
    """Goes on, past what the browser itself checks."""
    browser.run("document.querySelector('dialog form').noValidate = true")
    browser.run("document.querySelector('dialog .modal-footer .btn:last-child').click()")
    browser.wait("the refusal", lambda: browser.run("return document.querySelector('dialog form .modal-body[inert]') === null") and browser.refusal)


def told_to(host: Host, *command: str) -> str:
    """The sentence with which pvrdmactl is refused."""
    return host.refusal(*command).removeprefix("pvrdmactl: ")


def told_of(sentence: str) -> str:
    """What a sentence says of a value. pvrdmactl calls it by its option, and the API by its member."""
    return re.sub(r"^(--[a-z-]+|the body's \"[a-z_.0-9]+\") ", "", sentence)


def check(browser: Browser, told: str, field: str = "") -> None:
    """The sentence is in the alert, which has the focus, and at the field."""
    refusal = browser.refusal
    assert told_of(refusal) == told_of(told)
    assert browser.run("return document.activeElement === document.querySelector('dialog .alert')")
    assert browser.run("return [...document.querySelectorAll('dialog .field-refusal')].map((each) => [each.id, each.innerText])") == ([[f"refused-{field}", refusal]] if field else [])
    if field:
        assert browser.run("return document.getElementById(document.getElementById(`field-${arguments[0]}`).getAttribute('aria-describedby')).innerText", field) == refusal


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_is_the_daemons_sentence_at_its_field(browser: Browser, guided: Fleet, bridge: Bridge, form: str) -> None:
    address, button, refused, setup, cleanup, bridge.overlay = FORMS[form]
    with ExitStack() as ends:
        for command in reversed(cleanup):
            ends.callback(guided[1].ctl_text, *command)
        for command in setup:
            guided[1].ctl_text(*command)
        ends.callback(browser.driver.get, "about:blank")  # the page would ask for what goes
        browser.open(bridge.page, address)
        browser.click(button)
        for what, (fill, command, field) in refused.items():
            print(what)
            for step in fill:
                step(browser)
            before = browser.run(_TYPED)
            submit(browser)
            check(browser, browser.refusal if isinstance(command, str) else told_to(guided[1], *command), field)
            assert browser.run(_TYPED) == before
            assert not isinstance(command, str) or command in browser.refusal
        if form in ("new switch", "firewall"):
            assert browser.violations() == []
        assert [message for message in browser.messages() if "status of 4" not in message] == []


def test_a_vmkernel_adapter_that_has_gone(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """It was there when the dialog began."""
    one, setting = guided[1], ("system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic", "-s", "vmk9")
    one.ctl_text(*_ADD_VMK, "-i", "vmk9", "--address", "10.77.0.9")
    browser.open(bridge.page, "#/hosts/esx-01/configure/advanced")
    browser.click("Edit")
    browser.choose("vmk", "vmk9 (10.77.0.9)")
    one.ctl_text("network", "ip", "interface", "remove", "-i", "vmk9")
    submit(browser)
    check(browser, told_to(one, *setting), "vmk")
    assert browser.field("vmk").find_element("css selector", "option:checked").text.startswith("vmk9")
    browser.messages()  # the refused request


def off(path: str, answer: Any) -> Any:
    """As the page still shows VMs while it has not learned that they are on or on their way."""
    if path == "/v1/vms":
        for vm in answer:
            vm |= {"power": "off", "motion": None}
    return answer


def test_a_vm_that_is_on_or_on_its_way_is_not_changed(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    one = guided[1]
    dialogs: list[tuple[str, tuple[Step, ...], tuple[str, ...]]] = [
        ("Edit Settings", (typed("memory_mib", "640"),), ("vm", "set", "VM-01", "--memory", "640")),
        ("Upgrade VM Compatibility", (), ("vm", "upgrade", "VM-01", "--hw", "15")),
        ("Remove", (), ("vm", "delete", "VM-01"))]
    with guided.checker("VM-01", "VM-02"), FakeMonitor(one, "VM-01"):
        until("VM-01 is on", lambda: one.ctl("vm", "get", "VM-01")["power"] == "on")
        bridge.overlay = off
        browser.open(bridge.page, "#/vms/VM-01")
        for state in ("powered on", "on its way"):
            for button, fill, command in dialogs:
                browser.click(button)
                for step in fill:
                    step(browser)
                submit(browser)
                assert state in browser.refusal
                check(browser, told_to(one, *command))
                browser.click("Cancel", "dialog")
            if state == "powered on":
                browser.go(f"#/networking/{SWITCH}/configure/hosts")
                browser.click("Add and Manage Hosts")
                browser.run("document.getElementById('field-task-remove').click()")
                browser.next()
                browser.tick("esx-01:chosen", True)
                submit(browser)
                check(browser, told_to(one, "dvs", "remove-host", SWITCH, "esx-01"), "esx-01:chosen")
                browser.click("Cancel", "dialog")
                status = browser.driver.execute_async_script(
                    "fetch('/v1/vms/VM-01/motion', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"to\": \"esx-02\"}'}).then(({ status }) => arguments[0](status))")
                assert status == 200
                until("VM-01 is on its way", lambda: one.ctl("vm", "get", "VM-01")["motion"] is not None)
                browser.go("#/vms/VM-01")
        one.ctl_text("vm", "migrate", "VM-01", "--cancel")
        until("the motion has ended", lambda: one.ctl("vm", "get", "VM-01")["motion"] is None)
    until("VM-01 is off", lambda: one.ctl("vm", "get", "VM-01")["power"] == "off")
    assert [message for message in browser.messages() if "status of 4" not in message] == []


def test_a_host_that_is_not_gone_for_good(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """A member of a switch, then the host of a VM, then alive again: one dialog shows all three."""
    one, two = guided[1], guided[2]
    [uplinks] = [member["uplinks"] for member in one.ctl("dvs", "get", SWITCH)["members"] if member["host"] == "esx-02"]
    browser.open(bridge.page, "#/hosts/esx-02")
    two.stop()
    try:
        browser.click("Remove")
        submit(browser)
        assert SWITCH in browser.refusal
        check(browser, told_to(one, "host", "delete", "esx-02"))
        one.ctl_text("dvs", "remove-host", SWITCH, "esx-02")
        submit(browser)
        assert "VM-02" in browser.refusal
        check(browser, told_to(one, "host", "delete", "esx-02"))
        two.start()
        until("esx-02 is alive", lambda: one.ctl("host", "get", "esx-02")["alive"])
        submit(browser)
        assert "is alive" in browser.refusal
        check(browser, told_to(one, "host", "delete", "esx-02"))
        browser.click("Cancel", "dialog")
    finally:
        if not two.running:
            two.start()
        if "esx-02" not in [member["host"] for member in one.ctl("dvs", "get", SWITCH)["members"]]:
            one.ctl_text("dvs", "add-host", SWITCH, "esx-02")
            for slot, nic in uplinks.items():
                if nic:
                    one.ctl_text("dvs", "uplink", "set", SWITCH, "esx-02", slot, nic)
    until("the hosts are connected", lambda: [peer["lanes_up"] for peer in one.ctl("cluster", "get")["tcp"]["peers"]] == [guided.lanes])
    browser.messages()  # refused requests, and what esx-02 did not answer


def test_a_capture_that_is_one_too_many(browser: Browser, guided: Fleet, bridge: Bridge, tmp_path: Path) -> None:
    one = guided[1]
    with guided.checker("VM-01", "VM-02"), ExitStack() as running:
        for number in range(4):
            command = [str(binary("pvrdmactl")), "--api", str(one.api), "capture", "VM-01", "-w", str(tmp_path / f"{number}.pcapng"), "-f", "error"]
            running.callback(process.stop, process.start(command, tmp_path / f"{number}.log"), 10)
        until("four run", lambda: len(one.ctl("adapter", "capture", "list")) == 4)
        browser.open(bridge.page, "#/captures")
        browser.click("Capture")
        browser.type("filter", "error")
        submit(browser)
        check(browser, told_to(one, "capture", "VM-01", "-w", "/dev/null", "-f", "error"))
        browser.type("snaplen", "0")
        submit(browser)
        check(browser, told_to(one, "capture", "VM-01", "-w", "/dev/null", "--snaplen", "0"), "snaplen")
        assert browser.field("filter").get_property("value") == "error"
        browser.click("Cancel", "dialog")
    until("none runs", lambda: one.ctl("adapter", "capture", "list") == [])
    assert [message for message in browser.messages() if "status of 4" not in message] == []
