"""The page and a daemon that goes and comes back, is slow, or is another program."""

from __future__ import annotations

import pytest

from fleet.fleet import Fleet
from fleet.until import until
from web.bridge import Bridge
from web.browser import Browser

API = "/v1/"


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
        assert browser.run("return getComputedStyle(document.querySelector('main')).filter") == "grayscale(1)"
    finally:
        guided[1].start()
    browser.wait("it is live by itself", lambda: "esx-01 live" in browser.text("#live"))
    browser.wait("edits are possible", lambda: browser.button("New Virtual Machine").is_enabled())
    browser.wait("the hosts are connected", lambda: guided[1].ctl("cluster", "get")["tcp"]["peers"][0]["lanes_up"] == 4)
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
        return answer
    bridge.overlay = hostile
    browser.open(bridge.page, "#/hosts")
    assert [row["Name"] for row in browser.grid("Hosts")] == ["esx-01", names[0]]
    browser.go("#/hosts/" + "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/configure/physical-adapters")
    rows = browser.grid("Physical adapters")
    assert [row["MAC Address"].replace("\ufffd", "\u0000") for row in rows if row["Device"] != "vmnic2"] == [name for at, name in enumerate(names) if at != 2]
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_changes_arrive_by_the_stream(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    bridge.watches = True
    browser.open(bridge.page, "#/about")
    assert "watch" in browser.facts()["Features"]
    browser.go("#/networking")
    guided[1].ctl("dvs", "create", "Second")
    try:
        browser.wait("the switch", lambda: "Second" in [row["Name"] for row in browser.grid("Distributed Switches")])
    finally:
        guided[1].ctl_text("dvs", "delete", "Second")
    browser.wait("it has gone", lambda: "Second" not in [row["Name"] for row in browser.grid("Distributed Switches")])
    assert ("GET", "/v1/watch") in bridge.asked and ("GET", "/v1/dvs") not in bridge.asked


def test_an_inventory_that_is_too_large_is_asked_for_when_it_changes(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    bridge.watches = True
    bridge.overlay = lambda path, answer: [vm | {"guest": "shown"} for vm in answer] if path == "/v1/vms" else answer
    browser.open(bridge.page, "#/networking")
    browser.grid("Distributed Switches")
    bridge.asked.clear()
    browser.wait("two rounds of requests", lambda: bridge.asked.count(("GET", "/v1/version")) > 2)
    assert ("GET", "/v1/dvs") not in bridge.asked
    guided[1].ctl("dvs", "create", "Second")
    try:
        browser.wait("the switch", lambda: "Second" in [row["Name"] for row in browser.grid("Distributed Switches")])
        assert ("GET", "/v1/dvs") in bridge.asked
    finally:
        guided[1].ctl_text("dvs", "delete", "Second")


def test_a_page_that_was_left_has_no_stream(browser: Browser, bridge: Bridge) -> None:
    """The browser keeps such a page for "back". A few of them would take all places for watchers."""
    bridge.watches = True
    browser.open(bridge.page, "#/networking")
    until("the page has a stream", lambda: bridge.streams, accept=lambda count: count == 1)
    browser.grid("Distributed Switches")
    browser.driver.get("about:blank")
    until("it has left", lambda: bridge.streams, accept=lambda count: count == 0)
    browser.driver.back()
    until("it has a stream again", lambda: bridge.streams, accept=lambda count: count == 1)
