"""Every view and dialog in both themes: nothing that axe-core objects to, no message on the console, and no request elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from fleet.fleet import PORTGROUP, SWITCH
from test_views import with_device
from web.bridge import Bridge
from web.browser import Browser

VIEWS = ["#/home", "#/hosts", "#/hosts/esx-01/summary", *(f"#/hosts/esx-01/configure/{page}" for page in (
    "virtual-switches", "physical-adapters", "rdma-adapters", "vmkernel-adapters", "advanced", "firewall")),
    "#/networking", *(f"#/networking/{SWITCH}/configure/{page}" for page in ("port-groups", "uplinks", "hosts")),
    *(f"#/hosts/esx-01/monitor/{page}" for page in ("budgets", "neighbours", "hca", "native")), "#/hosts/esx-02/monitor/hca",
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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_views_and_dialogs(browser: Browser, bridge: Bridge, theme: str) -> None:
    bridge.overlay = with_device
    browser.asked()
    browser.open(bridge.page, VIEWS[0], theme)
    found = {}
    for view in VIEWS:
        browser.go(view)
        browser.wait("it is drawn", lambda: "Loading" not in browser.text("main"))
        found[view] = browser.violations()
    for view, button in DIALOGS:
        browser.go(view)
        browser.click(button)
        found[f"{view} {button}"] = browser.violations()
        if button in WIZARDS:
            WIZARDS[button](browser)
            while browser.step != "Ready to complete":
                browser.next()
                found[f"{view} {button} {browser.step}"] = browser.violations()
        browser.run("document.querySelector('dialog').close()")
        browser.settle()
    assert {view: violations for view, violations in found.items() if violations} == {}
    own = urlsplit(bridge.page)
    elsewhere = [url for url in browser.asked() if urlsplit(url).scheme not in ("data", "about", "chrome") and urlsplit(url)[:2] != own[:2]]
    assert elsewhere == []


def test_login_and_troubles(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts")
    bridge.trouble = lambda path: "other" if path.startswith("/v1/") else ""
    browser.wait("the daemon is away", lambda: "no updates" in browser.text("#live"))
    assert browser.violations() == []


@pytest.mark.parametrize("width", [360, 700])
def test_a_narrow_window(browser: Browser, bridge: Bridge, width: int) -> None:
    bridge.overlay = with_device
    browser.open(bridge.page)
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False})
    try:
        for view in VIEWS:
            browser.go(view)
            assert browser.run("return document.documentElement.scrollWidth") <= width, view
            assert browser.run("return document.querySelector('main').clientWidth") > 300, view
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
