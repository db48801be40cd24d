"""Migrate and Motions: what the daemon says before a motion, while it runs and afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from fleet.fleet import Fleet
from web.bridge import Bridge
from web.browser import Browser
from web.monitor import FakeMonitor

_CHECK = ("vm", "migrate", "VM-01", "--to", "esx-02", "--check")
DONE = {"id": "m1", "vm": "VM-01", "from": "esx-01", "to": "esx-02", "state": "done", "phase": "", "error": "", "since": "2026-01-02T03:04:05Z",
        "ram_bytes": 536870912, "remaining_bytes": 0, "page_bytes": 1048576, "state_bytes": 70000, "took_us": 2500000, "pause_us": 40000,
        "freeze_us": 1000, "pages_us": 3000, "state_us": 6000, "memory_us": 20000, "commit_us": 8000, "go_on_us": 2000}
RUNS = DONE | {"id": "m2", "vm": "VM-02", "state": "runs", "phase": "memory", "remaining_bytes": 134217728}
FAILED = DONE | {"id": "m3", "vm": "<b>VM-03</b>", "state": "failed", "ram_bytes": 0, "error": "<img src=x>: the other host refused"}


def test_only_a_running_vm_of_this_host_is_migrated(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/vms/VM-01")
    assert not browser.button("Migrate").is_enabled() and "VM-01 is powered off: only a running VM is migrated." in browser.text("main")
    browser.go("#/vms/VM-02")
    assert not browser.button("Migrate").is_enabled() and "esx-02 has the VM" in browser.text("main")
    browser.go("#/motions")
    browser.wait("the list", lambda: browser.grid("Motions") == [])
    assert "No VM has left this host" in browser.text("main")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_check_is_the_daemons_and_nothing_begins_before_it(browser: Browser, guided: Fleet, bridge: Bridge, theme: str) -> None:
    with guided.checker("VM-01", "VM-02"):
        told = guided[1].refusal(*_CHECK).removeprefix("pvrdmactl: ")
        browser.open(bridge.page, "#/vms/VM-01", theme)
        browser.wait("it is on", lambda: browser.button("Migrate").is_enabled())
        browser.click("Migrate")
        browser.wait("the check", lambda: browser.text("dialog [role=status]") == told)
        assert browser.violations() == []
        browser.click("Migrate", "dialog")
        browser.wait("the refusal", lambda: browser.text("dialog > form > .alert-danger") == told)
        assert browser.run("return document.activeElement === document.querySelector('dialog .alert')")
        browser.type("max_pause_ms", "6000")
        assert "Not checked yet." in browser.text("dialog [role=status]")
        browser.click("Check", "dialog")
        browser.wait("the limit", lambda: "a pause of 6000 ms is too long: at most 5000" in browser.text("dialog [role=status]"))
        browser.click("Migrate", "dialog")
        browser.wait("the limit at its field", lambda: browser.text("#refused-max_pause_ms") == "a pause of 6000 ms is too long: at most 5000")
        browser.type("max_pause_ms", "500")
        browser.type("patience_s", "1000000")
        browser.click("Migrate", "dialog")
        browser.wait("the other limit at its field", lambda: browser.text("#refused-patience_s").startswith("a patience of 1000000 s is too long: at most "))
        assert browser.run("return document.querySelectorAll('dialog .field-refusal').length") == 1
        browser.click("Cancel", "dialog")
        assert guided[1].ctl("motion", "list") == []
        assert ("POST", "/v1/vms/VM-01/motion") not in bridge.asked
    assert [message for message in browser.messages() if "status of 4" not in message and "status of 5" not in message] == []
    browser.wait("VM-01 is off", lambda: "powered off" in browser.text("main"))


def test_a_motion_is_followed_and_cancelled(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """The VM's QEMU is a fake one, so the motion waits for a QEMU on the other host until it is cancelled."""
    one = guided[1]
    with guided.checker("VM-01", "VM-02"), FakeMonitor(one, "VM-01"):
        browser.open(bridge.page, "#/vms/VM-01")
        browser.wait("it is on", lambda: browser.button("Migrate").is_enabled())
        browser.click("Migrate")
        browser.wait("the check", lambda: browser.text("dialog [role=status]") == "Compatibility checks succeeded.")
        assert browser.text("dialog .commands code") == "pvrdmactl vm migrate VM-01 --to esx-02 --max-pause 500 --patience 600"
        checks = len(bridge.asked)
        browser.click("Check", "dialog")
        browser.wait("it is checked again", lambda: any(path.startswith("/v1/vms/VM-01/motion") for _, path in bridge.asked[checks:]) and
                     browser.text("dialog [role=status]") == "Compatibility checks succeeded.")
        browser.settle()
        assert ("POST", "/v1/vms/VM-01/motion") not in bridge.asked and one.ctl("motion", "list") == [], "Check only checks"
        browser.ok("Migrate")
        browser.wait("it runs", lambda: [(row["VM"], row["From"], row["To"], row["State"], row["Phase"]) for row in browser.grid("Motions")] ==
                     [("VM-01", "esx-01", "esx-02", "runs", "waits for QEMU")])
        [told] = one.ctl("motion", "list")
        assert (browser.facts()["Since"], told["state"]) == (f"{datetime.fromisoformat(told['since']).astimezone():%Y-%m-%d %H:%M:%S}", "runs")
        browser.go("#/vms/VM-01/summary")
        browser.wait("the VM is on its way", lambda: "VM-01 is on its way to esx-02." in browser.text("main .alert-info"))
        assert not browser.button("Migrate").is_enabled()
        browser.go("#/vms/VM-01/monitor")
        browser.click("Cancel motion")
        browser.ok("Cancel motion")
        browser.wait("it has failed", lambda: browser.facts().get("State") == "failed")
        [told] = one.ctl("motion", "list")
        assert told["error"] and browser.text("main .alert-danger") == told["error"]
        browser.wait("the VM stays", lambda: browser.button("Migrate").is_enabled())
    assert one.ctl("vm", "get", "VM-01")["host"] == "esx-01"


