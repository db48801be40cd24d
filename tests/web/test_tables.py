"""What is above each table, and the keyboard in it."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from test_migrate import RUNS
from web.bridge import Bridge
from web.browser import Browser

_TITLES = ["Name", "State", "Host", "Compatibility", "Memory", "Reserved", "Network", "Device Protocol", "Adapter", "Throughput"]
_CLIPBOARD = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"


def press(browser: Browser, keys: str) -> None:
    """Presses keys where the focus is."""
    ActionChains(browser.driver).send_keys(keys).perform()
    browser.settle()


def test_filter_copy_and_csv(browser: Browser, bridge: Bridge, downloads: Path) -> None:
    """Copied and saved is what is shown: the rows that match, and the chosen columns."""
    browser.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    browser.open(bridge.page, "#/vms")
    assert list(browser.grid("VMs")[0]) == _TITLES
    browser.driver.find_element("css selector", "main input[type=search]").send_keys("host:esx-02")
    browser.wait("one row", lambda: [row["Name"] for row in browser.grid("VMs")] == ["VM-02"])
    assert browser.text("main .count") == "1 of 2 items"
    browser.run("document.querySelector('main .chooser').open = true")
    for title in _TITLES[3:]:
        browser.run("[...document.querySelectorAll('main .chooser label')].find((each) => each.innerText.trim() === arguments[0]).querySelector('input').click()", title)
    browser.wait("three columns", lambda: list(browser.grid("VMs")[0]) == _TITLES[:3])
    browser.click("Copy", "main")
    assert browser.driver.execute_async_script(_CLIPBOARD) == "Name\tState\tHost\nVM-02\tPowered Off\tesx-02"
    browser.click("CSV", "main")
    assert browser.wait("the file", lambda: next(iter(downloads.glob("*.csv")), None)).read_text(encoding="utf-8") == '"Name","State","Host"\n"VM-02","Powered Off","esx-02"\n'
    browser.driver.refresh()
    browser.wait("both rows", lambda: len(browser.grid("VMs")) == 2)
    assert list(browser.grid("VMs")[0]) == _TITLES[:3], "the choice of columns stays"


_SELECTED = "const at = document.activeElement; return [at.ariaLabel, at.value?.slice(at.selectionStart, at.selectionEnd), at.previousElementSibling?.innerText]"
_REFUSED = "The browser keeps the clipboard from this page: press Ctrl+C."


def test_copy_without_the_clipboard(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """The browser refuses it, or has none for the page: a Copy button says so, and selects its text for Ctrl+C."""
    def expect(text: str) -> None:
        browser.wait("the text is selected", lambda: browser.run(_SELECTED) == ["Text to copy", text, _REFUSED])
        assert browser.violations_of_both_themes() == []

    try:
        for permission, setting in (("clipboard-write", "denied"), ("clipboard-read", "granted")):
            browser.driver.execute_cdp_cmd("Browser.setPermission", {"permission": {"name": permission}, "setting": setting})
        browser.open(bridge.page, "#/vms/VM-01/power-on")
        arguments = "\n".join(guided[1].ctl("vm", "qemu-args", "VM-01")["arguments"])
        browser.click("Copy", "main")
        expect(arguments)
        ActionChains(browser.driver).key_down(Keys.CONTROL).send_keys("c").key_up(Keys.CONTROL).perform()
        browser.wait("it is copied", lambda: browser.driver.execute_async_script(_CLIPBOARD) == arguments)
        press(browser, Keys.TAB)
        assert _REFUSED not in browser.text("main") and not browser.run("return document.querySelector('main .copy-note textarea').checkVisibility()")
        browser.visit("#/hosts/esx-01/configure/firewall")
        browser.wait("the rules", lambda: browser.grid("Firewall")[0]["Protocol"] == "TCP")
        browser.click("Copy", "main")
        expect("Name\tIncoming Ports\tOutgoing Ports\tProtocol\tState\npvrdma\t28250\t28250\tTCP\tEnabled")
        browser.visit("#/vms/VM-01")
        browser.click("Edit Settings")
        browser.type("memory_mib", "640")
        browser.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as for a page without TLS of another machine
        browser.click("Copy", "dialog")
        expect(browser.text("dialog .commands code"))
        browser.click("Cancel", "dialog")
    finally:
        browser.driver.execute_cdp_cmd("Browser.resetPermissions", {})


def test_the_keyboard_in_a_table(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    browser.wait("both rows", lambda: len(browser.grid("VMs")) == 2)
    browser.run("document.getElementById('grid-vms').focus()")
    press(browser, Keys.END)
    assert browser.run("return document.getElementById(document.getElementById('grid-vms').getAttribute('aria-activedescendant')).cells[0].innerText.trim()") == "VM-02"
    press(browser, Keys.ENTER)
    browser.wait("its page", lambda: browser.text("main h1").endswith("VM-02"))


def test_the_actions_of_a_row(browser: Browser, bridge: Bridge) -> None:
    """`.` opens what can be done with the chosen row. The focus returns to the table: after Esc, and after an action's own dialog."""
    has_dialog = "return document.querySelector('dialog') !== null"
    in_table = "return document.activeElement.id"
    browser.open(bridge.page, "#/vms")
    browser.wait("both rows", lambda: len(browser.grid("VMs")) == 2)
    browser.run("document.getElementById('grid-vms').focus()")
    press(browser, ".")
    assert not browser.run(has_dialog), "no row is chosen"
    press(browser, Keys.ARROW_DOWN)
    press(browser, ".")
    browser.wait("the actions", lambda: browser.text("dialog h1") == "Actions of VM-01")
    shown = browser.run("return [...document.querySelectorAll('dialog .modal-body button')].map((each) => [each.innerText, !each.disabled])")
    assert shown == [["Edit Settings", True], ["Upgrade VM Compatibility", True], ["Migrate", False], ["Remove", True]]
    assert "VM-01 is powered off: only a running VM is migrated." in browser.text("dialog")
    assert browser.violations_of_both_themes() == []
    press(browser, Keys.ESCAPE)
    browser.wait("the table has the focus", lambda: not browser.run(has_dialog) and browser.run(in_table) == "grid-vms")
    press(browser, ".")
    browser.click("Edit Settings", "dialog")
    browser.wait("its dialog", lambda: browser.text("dialog h1") == "Edit Settings: VM-01")
    browser.click("Cancel", "dialog")
    browser.wait("the table has the focus again", lambda: not browser.run(has_dialog) and browser.run(in_table) == "grid-vms")
    press(browser, "?")
    browser.wait("the help", lambda: "actions of the chosen row" in browser.text("main .help"))
    browser.run("document.querySelector('main .help input').click(); document.getElementById('grid-vms').focus()")
    press(browser, ".")
    assert not browser.run(has_dialog), "letters are off"


