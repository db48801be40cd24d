"""The page and a daemon that goes and comes back, is slow, or is another program."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.fleet import SWITCH, Fleet
from fleet.until import until
from test_access import VIEWS, WIZARDS
from web.bridge import Bridge
from web.browser import Browser

API = "/v1/"
LATER = re.compile("/v1/(batch|events|watch|faults|hosts/[^/]+/(adapters|budgets|cluster|events|paths|qps|version))\\b")  # an older daemon has none

# Texts that a page shows when it draws a value that it does not expect.
_UNEXPECTED = "return document.body.innerText.match(/\\b(undefined|NaN|null)\\b|\\[object [A-Z]/g) ?? []"


@pytest.mark.parametrize("trouble", ["cut", "other", "silent"])
def test_the_first_load_fails_and_mends_itself(browser: Browser, bridge: Bridge, trouble: str) -> None:
    bridge.trouble = lambda path: trouble if path.startswith(API) else ""
    browser.driver.get("about:blank")
    browser.driver.get(f"{bridge.page}#/hosts")
    browser.run("sessionStorage.clear()")
    if trouble == "silent":
        browser.wait("it waits", lambda: "connecting" in browser.text("#live"))
    else:
        browser.wait("it says why", lambda: "no answer yet" in browser.text("#live") and browser.text("main .alert-danger"))
        assert {"cut": "The daemon cannot be reached.", "other": "is not JSON"}[trouble] in browser.text("main .alert-danger")
    bridge.behave()
    browser.wait("it is live", lambda: "live" in browser.text("#live"))
    assert [row["Name"] for row in browser.grid("Hosts")] == ["esx-01", "esx-02"]
    assert browser.text("main .alert-danger") == ""
    browser.messages()  # Chromium's own lines on what the bridge did


def test_a_daemon_that_is_killed_and_started_again(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms")
    guided[1].kill()
    try:
        browser.wait("it says since when", lambda: "✕ no updates since" in browser.text("#live"))
        assert [row["Name"] for row in browser.grid("VMs")] == ["VM-01", "VM-02"]  # the last data stay
        assert browser.grid("VMs")[0]["State"].startswith("?")
        assert not browser.button("New Virtual Machine").is_enabled()
        assert browser.run("return getComputedStyle(document.querySelector('main .title-line')).filter") == "grayscale(1)"
    finally:
        guided[1].start()
    browser.wait("it is live by itself", lambda: "esx-01 live" in browser.text("#live"))
    browser.wait("edits are possible", lambda: browser.button("New Virtual Machine").is_enabled())
    browser.wait("the hosts are connected", lambda: guided[1].ctl("cluster", "get")["tcp"]["peers"][0]["lanes_up"] == guided.lanes)
    browser.messages()


def test_a_store_that_is_away(browser: Browser, bridge: Bridge) -> None:
    def away(path: str, answer: object) -> object:
        if path == "/v1/cluster":
            assert isinstance(answer, dict)
            answer["store"] |= {"connected": False, "trouble": "etcd does not answer."}
        return answer
    bridge.overlay = away
    browser.open(bridge.page, "#/networking")
    assert "The store is away: etcd does not answer." in browser.text("main .alert-danger")
    assert not browser.button("New Distributed Switch").is_enabled()
    bridge.behave()
    browser.wait("edits are possible", lambda: browser.button("New Distributed Switch").is_enabled())


def test_a_hostile_name_is_text(browser: Browser, bridge: Bridge) -> None:
    """Other hosts and guests choose some texts: markup, control characters, 200 characters."""
    names = ["<img src=x onerror=alert(1)>", "${alert(1)}", "a\u0000b\u202ec\u001b[31m", "=cmd|' /C calc'!A1", "n" * 200, "\"'><script>alert(1)</script>"]

    def hostile(path: str, answer: object) -> object:
        if path == "/v1/hosts":
            assert isinstance(answer, list)
            answer[1]["vmnics"] = [dict(answer[1]["vmnics"][0], name=f"vmnic{at}", description=name, driver=name, mac=name) for at, name in enumerate(names)]
            answer[1]["name"] = names[0]
        return [] if path.startswith("/v1/hosts/") else answer  # no host has this name, so the daemon refuses to ask it
    bridge.overlay = hostile
    browser.open(bridge.page, "#/hosts")
    assert [row["Name"] for row in browser.grid("Hosts")] == ["esx-01", names[0]]
    browser.go("#/hosts/" + "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/configure/physical-adapters")
    rows = browser.grid("Physical adapters")
    assert [row["MAC Address"].replace("\ufffd", "\u0000") for row in rows if row["Device"] != "vmnic2"] == [name for at, name in enumerate(names) if at != 2]
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.go("#/home")
    path = "/v1/hosts/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/adapters"
    browser.wait("the page asks for the host's adapters", lambda: ("GET", path) in bridge.asked)


@pytest.mark.parametrize("slow_s", [1.0, pytest.param(3.0, marks=pytest.mark.full)])
def test_a_daemon_that_answers_slowly(browser: Browser, guided: Fleet, bridge: Bridge, slow_s: float) -> None:
    """Each answer is late. The page shows its data, and a dialog waits for its edit: it is made once, and nothing typed is lost."""
    one = guided[1]
    bridge.slow_s = slow_s
    bridge.trouble = lambda path: "slow" if path.startswith(API) else ""
    guided.define_vm("VM-45", 1)
    try:
        browser.open(bridge.page, "#/vms/VM-45")
        assert browser.facts()["Memory"] == "512 MiB, 512 MiB reserved"
        browser.click("Edit Settings")
        browser.type("memory_mib", "7")
        asked = bridge.asked.count(("GET", "/v1/version"))
        browser.wait("answers come while somebody types", lambda: bridge.asked.count(("GET", "/v1/version")) > asked + 1)
        browser.field("memory_mib").send_keys("68")
        assert browser.run("return [document.getElementById('field-memory_mib').value, document.activeElement.id]") == ["768", "field-memory_mib"]
        browser.button("OK", "dialog").click()
        browser.settle()
        assert not browser.button("OK", "dialog").is_enabled() and not browser.button("Cancel", "dialog").is_enabled()
        browser.run("document.querySelector('dialog form').requestSubmit()")  # as Enter does
        browser.wait("the dialog ends", lambda: not browser.run("return document.querySelector('dialog') !== null"))
        assert bridge.asked.count(("PATCH", "/v1/vms/VM-45")) == 1
        assert one.ctl("vm", "get", "VM-45")["memory_mib"] == 768
        assert browser.facts()["Memory"] == "768 MiB, 768 MiB reserved", "the page is not behind its own edit"
        assert "live" in browser.text("#live") and browser.text("main .alert-danger") == ""
    finally:
        browser.driver.get("about:blank")  # the page would ask for the VM
        one.ctl_text("vm", "delete", "VM-45")


def drawn(browser: Browser) -> None:
    """Visits every view: each is drawn, and shows no value that the page does not expect."""
    found = {}
    for view in VIEWS:
        browser.visit(view)
        found[view] = [*browser.run(_UNEXPECTED), browser.text("main .alert-danger")]
    assert {view: texts for view, texts in found.items() if any(texts)} == {}


def older(path: str, answer: Any) -> Any:
    """The answers of a daemon that has none of the features which a page may miss."""
    if path == "/v1/version":
        answer["features"] = ["web"]
    return answer


def test_an_older_daemon(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """The page does not ask for what the daemon does not have. A wizard says why it does not go on, and one request still edits."""
    bridge.overlay = older
    bridge.trouble = lambda path: "absent" if LATER.match(path) else ""
    browser.open(bridge.page)
    drawn(browser)
    assert [path for _, path in bridge.asked if LATER.match(path)] == []
    assert "events" not in browser.text("nav.tree").lower().split()
    for address, button, name in (("#/networking", "New Distributed Switch", "Second"), (f"#/networking/{SWITCH}", "New Distributed Port Group", "Second"),
                                  ("#/vms", "New Virtual Machine", "VM-43")):
        browser.visit(address)
        browser.click(button)
        WIZARDS[button](browser)
        browser.click("Next", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.refusal.startswith("This daemon is older than its page") and browser.field("name").get_property("value") == name
        assert browser.run("return document.querySelector('dialog .field-refusal')") is None, "no other name would help"
        browser.click("Cancel", "dialog")
    assert ("POST", "/v1/batch") not in bridge.asked
    browser.visit("#/hosts/esx-02/configure/firewall")
    browser.click("Edit")
    browser.tick("enabled", False)
    try:
        browser.ok()
        assert not guided[1].ctl("host", "get", "esx-02")["ruleset"]["enabled"]
    finally:
        guided[1].ctl_text("network", "firewall", "ruleset", "set", "-H", "esx-02", "-e", "true", "-r", "pvrdma")


_NOVEL = {"kind": "novel", "parts": [1, {"a": None}], "markup": "<img src=x>"}


def newer(path: str, answer: Any) -> Any:
    """The answers of a daemon that says more: an unknown feature, members of every kind, and states without a word in this page."""
    if path == "/v1/version":
        answer["features"].append("time-travel")
    for each in answer if isinstance(answer, list) else [answer]:
        each["novel"] = _NOVEL
    if path == "/v1/hosts":
        for host in answer:
            host["ruleset"]["novel"] = _NOVEL
            host["vmnics"][0]["novel"] = _NOVEL
            host["vmks"][0]["novel"] = _NOVEL
    elif path == "/v1/dvs":
        answer[0]["portgroups"][0]["novel"] = _NOVEL
        answer[0]["members"][0]["novel"] = _NOVEL
    elif path == "/v1/vms":
        answer[0]["adapter"]["novel"] = _NOVEL
        answer[1] |= {"power": "suspended", "adapter": answer[1]["adapter"] | {"protocol": "v3"}}
    elif path == "/v1/adapters":
        answer[0] |= {"state": "dreaming", "objects": answer[0]["objects"] | {"novel": 3}}
    elif path == "/v1/cluster":
        answer["tcp"]["novel"] = answer["store"]["novel"] = _NOVEL
    return answer


def test_a_newer_daemon(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """What the page does not know does not disturb it, and its edits leave that alone."""
    bridge.overlay = newer
    browser.open(bridge.page)
    drawn(browser)
    assert browser.run("return document.querySelectorAll('main img').length") == 0
    browser.visit("#/about")
    assert "time-travel" in browser.facts()["Features"]
    browser.visit("#/vms/VM-01")
    assert browser.facts()["Adapter"] == "dreaming"
    browser.click("Edit Settings")
    browser.ok()
    assert ("PATCH", "/v1/vms/VM-01") not in bridge.asked, "nothing was changed"
    browser.visit("#/vms/VM-02")
    browser.click("Edit Settings")
    assert browser.field("protocol").find_element("css selector", "option:checked").text == "v3 (not offered)"
    browser.click("Cancel", "dialog")
    for address, button in (("#/networking", "New Distributed Switch"), (f"#/networking/{SWITCH}", "New Distributed Port Group"), ("#/vms", "New Virtual Machine")):
        browser.visit(address)
        browser.click(button)
        WIZARDS[button](browser)
        while browser.step != "Ready to complete":
            browser.next()
        assert browser.text("dialog table.changes")
        browser.click("Cancel", "dialog")