def test_progress_and_pause(browser: Browser, bridge: Bridge) -> None:
    bridge.overlay = lambda path, answer: [DONE, RUNS, FAILED] if path == "/v1/motions" else answer
    browser.open(bridge.page, "#/motions")
    rows = {row["VM"]: row for row in browser.grid("Motions")}
    assert [(rows[name]["State"], rows[name]["Phase"], rows[name]["Progress"], rows[name]["Pause"]) for name in ("VM-01", "VM-02")] == \
        [("done", "--", "100 %", "40.0 ms"), ("runs", "memory", "75 %", "--")]
    assert rows["<b>VM-03</b>"]["Result"] == FAILED["error"] and browser.run("return document.querySelectorAll('main img, main b').length") == 0
    facts = browser.facts()
    assert (facts["4. the last memory"], facts["5. commit in the store"], facts["The adapter's pages"], facts["Took"]) == ("20.0 ms", "8.0 ms", "1.0 MiB", "2.50 s")
    assert browser.run("return [...document.querySelectorAll('main .stack rect')].map((each) => [Number(each.getAttribute('x')), Number(each.getAttribute('width'))])") == \
        [[0, 9], [9, 27], [36, 54], [90, 180], [270, 72], [342, 18]]
    assert browser.run("return [...document.querySelectorAll('main .stack text')].map((each) => each.textContent)") == ["2", "3", "4", "5", "6"], "1 has no room"
    assert browser.violations_of_both_themes() == []
    assert "Cancel motion" not in browser.text("main")
    browser.run("[...document.querySelectorAll('#grid-motions tbody tr')].find((row) => row.textContent.includes('VM-02')).click()")
    browser.settle()
    assert browser.button("Cancel motion").is_enabled() and browser.facts()["Memory"] == "512.0 MiB, 128.0 MiB left"
    assert browser.run("return document.querySelector('main .detail .bar-part').getAttribute('width')") == "45", "of 60"
    assert browser.text("main .stack") == ""
    browser.run("[...document.querySelectorAll('#grid-motions tbody tr')].find((row) => row.textContent.includes('VM-03')).click()")
    browser.settle()
    assert (browser.facts()["Memory"], browser.facts()["Progress"]) == ("--", "--"), "it failed before QEMU said how much there is"


