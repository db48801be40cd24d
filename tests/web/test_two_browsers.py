"""Two people with a browser each edit the same objects of one daemon at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fleet.fleet import SWITCH, Fleet
from web.bridge import Bridge
from web.browser import Browser

VM = "VM-44"
_ADDRESS = f"#/vms/{VM}"


@pytest.fixture(scope="module")
def second_browser() -> Iterator[Browser]:
    """The browser behind `other`."""
    with Browser() as browser:
        yield browser


@pytest.fixture
def other(bridge: Bridge, second_browser: Browser) -> Iterator[Browser]:
    """The other person's browser, a process of its own. It leaves the page before the bridge ends, and its console holds what
    that of `browser` may hold."""
    yield second_browser
    second_browser.driver.get("about:blank")
    assert [message for message in second_browser.messages() if "status of 4" not in message] == []


@contextmanager
def defined(fleet: Fleet, name: str, *browsers: Browser) -> Iterator[None]:
    """A VM of esx-01 that the test may remove itself. The browsers leave its page before it goes: they would ask for it."""
    fleet.define_vm(name, 1)
    try:
        yield
    finally:
        for browser in browsers:
            browser.driver.get("about:blank")
        if name in {vm["name"] for vm in fleet[1].ctl("vm", "list")}:
            fleet[1].ctl_text("vm", "delete", name)


@contextmanager
def without_switches(fleet: Fleet, *names: str) -> Iterator[None]:
    """Removes these switches at the end, as far as the test has made them."""
    try:
        yield
    finally:
        for name in {dvs["name"] for dvs in fleet[1].ctl("dvs", "list")} & set(names):
            fleet[1].ctl_text("dvs", "delete", name)


def edit_in(*browsers: Browser) -> None:
    """Opens Edit Settings of the VM in each browser, so all dialogs begin with the same values."""
    for browser in browsers:
        browser.click("Edit Settings")
        browser.field("memory_mib")


def value(browser: Browser, name: str) -> str:
    """What a field of the open dialog holds."""
    return str(browser.field(name).get_property("value"))


def make_switch(browser: Browser, name: str) -> None:
    """Makes a switch without a port group, by the wizard."""
    browser.click("New Distributed Switch")
    browser.type("name", name)
    browser.next(2)
    browser.tick("with_group", False)
    browser.finish()


def come_to_the_last_step(browser: Browser) -> None:
    """New Distributed Switch: Second with Group-2, of which Finish is left."""
    browser.click("New Distributed Switch")
    browser.type("name", "Second")
    browser.next(2)
    browser.type("group", "Group-2")
    browser.next()


def test_changes_of_different_members_are_both_kept(browser: Browser, other: Browser, guided: Fleet, bridge: Bridge) -> None:
    with defined(guided, VM, browser, other):
        for each in (browser, other):
            each.open(bridge.page, _ADDRESS)
        edit_in(browser, other)
        browser.type("memory_mib", "768")
        other.choose("protocol", "RoCE v1")
        other.choose("doorbells", "trapped")
        browser.ok()
        assert value(other, "memory_mib") == "512", "a dialog keeps the values that it began with"
        other.ok()
        told = guided[1].ctl("vm", "get", VM)
        assert (told["memory_mib"], told["memory_reserved_mib"], told["adapter"]["protocol"], told["adapter"]["doorbells"]) == (768, 768, "v1", "trapped")
        for each in (browser, other):
            each.wait("both changes are shown", lambda each=each: (  # type: ignore[misc]
                each.facts()["Memory"], each.facts()["Device Protocol"], each.facts()["Doorbells"]) == ("768 MiB, 768 MiB reserved", "RoCE v1", "trapped"))


@pytest.mark.parametrize("watches", [pytest.param(False, id="asked", marks=pytest.mark.full), pytest.param(True, id="watched")])
def test_the_later_change_of_a_member_wins_and_the_first_page_shows_it(browser: Browser, other: Browser, guided: Fleet, bridge: Bridge, watches: bool) -> None:
    """Also while that page has its dialog open again: nothing that is typed there is replaced."""
    bridge.watches = watches
    with defined(guided, VM, browser, other):
        for each in (browser, other):
            each.open(bridge.page, _ADDRESS)
        edit_in(browser, other)
        browser.type("memory_mib", "640")
        other.type("memory_mib", "896")
        browser.ok()
        assert browser.facts()["Memory"] == "640 MiB, 640 MiB reserved"
        edit_in(browser)
        browser.run("document.querySelector('dialog details').open = true")
        browser.type("addresses", "10.77.0.1")
        other.ok()
        assert guided[1].ctl("vm", "get", VM)["memory_mib"] == 896
        browser.wait("the first page shows it by itself", lambda: browser.facts()["Memory"] == "896 MiB, 896 MiB reserved")
        assert (value(browser, "memory_mib"), value(browser, "addresses")) == ("640", "10.77.0.1")
        browser.ok()
        told = guided[1].ctl("vm", "get", VM)
        assert (told["memory_mib"], told["adapter"]["addresses"]) == (896, ["10.77.0.1"]), "what this dialog did not change stays"


def test_a_dialog_of_a_vm_that_somebody_else_removes(browser: Browser, other: Browser, guided: Fleet, bridge: Bridge) -> None:
    with defined(guided, VM, browser, other):
        for each in (browser, other):
            each.open(bridge.page, _ADDRESS)
        edit_in(browser)
        browser.type("memory_mib", "1024")
        browser.choose("protocol", "RoCE v1")
        other.click("Remove")
        other.ok("Remove")
        browser.wait("the page behind the dialog shows it", lambda: f"The cluster has no VM {VM}." in browser.text("main"))
        assert (value(browser, "memory_mib"), value(browser, "protocol")) == ("1024", "RoCE v1")
        browser.click("OK", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.refusal == guided[1].refusal("vm", "set", VM, "--memory", "1024").removeprefix("pvrdmactl: ")
        assert VM in browser.refusal
        assert (value(browser, "memory_mib"), value(browser, "protocol")) == ("1024", "RoCE v1")
        guided.define_vm(VM, 1)  # somebody defines it again: the same dialog can end well
        browser.ok()
        told = guided[1].ctl("vm", "get", VM)
        assert (told["memory_mib"], told["adapter"]["protocol"]) == (1024, "v1")
    assert [message for message in browser.messages() if "status of 404" not in message] == []


@pytest.mark.parametrize("again", [pytest.param("at once", marks=pytest.mark.full), "after going back"])
def test_an_edit_before_finish_is_shown_and_the_wizard_can_be_finished(browser: Browser, other: Browser, guided: Fleet, bridge: Bridge, again: str) -> None:
    with without_switches(guided, "Second", "Third"):
        for each in (browser, other):
            each.open(bridge.page, "#/networking")
        come_to_the_last_step(browser)
        assert browser.step == "Ready to complete"
        make_switch(other, "Third")
        browser.click("Finish", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.refusal.startswith("the configuration has changed since revision ")
        assert browser.run("return document.activeElement === document.querySelector('dialog .alert')")
        assert browser.step == "Ready to complete" and "Adds the distributed switch Second" in browser.text("dialog .modal-body")
        assert {dvs["name"] for dvs in guided[1].ctl("dvs", "list")} == {SWITCH, "Third"}
        if again == "after going back":
            browser.click("Back", "dialog")
            assert browser.refusal == "" and value(browser, "group") == "Group-2"
            browser.next()
        browser.ok("Finish")
        assert [group["name"] for group in guided[1].ctl("dvs", "get", "Second")["portgroups"]] == ["Group-2"]


@pytest.mark.full
def test_a_name_that_is_taken_before_finish_is_mended_in_the_wizard(browser: Browser, other: Browser, guided: Fleet, bridge: Bridge) -> None:
    with without_switches(guided, "Second", "Third"):
        for each in (browser, other):
            each.open(bridge.page, "#/networking")
        come_to_the_last_step(browser)
        make_switch(other, "Second")
        told = guided[1].refusal("dvs", "create", "Second").removeprefix("pvrdmactl: ")
        browser.click("Finish", "dialog")
        browser.wait("the refusal", lambda: browser.refusal == told)
        for _ in range(3):
            browser.click("Back", "dialog")
        assert value(browser, "name") == "Second"
        browser.type("name", "Third")
        browser.next(2)
        assert value(browser, "group") == "Group-2"
        browser.finish()
        assert [group["name"] for group in guided[1].ctl("dvs", "get", "Third")["portgroups"]] == ["Group-2"]
        assert guided[1].ctl("dvs", "get", "Second")["portgroups"] == []
