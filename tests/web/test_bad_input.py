"""Texts that guests and other hosts choose, daemons that say less than the page expects, and answers that come late, halfway or never."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.fleet import SWITCH, Fleet
from test_access import VIEWS
from test_migrate import DONE
from web.bridge import Bridge
from web.browser import Browser

HOSTILE = "<img src=x onerror=alert(1)>&lt;b\u0001\u202ec\u001b[31m" + "n" * 200

# Members of answers whose texts guests, hosts, operators and the kernel choose.
_FREE = {"driver", "description", "guest_os", "driver_version", "trouble", "native_endpoints", "text", "initiator", "error", "reason", "peer_host", "netdev", "location",
         "power_on_refusal", "not_served", "version", "owner", "caretaker", "alarms", "pinned_trouble", "filter", "mac", "target"}


def hostile(path: str, answer: Any) -> Any:
    """Such texts everywhere."""
    if path == "/v1/motions":
        return [DONE | {"id": "m3", "vm": HOSTILE, "state": "failed", "error": HOSTILE}]
    return replaced(answer)


def replaced(value: Any) -> Any:
    """The JSON with free texts replaced."""
    if isinstance(value, list):
        return [replaced(each) for each in value]
    if isinstance(value, dict):
        return {name: HOSTILE if name in _FREE and isinstance(each, str) else replaced(each) for name, each in value.items()}
    return value


def test_hostile_texts_stay_texts_in_every_view(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """Nothing of them runs, the page stays as wide as it is, and the whole text can be read."""
    bridge.overlay = hostile
    with guided.checker("VM-01", "VM-02"):
        browser.open(bridge.page)
        shown = set()
        for view in VIEWS:
            browser.visit(view)
            assert browser.run("return document.querySelectorAll('main img, main script, main b').length") == 0, view
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), view
            if browser.run("return document.querySelector('main').textContent.includes(arguments[0])", "&lt;b\u0001\u202ec\u001b[31m" + "n" * 200):
                shown.add(view)
        assert {"#/events", "#/vms/VM-01/summary", "#/motions", "#/hosts/esx-01/configure/physical-adapters", "#/hosts/esx-01/monitor/neighbours"} <= shown
        browser.visit("#/hosts/esx-01/configure/physical-adapters")
        browser.run("document.querySelector('main [role=grid] tbody tr').click()")
        browser.settle()
        cell = "const cell = [...document.querySelectorAll('main [role=grid] td')].find((each) => each.textContent.includes('nnnn')); "
        assert browser.run(cell + "return cell.scrollWidth > cell.clientWidth"), "the cell is cut"
        assert HOSTILE.endswith(browser.facts()["Driver"][-200:]) and browser.run(
            "return [...document.querySelectorAll('main dl.facts dd')].every((each) => each.scrollWidth <= each.clientWidth)"), "the whole text is below the table"


# What every version of the daemon says of an object.
_ALWAYS = {"name", "host", "self", "alive", "version", "role", "features", "store", "connected", "trouble", "tcp", "peers", "adapters", "id", "state", "power", "dvs", "kind",
           "events", "boot", "last", "lost"}


def poorer(path: str, answer: Any) -> Any:
    """The answers of a daemon that has the page's features, and only the oldest members."""
    if isinstance(answer, list):
        return [poorer(path, each) for each in answer]
    if isinstance(answer, dict):
        return {name: poorer(path, each) for name, each in answer.items() if name in _ALWAYS}
    return answer


