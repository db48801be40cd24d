"""/v1/watch and the page: the daemon tells what has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.fleet import Fleet
from fleet.host import Host
from fleet.until import until
from web.bridge import Bridge
from web.browser import Browser


def without_new_switches(host: Host) -> Callable[[str, Any], Any]:
    """An overlay: only the stream knows the switches that are made from now on."""
    before = host.ctl("dvs", "list")
    return lambda path, answer: before if path == "/v1/dvs" else answer


def wait_until_told(browser: Browser, host: Host, name: str) -> None:
    """Waits until the stream has told of a switch. A page that was told nothing for three seconds asks, and then does not know
    it until the next change. So there are more changes."""
    def is_shown() -> bool:
        if name in [row["Name"] for row in browser.grid("Distributed Switches")]:
            return True
        host.ctl("dvs", "create", "Change")
        host.ctl_text("dvs", "delete", "Change")
        return False
    browser.wait(f"the switch {name}", is_shown)


def test_changes_arrive_by_the_stream(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    bridge.watches = True
    browser.open(bridge.page, "#/about")
    assert "watch" in browser.facts()["Features"]
    browser.go("#/networking")
    bridge.overlay = without_new_switches(guided[1])
    guided[1].ctl("dvs", "create", "Second")
    try:
        wait_until_told(browser, guided[1], "Second")
    finally:
        guided[1].ctl_text("dvs", "delete", "Second")
    browser.wait("it has gone", lambda: "Second" not in [row["Name"] for row in browser.grid("Distributed Switches")])


def test_an_inventory_that_is_too_large_is_asked_for_when_it_changes(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    bridge.watches = True
    bridge.overlay = lambda path, answer: None if path == "/v1/watch" else answer
    browser.open(bridge.page, "#/networking")
    browser.grid("Distributed Switches")

    def since_the_last() -> list[str]:
        paths = [path for _, path in bridge.asked]
        return paths[len(paths) - paths[::-1].index("/v1/dvs"):]
    browser.wait("rounds of requests without it", lambda: since_the_last().count("/v1/adapters") > 2)
    bridge.asked.clear()
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


def test_two_tabs_share_one_stream(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """A daemon has few places for watchers. When the tab that reads closes, the other one reads."""
    bridge.watches = True
    bridge.overlay = without_new_switches(guided[1])
    browser.open(bridge.page, "#/networking")
    until("the first tab has a stream", lambda: bridge.streams, accept=lambda count: count == 1)
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    second = browser.driver.current_window_handle
    made = []
    try:
        browser.driver.get(bridge.page + "#/networking")
        for name, tabs in (("Second", (second, first)), ("Third", (second,))):
            if tabs == (second,):
                browser.driver.switch_to.window(first)
                browser.driver.close()
                browser.driver.switch_to.window(second)
                until("the second tab has a stream", lambda: bridge.streams, accept=lambda count: count == 1)
            guided[1].ctl("dvs", "create", name)
            made.append(name)
            for tab in tabs:
                browser.driver.switch_to.window(tab)
                wait_until_told(browser, guided[1], name)
            assert bridge.streams == 1
    finally:
        for name in made:
            guided[1].ctl_text("dvs", "delete", name)
        if first in browser.driver.window_handles and second in browser.driver.window_handles:
            browser.driver.switch_to.window(second)
            browser.driver.close()
            browser.driver.switch_to.window(first)
