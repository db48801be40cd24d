"""Captures and faults: started, watched and ended by the page."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fleet.fleet import Fleet
from harness import process
from harness.daemon import binary
from web.bridge import Bridge
from web.browser import Browser

_SECTION = b"\x0a\x0d\x0d\x0a"  # how a pcapng file begins


def test_a_capture_is_started_stopped_and_saved(browser: Browser, guided: Fleet, bridge: Bridge, downloads: Path) -> None:
    one = guided[1]
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/vms/VM-01/monitor")
        told = one.refusal("capture", "VM-01", "-w", "/dev/null", "-f", "qp").removeprefix("pvrdmactl: ")
        browser.click("Capture")
        browser.type("filter", "qp")
        browser.click("Capture", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.refusal == told and browser.run("return document.querySelector('dialog .field-refusal').id") == "refused-filter"
        browser.messages()  # the refused request
        browser.type("filter", "op write or op send")
        browser.type("duration", "")
        assert browser.text("dialog .commands code") == "pvrdmactl capture VM-01 -w VM-01.pcapng --filter 'op write or op send' --snaplen 96"
        browser.ok("Capture")
        browser.wait("it runs", lambda: [(row["Adapter"], row["Filter"]) for row in browser.grid("Running on this host")] == [("VM-01", "op write or op send")])
        assert [each["adapter"] for each in one.ctl("adapter", "capture", "list")] == ["VM-01"]
        browser.wait("bytes arrive", lambda: one.ctl("adapter", "capture", "list")[0]["sent_bytes"] > 8192)
        browser.wait("the page has some", lambda: browser.grid("Files of this page")[0]["Size"] not in ("0 B", "--"))
        browser.click("Stop")
        browser.wait("no capture runs", lambda: one.ctl("adapter", "capture", "list") == [])
        assert browser.grid("Files of this page")[0]["State"] == "stopped"
        browser.click("Save")
        saved = browser.wait("the file", lambda: next(iter(downloads.glob("*.pcapng")), None))
        assert saved.name == "VM-01.pcapng"
        assert saved.read_bytes()[:4] == _SECTION
        counted = subprocess.run(["tshark", "-n", "-r", str(saved)], capture_output=True, text=True, check=False, timeout=60)
        assert counted.returncode == 0 and len(counted.stdout.splitlines()) >= 5, counted.stderr
        browser.click("Discard")
        assert browser.text("dialog h1") == "Discard VM-01.pcapng"
        browser.click("Cancel", "dialog")
        assert len(browser.grid("Files of this page")) == 1
        browser.click("Discard")
        browser.ok("Discard")
        assert browser.grid("Files of this page") == []


def test_a_capture_ends_by_itself_and_a_foreign_one_by_the_page(browser: Browser, guided: Fleet, bridge: Bridge, downloads: Path) -> None:
    one = guided[1]
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/captures")
        browser.click("Capture")
        browser.type("count", "10")
        browser.ok("Capture")
        browser.wait("it is complete", lambda: [row["State"] for row in browser.grid("Files of this page")] == ["complete"])
        file = downloads / "other.pcapng"
        other = process.start([str(binary("pvrdmactl")), "--api", str(one.api), "capture", "VM-01", "-w", str(file), "-f", "error"], downloads / "log")
        try:
            browser.wait("it is listed", lambda: [row["Filter"] for row in browser.grid("Running on this host")] == ["error"])
            [running] = one.ctl("adapter", "capture", "list")
            browser.click(f"End capture {running['id']}")
            browser.ok("End")
            assert other.wait(30) == 0 and file.read_bytes()[:4] == _SECTION
        finally:
            process.stop(other, 10)


def test_a_capture_that_nobody_begins_is_refused_in_the_dialog(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    path = "/v1/adapters/VM-01/capture"
    browser.open(bridge.page, "#/captures")
    browser.click("Capture")
    for trouble, sentence in (("silent", f"The daemon has not answered POST {path} within 10 s."), ("cut", "The daemon cannot be reached."),
                              ("other", f"The answer to POST {path} (status 200) is not application/x-pcapng: another program answers, or it was cut.")):
        bridge.trouble = lambda asked, trouble=trouble: trouble if asked == path else ""
        browser.click("Capture", "dialog")
        browser.wait(f"the refusal: {trouble}", lambda sentence=sentence: browser.refusal == sentence)
        bridge.behave()
        assert browser.button("Capture", "dialog").is_enabled()
    browser.click("Cancel", "dialog")
    assert browser.grid("Files of this page") == []
    browser.wait("no capture runs", lambda: guided[1].ctl("adapter", "capture", "list") == [])
    browser.messages()  # of the requests that failed


def test_faults_are_injected_shown_everywhere_and_removed(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    one = guided[1]
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/faults")
        assert browser.grid("Faults") == [] and browser.text("#fault-bar") == ""
        browser.click("Inject Faults")
        browser.type("drop", "2")
        browser.type("seed", "7")
        browser.click("OK", "dialog")
        browser.wait("the refusal", lambda: browser.refusal)
        assert browser.run("return document.querySelector('dialog .field-refusal').id") == "refused-drop"
        assert browser.run("return ['drop', 'seed'].map((name) => document.getElementById(`field-${name}`).value)") == ["2", "7"]
        assert [message for message in browser.messages() if "status of 400" not in message] == []
        browser.type("drop", "")
        browser.type("delay", "0.01")
        try:
            browser.ok()
            [told] = one.ctl("fault", "list")
            assert (told["adapter"], told["delay"], told["seed"]) == ("VM-01", 0.01, 7)
            browser.wait("the bar", lambda: "VM-01" in browser.text("#fault-bar"))
            rounds = checker.rounds()
            browser.wait("the counts grow", lambda: int(browser.grid("Faults")[0]["Messages"]) > 0 and checker.rounds() > rounds)
            assert browser.grid("Faults")[0]["Delay"].startswith("0.01, met ")
            for view in ("#/home", "#/hosts", "#/vms/VM-01/summary", "#/vms/VM-01/monitor", "#/captures", "#/about"):
                browser.go(view)
                assert "Faults are injected" in browser.text("#fault-bar"), view
            assert browser.violations() == []
            browser.go("#/faults")
            browser.click(f"Remove fault {told['id']}")
            browser.ok("Remove")
            browser.wait("the bar has gone", lambda: browser.text("#fault-bar") == "")
            assert one.ctl("fault", "list") == []
            browser.click("Inject Faults")
            browser.type("duplicate", "0.01")
            browser.ok()
            browser.click("Remove all")
            browser.ok("Remove")
            assert one.ctl("fault", "list") == []
        finally:
            one.ctl_text("fault", "remove", "--all")
