"""The deployment guide by clicks, and by the keyboard alone. After each step pvrdmactl tells the same."""

from __future__ import annotations

from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until
from web.bridge import Bridge
from web.browser import Browser

SIX_DONE = "return [...document.querySelectorAll('.readiness tbody tr')].slice(0, 6).every((row) => [...row.cells].slice(1).every((cell) => cell.innerText.startsWith('✓')))"

LINE = ".readiness tbody tr:nth-child({})"


def host(fleet: Fleet, name: str) -> Any:
    """What pvrdmactl tells of a host."""
    return fleet[1].ctl("host", "get", name)


def undo(fleet: Fleet) -> None:
    """Removes all that a walk has made."""
    one = fleet[1]
    for vm in one.ctl("vm", "list"):
        one.ctl_text("vm", "delete", vm["name"])
    for name in fleet.hosts:
        one.ctl_text("system", "settings", "advanced", "set", "-H", name, "-o", "/Net/PVRDMAVmknic", "-s", "")
        for vmk in host(fleet, name)["vmks"]:
            one.ctl_text("network", "ip", "interface", "remove", "-H", name, "-i", vmk["name"])
        one.ctl_text("network", "firewall", "ruleset", "set", "-H", name, "-e", "false", "-r", "pvrdma")
    for dvs in one.ctl("dvs", "list"):
        for member in dvs["members"]:
            one.ctl_text("dvs", "remove-host", dvs["name"], member["host"])
        one.ctl_text("dvs", "delete", dvs["name"])


def test_by_clicks(browser: Browser, empty: Fleet, empty_bridge: Bridge) -> None:
    one = empty[1]
    try:
        browser.open(empty_bridge.page)
        browser.follow("Networking")
        browser.click("New Distributed Switch")
        browser.next(2)
        browser.type("group", PORTGROUP)
        browser.finish()
        assert [(dvs["name"], len(dvs["uplinks"]), [group["name"] for group in dvs["portgroups"]]) for dvs in one.ctl("dvs", "list")] == [(SWITCH, 2, [PORTGROUP])]

        browser.follow(SWITCH, "Hosts")
        browser.click("Add and Manage Hosts")
        browser.next()
        for name in empty.hosts:
            browser.tick(f"{name}:chosen", True)
        browser.next()
        for name in empty.hosts:
            nic = next(nic for nic in host(empty, name)["vmnics"] if nic["name"] == "vmnic0")
            browser.choose(f"{name}:uplink1", f"vmnic0 ({nic['netdev']}, {nic['description']})")
        browser.finish()
        assert {member["host"]: member["uplinks"] for member in one.ctl("dvs", "get", SWITCH)["members"]} == {name: {"uplink1": "vmnic0"} for name in empty.hosts}

        for name, shown in empty.hosts.items():
            browser.follow(name, "Configure", "VMkernel adapters")
            browser.click("Add networking")
            assert "An address that the host has already, so there is no mask and no DHCP to set." in browser.text("dialog")
            browser.type("address", shown.address)
            browser.tick("tagged", False)
            browser.ok()
            assert [(vmk["name"], vmk["address"], vmk["tagged"]) for vmk in host(empty, name)["vmks"]] == [("vmk2", shown.address, False)]
            browser.follow(name, "Configure", "Advanced System Settings")
            browser.click("Edit")
            browser.choose("vmk", f"vmk2 ({shown.address})")
            browser.ok()
            assert host(empty, name)["pvrdma_vmknic"] == "vmk2"
            browser.follow(name, "Configure", "Firewall")
            browser.click("Edit")
            browser.tick("enabled", True)
            browser.ok()
            assert host(empty, name)["ruleset"]["enabled"]

        browser.follow("VMs")
        for number, name in enumerate(empty.hosts, 1):
            browser.click("New Virtual Machine")
            browser.type("name", f"VM-0{number}")
            browser.choose("host", name)
            browser.finish()
            browser.follow("VMs")
        told = one.ctl("vm", "list")
        assert [(vm["name"], vm["host"], vm["memory_reserved_mib"], vm["adapter"]["portgroup"], vm["adapter"]["protocol"], vm["power_on_refusal"]) for vm in told] == \
            [(f"VM-0{number}", name, 512, PORTGROUP, "v2", "") for number, name in enumerate(empty.hosts, 1)]

        until("the hosts are connected", lambda: one.ctl("cluster", "get")["tcp"]["peers"], accept=lambda peers: [peer["lanes_up"] for peer in peers] == [empty.lanes])
        browser.follow("Home")
        browser.wait("the first six steps are done", lambda: browser.run(SIX_DONE))
        with empty.checker("VM-01", "VM-02") as checker:
            checker.advance(20)
            paths = one.ctl("path", "list")
            assert {path["path"] for path in paths} == {"tcp"}
            browser.wait("a driver is active", lambda: f"VM-01 active, {len(paths)} × TCP" in browser.text(f"{LINE.format(7)} td"))
        for line, button, title in ((8, "Measure", "Measure: HCA"), (9, "Edit", f"Edit Settings of {PORTGROUP}")):
            browser.click(button, f"{LINE.format(line)} td")
            assert browser.text("dialog h1") == title
            browser.click("Cancel", "dialog")
    finally:
        undo(empty)