# Tables whose rows have actions, and those of a row.
_ACTIONS = {("#/networking", "Distributed Switches"): ["New Distributed Port Group", "Add and Manage Hosts", "Remove"],
            (f"#/networking/{SWITCH}/configure/port-groups", "Port Groups"): [f"Edit Settings of {PORTGROUP}", f"Remove {PORTGROUP}"],
            (f"#/networking/{SWITCH}/configure/hosts", "Hosts"): ["Manage esx-01"],
            ("#/hosts/esx-01/configure/vmkernel-adapters", "VMkernel adapters"): ["Remove vmk2"],
            ("#/hosts/esx-01/configure/advanced", "Advanced System Settings"): ["Edit"],
            ("#/hosts/esx-01/configure/firewall", "Firewall"): ["Edit"],
            ("#/hosts", "Hosts"): ["Remove"], ("#/motions", "Motions"): ["Cancel motion"]}


def test_rows_have_the_actions_of_their_objects(browser: Browser, bridge: Bridge) -> None:
    bridge.overlay = lambda path, answer: [RUNS] if path == "/v1/motions" else [answer[0] | {"alive": False}, answer[1]] if path == "/v1/hosts" else answer
    browser.open(bridge.page, "#/about")
    for (view, label), expected in _ACTIONS.items():
        browser.visit(view)
        browser.wait(view, lambda label=label: browser.grid(label))
        browser.run("[...document.querySelectorAll('[role=grid]')].find((each) => each.getAttribute('aria-label') === arguments[0]).focus()", label)
        press(browser, Keys.HOME)
        press(browser, ".")
        browser.wait("the actions", lambda: browser.text("dialog h1").startswith("Actions of "))
        assert browser.run("return [...document.querySelectorAll('dialog .modal-body button')].map((each) => each.innerText)") == expected, view
        press(browser, Keys.ESCAPE)
        browser.wait("no dialog", lambda: not browser.run("return document.querySelector('dialog') !== null"))


def test_keys_of_the_page(browser: Browser, bridge: Bridge) -> None:
    """`/`, `?`, `g` and a letter; they can be switched off, and are letters in a field."""
    browser.open(bridge.page, "#/vms")
    press(browser, "/")
    assert browser.run("return document.activeElement.id") == "search"
    press(browser, "gn")
    assert browser.run("return [document.activeElement.value, location.hash]") == ["gn", "#/vms"]
    browser.run("document.activeElement.blur()")
    press(browser, "?")
    browser.wait("the help", lambda: "Keys" in browser.text("main"))
    browser.run("document.querySelector('main .help input').click()")
    press(browser, Keys.ESCAPE)
    browser.wait("no help", lambda: "Keys" not in browser.text("main"))
    press(browser, "gn")
    assert browser.run("return location.hash") == "#/vms", "letters are off"
