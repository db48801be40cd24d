"""Every view and dialog in both themes and in little room: nothing that axe-core objects to, nothing out of reach, no message on the console, and no request elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from fleet.fleet import PORTGROUP, SWITCH
from states import STATES
from test_monitor import with_nic
from test_views import with_device
from web.bridge import Bridge
from web.browser import Browser
from web.reflow import reflow_problems

VIEWS = ["#/home", "#/hosts", "#/hosts/esx-01/summary", *(f"#/hosts/esx-01/configure/{page}" for page in (
    "virtual-switches", "physical-adapters", "rdma-adapters", "vmkernel-adapters", "advanced", "firewall")),
    "#/networking", *(f"#/networking/{SWITCH}/configure/{page}" for page in ("port-groups", "uplinks", "hosts")),
    *(f"#/hosts/esx-01/monitor/{page}" for page in ("budgets", "neighbours", "hca", "native")), "#/hosts/esx-02/monitor/hca", "#/hosts/esx-02/monitor/connections", "#/vms/VM-02/monitor",
    "#/vms", "#/vms/VM-01/summary", "#/vms/VM-01/monitor", "#/vms/VM-01/power-on", "#/motions", "#/captures", "#/faults",
    "#/events", "#/events/host/esx-02", "#/connections", "#/connections/VM-01", "#/topology", "#/about"]
DIALOGS = [("#/networking", "New Distributed Switch"), (f"#/networking/{SWITCH}", "New Distributed Port Group"),
           (f"#/networking/{SWITCH}", f"Edit Settings of {PORTGROUP}"), (f"#/networking/{SWITCH}/configure/hosts", "Manage esx-01"),
           (f"#/networking/{SWITCH}/configure/hosts", "Add and Manage Hosts"),
           ("#/hosts/esx-01/configure/vmkernel-adapters", "Add networking"), ("#/hosts/esx-01/configure/advanced", "Edit"),
           ("#/hosts/esx-01/configure/firewall", "Edit"), ("#/vms", "New Virtual Machine"), ("#/vms/VM-01", "Edit Settings"),
           ("#/vms/VM-01", "Upgrade VM Compatibility"), ("#/vms/VM-01", "Remove"), ("#/hosts/esx-01/monitor/hca", "Measure"),
           ("#/captures", "Capture"), ("#/faults", "Inject Faults")]

# What a wizard needs at its first steps; the defaults are good for the others.
WIZARDS: dict[str, Callable[[Browser], None]] = {
    "New Distributed Switch": lambda browser: browser.type("name", "Second"),
    "New Distributed Port Group": lambda browser: browser.type("name", "Second"),
    "New Virtual Machine": lambda browser: browser.type("name", "VM-43"),
    "Add and Manage Hosts": lambda browser: browser.run("document.getElementById('field-task-manage').click()"),
    "Manage esx-01": lambda browser: browser.choose("esx-01:uplink2", "none"),
}


def _objections(browser: Browser) -> list[str]:
    """To what is shown: axe-core's in both themes, and what a small window makes unusable."""
    return browser.violations_of_both_themes() + reflow_problems(browser)


def _expect_none(found: dict[str, list[str]]) -> None:
    told = [f"{where}: {objection}" for where, objections in found.items() for objection in objections]
    assert told == [], "\n".join(told)


def test_views_and_dialogs(browser: Browser, bridge: Bridge) -> None:
    bridge.overlay = with_device
    browser.asked()
    browser.open(bridge.page, VIEWS[0])
    found = {}
    for view in VIEWS:
        browser.visit(view)
        found[view] = _objections(browser)
    for view, button in DIALOGS:
        browser.go(view)
        browser.click(button)
        found[f"{view} {button}"] = _objections(browser)
        if button in WIZARDS:
            WIZARDS[button](browser)
            while browser.step != "Ready to complete":
                browser.next()
                found[f"{view} {button} {browser.step}"] = _objections(browser)
        browser.run("document.querySelector('dialog').close()")
        browser.settle()
    _expect_none(found)
    own = urlsplit(bridge.page)
    elsewhere = [url for url in browser.asked() if urlsplit(url).scheme not in ("data", "about", "chrome") and urlsplit(url)[:2] != own[:2]]
    assert elsewhere == []


