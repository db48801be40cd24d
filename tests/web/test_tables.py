"""What is above each table, and the keyboard in it."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from web.bridge import Bridge
from web.browser import Browser

_TITLES = ["Name", "State", "Host", "Compatibility", "Memory", "Reserved", "Network", "Device Protocol", "Adapter", "Throughput"]


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
    copied = browser.driver.execute_async_script("const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))")
    assert copied == "Name\tState\tHost\nVM-02\tPowered Off\tesx-02"
    browser.click("CSV", "main")
    assert browser.wait("the file", lambda: next(iter(downloads.glob("*.csv")), None)).read_text(encoding="utf-8") == '"Name","State","Host"\n"VM-02","Powered Off","esx-02"\n'
    browser.driver.refresh()
    browser.wait("both rows", lambda: len(browser.grid("VMs")) == 2)
    assert list(browser.grid("VMs")[0]) == _TITLES[:3], "the choice of columns stays"


def test_the_keyboard_in_a_table(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    browser.wait("both rows", lambda: len(browser.grid("VMs")) == 2)
    browser.run("document.getElementById('grid-vms').focus()")
    press(browser, Keys.END)
    assert browser.run("return document.getElementById(document.getElementById('grid-vms').getAttribute('aria-activedescendant')).cells[0].innerText.trim()") == "VM-02"
    press(browser, Keys.ENTER)
    browser.wait("its page", lambda: browser.text("main h1").endswith("VM-02"))


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