def test_by_keys(browser: Browser, empty: Fleet, empty_bridge: Bridge) -> None:
    """No mouse: `g` and a letter, Tab, Space, Enter, arrows. Each dialog takes the focus and gives it back."""
    one = empty[1]
    keys = _Keys(browser)
    try:
        browser.open(empty_bridge.page, "#/about")
        keys.press("gn")
        keys.reach("New Distributed Switch", Keys.ENTER)
        keys.reach("field-name")
        keys.replace(SWITCH + Keys.ENTER)
        keys.next("Select version")
        keys.reach("field-group")
        keys.replace(PORTGROUP + Keys.ENTER)
        keys.finish()
        until("the switch", lambda: [dvs["name"] for dvs in one.ctl("dvs", "list")] == [SWITCH])
        browser.wait("the switch's page", lambda: browser.text("main h1") == SWITCH)

        for name, shown in empty.hosts.items():
            keys.press("gr")  # its lines have the buttons for the rest
            keys.reach("Add Host", Keys.ENTER)
            keys.reach(f"field-{name}:uplink1")
            keys.press(Keys.ARROW_DOWN)
            keys.next("Manage physical adapters")
            keys.reach(f"field-{name}:address")
            keys.press(shown.address + Keys.ENTER)
            keys.finish()
            until(f"{name} is a member", lambda name=name: {member["host"]: member["uplinks"] for member in one.ctl("dvs", "get", SWITCH)["members"]}.get(name) == {"uplink1": "vmnic0"})
            until("vmk2 is tagged", lambda name=name: host(empty, name)["pvrdma_vmknic"] == "vmk2")

            keys.reach("Edit", Keys.ENTER)
            keys.reach("field-enabled", Keys.SPACE)
            keys.reach("OK", Keys.ENTER)
            until("the rule is enabled", lambda name=name: host(empty, name)["ruleset"]["enabled"])
            keys.wait_for_no_dialog()

        for number, name in enumerate(empty.hosts, 1):
            keys.press("gv")
            keys.reach("New Virtual Machine", Keys.ENTER)
            keys.reach("field-name")
            keys.press(f"VM-0{number}")
            keys.reach("field-host")
            keys.press(name)
            keys.next("Select a name and host")
            keys.next("Select compatibility")
            keys.next("Customize hardware")
            keys.finish()
        until("the VMs", lambda: [(vm["name"], vm["host"], vm["power_on_refusal"]) for vm in one.ctl("vm", "list")] == [("VM-01", "esx-01", ""), ("VM-02", "esx-02", "")])
        keys.press("gr")
        browser.wait("the first six steps are done", lambda: browser.run(SIX_DONE))
    finally:
        undo(empty)


class _Keys:
    """A keyboard."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def press(self, keys: str) -> None:
        """Presses keys where the focus is."""
        ActionChains(self._browser.driver).send_keys(keys).perform()
        self._browser.settle()

    def replace(self, keys: str) -> None:
        """Replaces the text of the field that has the focus."""
        ActionChains(self._browser.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
        self.press(keys)

    def next(self, step: str) -> None:
        """Waits for a step of the wizard and leaves it."""
        self._browser.wait(step, lambda: self._browser.step == step)
        self.reach("Next", Keys.ENTER)

    def finish(self) -> None:
        """Waits for the wizard's last step, and ends the wizard there."""
        self._browser.wait("the last step", lambda: self._browser.step == "Ready to complete")
        self.reach("Finish", Keys.ENTER)
        self.wait_for_no_dialog()

    def wait_for_no_dialog(self) -> None:
        """Waits until what it has asked for is done."""
        self._browser.wait("the dialog has ended", lambda: not self._browser.run("return document.querySelector('dialog') !== null"))

    def reach(self, wanted: str, key: str = "") -> None:
        """Presses Tab until the element with this id or text has the focus, then `key`. Waits for the element first."""
        there = "return [...document.querySelectorAll('a,button,input,select,textarea')].some((each) => !each.disabled && (each.id === arguments[0] || each.textContent.trim() === arguments[0]))"
        self._browser.wait(f"{wanted} is there", lambda: self._browser.run(there, wanted))
        focused = "const at = document.activeElement; return at.id === arguments[0] || at.textContent.trim() === arguments[0]"
        for _ in range(120):
            if self._browser.run(focused, wanted):
                break
            self.press(Keys.TAB)
        else:
            raise AssertionError(f"Tab does not reach {wanted}")
        if key:
            self.press(key)