def test_states(browser: Browser, bridge: Bridge) -> None:
    """What a fleet in order does not show: troubles, questions before something is removed, long names."""
    browser.open(bridge.page, VIEWS[0])
    found = {}
    for state in STATES:
        bridge.overlay = lambda path, answer, state=state: state.shown(path, with_nic(path, with_device(path, answer)))
        state.enter(browser)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), state.name
        assert browser.run("return document.querySelector('.tree').getBoundingClientRect().width") < 210, state.name
        found[state.name] = _objections(browser)
        state.undo(browser)
    _expect_none(found)
    assert [message for message in browser.messages() if "status of 4" not in message] == []  # 4xx: what the states ask for and refuse


def test_the_look_in_little_room_finds_faults(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    assert reflow_problems(browser) == []
    browser.run("document.querySelector('main h1').style.minWidth = '700px'")
    assert [problem for problem in reflow_problems(browser) if "the page scrolls sideways" in problem] == [
        "at 200 %: the page scrolls sideways: 712 pixels", "360 pixels wide: the page scrolls sideways: 712 pixels"]
    browser.run("document.querySelector('main h1').style.minWidth = ''")
    browser.click("New Virtual Machine")
    browser.run("document.querySelector('dialog .modal-footer').style.transform = 'translateX(-2000px)'")
    problems = reflow_problems(browser)
    assert 'at 200 %: out of reach: BUTTON "Next"' in problems and '360 pixels wide: out of reach: BUTTON "Cancel"' in problems, problems


def test_login_and_troubles(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts")
    bridge.trouble = lambda path: "other" if path.startswith("/v1/") else ""
    browser.wait("the daemon is away", lambda: "no updates" in browser.text("#live"))
    assert browser.violations() == []


# Names of facts that are not in one line with their values.
_STACKED = """return [...document.querySelectorAll('main dl.facts dt')].filter((name) => name.getBoundingClientRect().top !== name.nextElementSibling.getBoundingClientRect().top)
  .map((name) => name.innerText)"""


def test_a_narrow_window(browser: Browser, bridge: Bridge) -> None:
    """The widest one that has the inventory above the view; test_views_and_dialogs has narrower ones."""
    width = 700
    bridge.overlay = with_device
    browser.open(bridge.page)
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False})
    try:
        for view in VIEWS:
            browser.go(view)
            assert browser.run("return document.documentElement.scrollWidth") <= width, view
            assert browser.run("return document.querySelector('main').clientWidth") > 300, view
            assert browser.run("return document.querySelector('main').getBoundingClientRect().top + scrollY") < 220, f"{view}: the inventory fills the window"
            assert browser.run(_STACKED) == [], view
        browser.go("#/home")
        assert browser.run("const table = document.querySelector('main .grid-scroll'); return table.scrollHeight <= table.clientHeight"), "the page scrolls, not the table in it"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_pages_of_a_host_begin_at_the_same_place(browser: Browser, bridge: Bridge) -> None:
    """No label of the list beside them is wider than the list, also not the bold one of the page that is shown."""
    bridge.overlay = with_device
    browser.open(bridge.page)
    places = {}
    for view in VIEWS:
        if view.startswith("#/hosts/esx-01/configure") or view.startswith("#/hosts/esx-01/monitor"):
            browser.go(view)
            places[view] = browser.run("return document.querySelector('main .side-content').getBoundingClientRect().left")
            assert browser.run("return [...document.querySelectorAll('main .side a')].filter((link) => link.scrollWidth > link.clientWidth).map((link) => link.innerText)") == []
    assert len(set(places.values())) == 1, places


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_search_says_what_it_finds_in_both_themes(browser: Browser, bridge: Bridge, theme: str) -> None:
    """axe-core does not look at placeholders."""
    browser.open(bridge.page, theme=theme)
    assert browser.run("return getComputedStyle(document.getElementById('search'), '::placeholder').color") == "rgb(86, 86, 86)"
    assert browser.run("return getComputedStyle(document.getElementById('search')).backgroundColor") == "rgb(255, 255, 255)"


def test_what_cannot_be_typed_into_looks_so(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-01/configure/firewall")
    browser.click("Edit")
    opacity = "return getComputedStyle(document.getElementById('field-allowed')).opacity"
    assert browser.run("return document.getElementById('field-allowed').disabled") and float(browser.run(opacity)) < 1
    browser.tick("allow_all", False)
    assert float(browser.run(opacity)) == 1
