"""Dialogs: edits of the guided fleet, and nothing typed is lost."""

from __future__ import annotations

import json

import pytest
from selenium.webdriver.common.keys import Keys

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from web.bridge import Bridge
from web.browser import Browser


def test_a_refused_edit_leaves_nothing_behind(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """The switch could be made, but its port group is refused. The correction makes both."""
    browser.open(bridge.page, "#/networking")
    browser.click("New Distributed Switch")
    browser.type("name", "Second")
    browser.next()
    browser.choose("version", "6.0.0")
    assert browser.text("dialog .alert-warning") == "PVRDMA needs 6.5.0 or later: no VM gets a PVRDMA adapter on this switch."
    browser.choose("version", "6.5.0")
    assert browser.text("dialog .alert-warning") == ""
    browser.next()
    browser.type("group", "a b")
    browser.click("Next", "dialog")
    browser.wait("the refusal", lambda: browser.refusal)
    assert browser.refusal.startswith("a b: a name is ") and browser.step == "Configure settings"
    assert browser.run("return document.querySelector('dialog .field-refusal').id") == "refused-group"
    browser.messages()  # the refused request
    assert [dvs["name"] for dvs in guided[1].ctl("dvs", "list")] == [SWITCH]
    browser.type("group", "ab")
    try:
        browser.finish()
        (made,) = (dvs for dvs in guided[1].ctl("dvs", "list") if dvs["name"] == "Second")
        assert [group["name"] for group in made["portgroups"]] == ["ab"] and made["version"] == "6.5.0"
    finally:
        if "Second" in [dvs["name"] for dvs in guided[1].ctl("dvs", "list")]:
            guided[1].ctl_text("dvs", "delete", "Second")


def test_the_last_step_shows_what_changes_and_back_leads_to_the_fields(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, f"#/networking/{SWITCH}/configure/port-groups")
    before = guided[1].ctl("dvs", "list")
    browser.click("New Distributed Port Group")
    browser.type("name", "Shown")
    browser.next()
    browser.type("mtu", "9000")
    browser.next()
    assert browser.run("return document.activeElement.innerText") == "Ready to complete"
    assert f"Changes the distributed switch {SWITCH}" in browser.text("dialog .modal-body")
    rows = browser.run("return [...document.querySelectorAll('dialog table.changes tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
    assert ["Port Groups › Shown › MTU", "--", "9000"] in rows
    assert guided[1].ctl("dvs", "list") == before, "a dry run changes nothing"
    browser.click("Back", "dialog")
    assert browser.step == "Configure settings"
    browser.type("mtu", "1500")
    browser.next()
    rows = browser.run("return [...document.querySelectorAll('dialog table.changes tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
    assert ["Port Groups › Shown › MTU", "--", "1500"] in rows
    browser.click("Cancel", "dialog")
    assert guided[1].ctl("dvs", "list") == before


def test_manage_and_remove_hosts(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    one = guided[1]
    members = one.ctl("dvs", "get", SWITCH)["members"]
    browser.open(bridge.page, f"#/networking/{SWITCH}/configure/hosts")
    browser.click("Add and Manage Hosts")
    browser.run("document.getElementById('field-task-remove').click()")
    browser.next()
    browser.tick("esx-02:chosen", True)
    browser.next()
    assert browser.step == "Ready to complete", "a host that leaves needs no adapters"
    assert browser.text("dialog .commands code") == f"pvrdmactl dvs remove-host {SWITCH} esx-02"
    browser.click("Back", "dialog")
    browser.click("Back", "dialog")
    browser.run("document.getElementById('field-task-manage').click()")
    browser.next()
    browser.tick("esx-02:chosen", True)
    browser.next()
    slot = next(name for name, nic in members[1]["uplinks"].items() if nic)
    browser.choose(f"esx-02:{slot}", "none")
    browser.next(2)
    rows = browser.run("return [...document.querySelectorAll('dialog table.changes tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
    assert rows == [[f"Hosts › esx-02 › {slot}", members[1]["uplinks"][slot], "--"]]
    browser.click("Cancel", "dialog")
    assert one.ctl("dvs", "get", SWITCH)["members"] == members


def test_edit_settings(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    one = guided[1]
    one.ctl("vm", "create", "VM-41", "--hw", "13", "--memory", "512")
    try:
        browser.open(bridge.page, "#/vms/VM-41")
        browser.click("Edit Settings")
        assert "Add new network" not in browser.text("dialog")
        browser.choose("network", f"{PORTGROUP} ({SWITCH})")
        browser.tick("reserve", False)
        browser.choose("protocol", "RoCE v1")
        browser.ok()
        told = one.ctl("vm", "get", "VM-41")
        assert (told["adapter"]["portgroup"], told["adapter"]["protocol"], told["memory_reserved_mib"]) == (PORTGROUP, "v1", 0)
        browser.wait("the reason why it cannot be powered on", lambda: told["power_on_refusal"] in browser.text("main .alert-warning"))
        browser.click("Edit Settings", ".alert-warning")
        assert not browser.button("Add new network", "dialog").is_enabled() and "A VM can have one PVRDMA adapter." in browser.text("dialog .action")
        browser.tick("reserve", True)
        browser.ok()
        assert one.ctl("vm", "get", "VM-41")["memory_reserved_mib"] == 512
        browser.click("Upgrade VM Compatibility")
        browser.choose("hardware_version", "VM version 14")
        browser.ok()
        told = one.ctl("vm", "get", "VM-41")
        assert (told["hardware_version"], told["adapter"]["protocol"]) == (14, "v1")
        browser.click("Edit Settings")
        browser.choose("network", "no PVRDMA adapter")
        browser.ok()
        assert one.ctl("vm", "get", "VM-41")["adapter"] is None
        browser.click("Remove")
        browser.ok("Remove")
        assert "VM-41" not in {vm["name"] for vm in one.ctl("vm", "list")}
    finally:
        if "VM-41" in {vm["name"] for vm in one.ctl("vm", "list")}:
            one.ctl_text("vm", "delete", "VM-41")


def test_port_groups_and_firewall(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    one = guided[1]
    browser.open(bridge.page, f"#/networking/{SWITCH}/configure/port-groups")
    browser.click("New Distributed Port Group")
    browser.type("name", "Native")
    browser.next()
    browser.choose("vlan_type", "VLAN")
    browser.type("vlan", "7")
    assert "roce-rules" not in browser.text("dialog")
    browser.tick("native_endpoints", True)
    browser.type("native_peers", "10.0.0.0/24")
    assert "Port groups of one VLAN share this; with the profile esxi a VM needs hardware version 18." in browser.text("dialog fieldset")
    line = browser.text("dialog fieldset .commands code")
    assert browser.button("Copy", "dialog fieldset").is_enabled()
    browser.finish()
    try:
        [group] = [each for each in one.ctl("dvs", "get", SWITCH)["portgroups"] if each["name"] == "Native"]
        assert (group["vlan"], group["mtu"], group["native_endpoints"], group["native_peers"]) == (7, 1500, True, ["10.0.0.0/24"])
        one.ctl_text("vm", "set", "VM-01", "--portgroup", "Native")
        assert line.startswith(f"pvrdmactl dvs roce-rules {SWITCH} HOST ") and "tap1" in one.ctl_text(*line.replace("HOST", "esx-01").split()[1:])
    finally:
        one.ctl_text("vm", "set", "VM-01", "--portgroup", PORTGROUP)
        one.ctl_text("dvs", "portgroup", "remove", SWITCH, "Native")
    browser.go("#/hosts/esx-02/configure/firewall")
    browser.click("Edit")
    browser.tick("allow_all", False)
    networks = ["10.77.0.0/24", *(f"192.0.2.{number}" for number in range(64))]  # more than a batch has edits
    lost = f"esx-02 then loses its 0 connections with esx-01 ({one.address}): no allowed address is theirs."
    browser.wait("what esx-02 loses", lambda: lost in browser.text("dialog .alert-warning"))
    browser.type("allowed", Keys.ENTER.join(networks))
    assert browser.text("dialog .alert-warning") == ""
    browser.ok()
    ruleset = one.ctl("host", "get", "esx-02")["ruleset"]
    assert (ruleset["allow_all"], ruleset["allowed"]) == (False, networks)
    browser.click("Edit")
    browser.type("allowed", networks[0])
    browser.ok()
    browser.click("Edit")
    browser.tick("allow_all", True)
    browser.ok()
    assert one.ctl("host", "get", "esx-02")["ruleset"]["allow_all"]
    assert one.ctl("host", "get", "esx-02")["ruleset"]["allowed"] == networks[:1]
    one.ctl_text("network", "firewall", "ruleset", "allowedip", "remove", "-H", "esx-02", "-r", "pvrdma", "-i", networks[0])


def test_what_is_typed_survives_ticks_and_a_daemon_that_is_away(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    browser.click("New Virtual Machine")
    browser.type("name", "half-ty")
    browser.choose("host", "esx-02")
    asked = len(bridge.asked)
    browser.wait("two more ticks", lambda: len(bridge.asked) > asked + 8)
    bridge.trouble = lambda _: "cut"
    browser.wait("the daemon is away", lambda: "no updates since" in browser.text("#live"))
    assert not browser.button("Next", "dialog").is_enabled() and "The daemon does not answer." in browser.text("dialog")
    browser.field("name").send_keys("ped")
    bridge.behave()
    browser.wait("the daemon is back", lambda: browser.button("Next", "dialog").is_enabled())
    assert browser.run("return [document.getElementById('field-name').value, document.getElementById('field-host').selectedOptions[0].text]") == ["half-typed", "esx-02"]
    assert browser.run("return document.activeElement.id") == "field-name"
    assert all("ERR_" in message for message in browser.messages())  # of answers that were cut


def test_the_focus_returns_to_the_opener(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    browser.click("New Virtual Machine")
    assert browser.run("return document.querySelector('dialog').contains(document.activeElement)")
    browser.field("name").send_keys(Keys.ESCAPE)
    browser.wait("the dialog ends", lambda: not browser.run("return document.querySelector('dialog') !== null"))
    assert browser.run("return document.activeElement.textContent.trim()") == "New Virtual Machine"


def test_the_dialogs_lines_are_commands_that_do_the_same(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    browser.click("New Virtual Machine")
    browser.type("name", "VM-42")
    browser.next(3)
    [line] = browser.text("dialog .commands code").splitlines()
    words = line.split()
    assert words[0] == "pvrdmactl"
    try:
        made = json.loads(guided[1].ctl_text("--json", *words[1:]))
        assert (made["adapter"]["portgroup"], made["memory_reserved_mib"], made["host"]) == (PORTGROUP, 512, "esx-01")
    finally:
        guided[1].ctl_text("vm", "delete", "VM-42")


# What people paste into a name's field.
TYPED = {"markup": "<img src=x onerror=alert(1)>", "an end of a quote": "\"'><svg onload=alert(1)>", "control characters": "a\u0001b\u202ec\u001b[31m", "200 characters": "n" * 200}
NAMED = {"New Distributed Switch": "#/networking", "New Distributed Port Group": f"#/networking/{SWITCH}", "New Virtual Machine": "#/vms"}
_WIDE = """return [...document.querySelectorAll('dialog, dialog .alert, dialog .modal-body, dialog .commands')].filter((each) => each.scrollWidth > each.clientWidth)
  .map((each) => `${each.className} ${each.scrollWidth} > ${each.clientWidth}`)"""


@pytest.mark.parametrize("button", [pytest.param(each, marks=() if each == "New Virtual Machine" else pytest.mark.full) for each in NAMED])
def test_a_name_that_is_no_name_is_refused_at_its_field(browser: Browser, bridge: Bridge, button: str) -> None:
    """It stays as it was typed, is shown as text, and does not widen the dialog."""
    browser.open(bridge.page, NAMED[button])
    browser.click(button)
    for what, name in TYPED.items():
        if what == "control characters":  # a keyboard has none, but the clipboard has
            browser.run("const field = document.getElementById('field-name'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))", name)
        else:
            browser.type("name", name)
        browser.click("Next", "dialog")
        browser.wait(f"the refusal of {what}", lambda: "1 to 64 letters" in browser.refusal)
        assert browser.step == browser.text("dialog .wizard-steps li"), f"{what}: the first step"
        assert browser.run("return [document.getElementById('refused-name').innerText, document.getElementById('field-name').value]") == [browser.refusal, name], what
        assert browser.run("return document.querySelectorAll('dialog img, dialog .modal-body svg').length") == 0, what
        assert browser.run(_WIDE) == [], what
        browser.type("name", "Name")
        browser.next()
        browser.click("Back", "dialog")
    browser.click("Cancel", "dialog")
    assert [message for message in browser.messages() if "status of 400" not in message] == []


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.full), 360])
def test_a_long_name_does_not_widen_the_page(browser: Browser, guided: Fleet, bridge: Bridge, width: int) -> None:
    """In search, topology, recent tasks and the dialog: a name of 64 wide letters without a place to break."""
    name = "W" * 64
    guided.define_vm(name, 1)
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    try:
        browser.open(bridge.page, f"#/vms/{name}")
        browser.click("Edit Settings")
        browser.type("memory_mib", "640")
        assert browser.run(_WIDE) == []
        browser.ok()
        browser.wait("the task", lambda: name in browser.text("footer.tasks") and "done" in browser.text("footer.tasks"))
        for view in (f"#/vms/{name}", "#/vms", "#/topology", "#/home", "#/events"):
            browser.visit(view)
            assert browser.run("return document.documentElement.scrollWidth") <= width, view
        browser.visit("#/topology")
        assert name in browser.run("return document.querySelector('main svg').textContent")
        browser.run("const field = document.getElementById('search'); field.value = 'wwww'; field.dispatchEvent(new Event('input'))")
        browser.wait("it is found", lambda: name in browser.text(".results"))
        assert browser.run("return document.documentElement.scrollWidth") <= width, "search"
        assert browser.run("const place = document.querySelector('.results').getBoundingClientRect(); return [place.left >= 0, place.right <= innerWidth]") == [True, True]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        guided[1].ctl_text("vm", "delete", name)
