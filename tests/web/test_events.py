"""The view Events and Recent tasks, against real daemons."""

from __future__ import annotations

from fleet.fleet import Fleet
from web.bridge import Bridge
from web.browser import Browser


def newest_link(browser: Browser) -> tuple[str, ...] | None:
    """The newest event of a link in the table; others may come at any time."""
    return next((tuple(row[column] for column in ("Level", "Target", "Initiator", "Description"))
                 for row in browser.grid("Events") if row["Type"] == "link"), None)


def test_events_come_while_the_view_is_open(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/events")
    told = guided[1].ctl("events")["events"]
    rows = browser.wait("the events", lambda: browser.grid("Events"))
    assert list(rows[0]) == ["Date Time", "Level", "Type", "Description", "Target", "Initiator"]
    assert browser.text("main p") == "Events that the daemon of esx-01 has noted. The pages of other hosts show theirs."
    known = [event["text"] for event in reversed(told) if event["type"] != "shard"]  # a busy machine tells those at any time
    assert [row["Description"] for row in rows if row["Type"] != "shard" and row["Description"] in known][:20] == known[:20]
    try:
        guided[1].ctl_text("adapter", "set", "VM-01", "--link", "down")
        browser.wait("the link is down", lambda: newest_link(browser) == ("ℹ Information", "VM-01", "--", "adapter VM-01: link down"))
    finally:
        guided[1].ctl_text("adapter", "set", "VM-01", "--link", "up")
    browser.wait("the link is up", lambda: newest_link(browser) == ("ℹ Information", "VM-01", "--", "adapter VM-01: link up"))


def test_filters_by_object_and_level(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/events")
    browser.wait("the events", lambda: browser.grid("Events"))
    browser.run("const list = document.getElementById('events-object'); list.value = 'host/esx-02'; list.dispatchEvent(new Event('change'))")
    browser.wait("the heading", lambda: browser.text("main h1") == "Events: esx-02")
    rows = browser.grid("Events")
    assert rows and {row["Target"] for row in rows} == {"esx-02"}
    assert "host esx-02: it is alive" in [row["Description"] for row in rows]
    browser.go("#/events")
    browser.run("const list = document.getElementById('events-level'); list.value = 'warn'; list.dispatchEvent(new Event('change'))")
    browser.settle()
    levels = {row["Level"] for row in browser.grid("Events")}
    assert levels <= {"▲ Warning", "✕ Error"}
    browser.run("const list = document.getElementById('events-level'); list.value = 'info'; list.dispatchEvent(new Event('change'))")


def test_an_edit_is_an_event_and_a_recent_task(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-02/configure/firewall")
    browser.click("Edit")
    browser.tick("allow_all", False)
    browser.type("allowed", "10.77.0.0/24")
    try:
        browser.ok()
        assert "Edit Firewall · esx-02 · done" in " ".join(browser.text("footer.tasks").split())
        browser.go("#/events/host/esx-02")
        browser.wait("the edit", lambda: any(
            (row["Type"], row["Initiator"], row["Description"]) == (
                "edit", "uid 0", "host esx-02: changed by uid 0: ruleset/allow_all, ruleset/allowed")
            for row in browser.grid("Events")))
    finally:
        guided[1].ctl_text("network", "firewall", "ruleset", "set", "-H", "esx-02", "-r", "pvrdma", "-a", "true")
        guided[1].ctl_text("network", "firewall", "ruleset", "allowedip", "remove", "-H", "esx-02", "-r", "pvrdma", "-i", "10.77.0.0/24")