def test_a_daemon_that_lacks_members(browser: Browser, bridge: Bridge) -> None:
    """A view that needs one says that it cannot be shown. The others are, and so is this one when the daemon has it."""
    bridge.overlay = poorer
    browser.open(bridge.page)
    told = {}
    for view in VIEWS:
        browser.visit(view)
        told[view] = "This view needs what the daemon does not say" in browser.text("main .alert-danger")
    assert told["#/hosts/esx-01/configure/firewall"] and told["#/hosts/esx-01/monitor/budgets"] and told["#/topology"]
    assert not told["#/vms"] and not told["#/about"] and not told["#/motions"]
    assert "live" in browser.text("#live")
    bridge.behave()
    browser.visit("#/hosts/esx-01/configure/firewall")
    browser.wait("the view is back", lambda: browser.grid("Firewall"))
    assert [message for message in browser.messages() if "TypeError" not in message] == []  # for the developer: what is missing


# What only some views ask for, and a view that does.
ASKED = {"/v1/qps": "#/connections/VM-01", "/v1/paths": "#/connections", "/v1/events": "#/events", "/v1/motions": "#/motions", "/v1/captures": "#/captures",
         "/v1/faults": "#/faults", "/v1/budgets": "#/hosts/esx-01/monitor/budgets", "/v1/hosts/esx-02/cluster": "#/hosts/esx-02/monitor/neighbours",
         "/v1/vms/VM-01/qemu-args": "#/vms/VM-01/power-on"}
_SAYS = {"cut": "The daemon cannot be reached.", "other": "another program answers, or it was cut."}


@pytest.mark.parametrize("trouble", ["cut", "other"])
def test_an_answer_of_one_view_that_fails_is_told_there_and_comes_back(browser: Browser, bridge: Bridge, trouble: str) -> None:
    browser.open(bridge.page)
    for path, view in ASKED.items():
        bridge.trouble = lambda asked, path=path: trouble if re.match(f"{path}\\b", asked) else ""
        browser.go(view)
        browser.wait(f"{path} is told in {view}", lambda: _SAYS[trouble] in browser.text("main"))
        assert "live" in browser.text("#live"), view
    bridge.behave()
    for view in ASKED.values():
        browser.go(view)
        browser.wait(f"{view} is back", lambda: _SAYS[trouble] not in browser.text("main"))
    browser.messages()  # Chromium's own lines on what the bridge did


@pytest.mark.parametrize("trouble", ["cut", pytest.param("silent", marks=pytest.mark.full)])
def test_an_edit_without_an_answer(browser: Browser, guided: Fleet, bridge: Bridge, trouble: str) -> None:
    """Nobody knows whether it was made. The dialog says so and keeps what was typed, and the button works again."""
    guided.define_vm("VM-47", 1)
    try:
        browser.open(bridge.page, "#/vms/VM-47")
        browser.click("Edit Settings")
        browser.type("memory_mib", "640")
        bridge.trouble = lambda path: trouble if path == "/v1/vms/VM-47" else ""
        browser.click("OK", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.refusal == {"cut": "The daemon cannot be reached.", "silent": "The daemon has not answered PATCH /v1/vms/VM-47 within 10 s."}[trouble] + \
            " It is not known whether this was done: look before you do it again."
        assert browser.field("memory_mib").get_property("value") == "640"
        assert "unknown" in browser.text("footer.tasks")
        made = guided[1].ctl("vm", "get", "VM-47")["memory_mib"]
        assert made == {"cut": 640, "silent": 512}[trouble]
        bridge.behave()
        browser.ok()
        assert guided[1].ctl("vm", "get", "VM-47")["memory_mib"] == 640
        browser.go("#/networking")
        browser.click("New Distributed Switch")
        browser.type("name", "Second")
        bridge.trouble = lambda path: trouble if path == "/v1/batch" else ""
        browser.click("Next", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert "It is not known" not in browser.refusal, "a dry run changes nothing"
        assert browser.field("name").get_property("value") == "Second"
        bridge.behave()
        browser.next()
        browser.click("Cancel", "dialog")
        assert [dvs["name"] for dvs in guided[1].ctl("dvs", "list")] == [SWITCH]
    finally:
        browser.driver.get("about:blank")
        guided[1].ctl_text("vm", "delete", "VM-47")
    browser.messages()  # Chromium's own lines on what the bridge did