def test_a_vm_that_is_there_without_its_connections(browser: Browser, bridge: Bridge) -> None:
    """As a motion of libvirt's ends whose adapter's state was lost: red, and the daemon's sentence."""
    lost = "VM VM-01 is on host esx-02 now, without its connections (the adapter's state has not arrived): reload its driver there"
    bridge.overlay = lambda path, answer: [DONE | {"state": "failed", "error": lost}] if path == "/v1/motions" else answer
    browser.open(bridge.page, "#/vms/VM-01/monitor")
    browser.wait("the sentence", lambda: browser.text("main .alert-danger") == lost)
    browser.visit("#/motions")
    [row] = browser.grid("Motions")
    assert (row["State"], row["Result"]) == ("failed", lost) and browser.text("main .alert-danger") == lost
    assert browser.run("return document.querySelector('#grid-motions tbody .bad').innerText") == "failed"


@pytest.mark.parametrize(("phase", "told"), [
    ("stands", "VM VM-02 does not go to host esx-02, and is paused on host esx-01 until libvirt resumes it: virsh resume VM-02"),
    ("lost", "VM VM-02 has left host esx-01, and its connections are lost: let libvirt resume it on host esx-02, and reload its driver there (the log of pvrdmad says why)")])
def test_a_motion_that_needs_somebody_says_what_to_do(browser: Browser, bridge: Bridge, phase: str, told: str) -> None:
    bridge.overlay = lambda path, answer: [RUNS | {"phase": phase}] if path == "/v1/motions" else answer
    browser.open(bridge.page, "#/motions")
    assert browser.wait("the sentence", lambda: browser.text("main .alert-danger")) == told
    assert browser.run("return [...document.querySelectorAll('#grid-motions tbody .bad')].map((each) => each.textContent)") == ["runs", phase]


def test_a_vm_shows_the_motion_that_it_is_in(browser: Browser, bridge: Bridge) -> None:
    moves = {"id": "m9", "to": "esx-02"}
    motions = [DONE]

    def moving(path: str, answer: Any) -> Any:
        if path == "/v1/vms":
            next(vm for vm in answer if vm["name"] == "VM-01")["motion"] = moves
        return motions if path == "/v1/motions" else answer
    bridge.overlay = moving
    browser.open(bridge.page, "#/vms/VM-01/monitor")
    browser.wait("whose motion it is", lambda: browser.text("main .alert-info .alert-text") == "esx-01 leads this motion of VM-01 to esx-02, and knows its progress.")
    assert browser.button("Cancel motion").is_enabled() and "State" not in browser.facts()
    motions[:] = [DONE | {"id": "m9", "state": "runs", "phase": "memory"}]
    browser.wait("this motion", lambda: browser.facts().get("Phase") == "memory")
    assert browser.text("main .alert-info") == ""
    bridge.overlay = lambda path, answer: [DONE] if path == "/v1/motions" else answer
    browser.wait("the newest motion", lambda: browser.facts().get("State") == "done")


def test_hostile_answers_change_nothing_but_texts(browser: Browser, bridge: Bridge) -> None:
    name = "<img src=x onerror=alert(1)>"

    def hostile(path: str, answer: Any) -> Any:
        if path == "/v1/adapters":
            answer[0] |= {"name": name, "native_endpoints": name, "pinned_trouble": name}
        if path == "/v1/budgets":
            answer["adapters"][0]["name"] = name
        if path == "/v1/captures":
            return [{"id": 1, "adapter": name, "filter": name, "snaplen": 96, "count": 0, "duration": 0, "started_s": 0, "sent_bytes": 0, "dropped": 0}]
        if path == "/v1/faults":
            return [{"id": 1, "adapter": name, "drop": 1, "duplicate": 0, "delay": 0, "reorder": 0, "corrupt": 0, "late_ms": 1, "seed": 1,
                     "counts": {"messages": 0, "dropped": 0, "duplicated": 0, "delayed": 0, "reordered": 0, "corrupted": 0}}]
        return answer
    bridge.overlay = hostile
    browser.open(bridge.page, "#/captures")
    for view in ("#/captures", "#/faults", *(f"#/hosts/esx-01/monitor/{page}" for page in ("budgets", "hca", "native"))):
        browser.go(view)
        browser.wait("the name is text", lambda: name in browser.text("main"))
        assert browser.run("return document.querySelectorAll('main img').length") == 0, view
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), view
