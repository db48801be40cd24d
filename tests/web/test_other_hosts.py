"""The page of esx-01 shows what only esx-02's daemon knows, and says where it cannot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fleet.fleet import Fleet
from web.bridge import Bridge
from web.browser import Browser
from web.monitor import FakeMonitor


def test_another_hosts_views(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/hosts/esx-02/monitor/budgets")
        [row] = browser.wait("the budgets", lambda: browser.grid("Budgets"))
        [told] = guided[2].ctl("adapter", "budget", "list")["adapters"]
        qps = told["budgets"]["qps"]
        assert (row["Adapter"], row["QPs"]) == ("VM-02", f"{qps['use']} of {qps['limit']:,}") and qps["use"] > 0
        browser.wait("the rate", lambda: browser.grid("Budgets")[0]["Throughput"] not in ("--", "0.0 Mbit/s"))
        browser.go("#/hosts/esx-02/monitor/neighbours")
        [row] = browser.wait("the neighbours", lambda: browser.grid("Neighbours"))
        [peer] = guided[2].ctl("cluster", "get")["tcp"]["peers"]
        assert (row["Host"], row["Lanes up"]) == ("esx-01", str(peer["lanes_up"]))
        browser.go("#/hosts/esx-02/monitor/hca")
        browser.wait("the registration", lambda: [row["Adapter"] for row in browser.grid("Registration")] == ["VM-02"])
        assert not browser.button("Measure").is_enabled() and "Only the page of esx-02 can do that." in browser.text("main")
        browser.go("#/hosts/esx-02/monitor/native")
        browser.wait("the adapters", lambda: [row["Adapter"] for row in browser.grid("Adapters")] == ["VM-02"])
        browser.go("#/hosts/esx-02/monitor/connections")
        [row] = browser.wait("the paths", lambda: browser.grid("Paths and reasons"))
        paths = guided[2].ctl("path", "list")
        assert (row["Path"], row["Reason"], row["Connections"], row["VMs"], row["Peer Hosts"]) == ("TCP", paths[0]["reason"], str(len(paths)), "VM-02", "esx-01")
        browser.go("#/hosts/esx-02/monitor/connections/VM-02")
        rows = browser.wait("the QPs", lambda: [row for row in browser.grid("Connections") if row["Path"] == "TCP"])
        assert {row["QPN"] for row in rows} == {str(path["qpn"]) for path in paths}
        browser.go("#/home")
        browser.wait("its VM's adapter", lambda: "VM-02 active" in browser.text("main") and "only esx-02 knows" not in browser.text("main"))
        browser.go("#/vms/VM-02/summary")
        browser.wait("the state", lambda: browser.facts().get("Adapter") == "active")
        adapter = guided[2].ctl("adapter", "get", "VM-02")
        assert adapter["gids"] and all(gid["gid"] in browser.text("main") for gid in adapter["gids"])
        browser.go("#/vms/VM-02/monitor")
        browser.wait("its traffic", lambda: "messages" in browser.facts().get("TCP", ""))
        assert not browser.button("Capture").is_enabled()
    assert browser.violations() == []


def test_a_motion_that_another_host_leads(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    two = guided[2]
    with guided.checker("VM-01", "VM-02"), FakeMonitor(two, "VM-02"), ThreadPoolExecutor(1) as side:
        browser.open(bridge.page, "#/vms/VM-02/monitor")
        ended = side.submit(two.refusal, "vm", "migrate", "VM-02", "--to", "esx-01")
        try:
            browser.wait("its progress", lambda: browser.facts().get("Phase") == "waits for QEMU")
            assert browser.text("main .detail h2") == "Motion of VM-02: esx-02 → esx-01"
            assert not browser.button("Cancel motion").is_enabled() and "Only the page of esx-02 can cancel it." in browser.text("main")
        finally:
            two.ctl_text("vm", "migrate", "VM-02", "--cancel")
        assert "VM-02" in ended.result()
        browser.wait("it is over", lambda: "waits for QEMU" not in browser.text("main"))
    browser.messages()  # the adapter was on esx-01 for a moment, and its counters were asked for


def test_a_host_that_dies_is_missed_only_where_it_was_asked(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-02/monitor/neighbours")
    browser.wait("the neighbours", lambda: browser.grid("Neighbours"))
    guided[2].kill()
    try:
        browser.wait("it is not alive", lambda: "esx-02 is not alive: only its own daemon knows this." in browser.text("main .side-content"), 30)
        assert "live" in browser.text("#live") and "no updates" not in browser.text("#live")
        browser.go("#/hosts/esx-01/monitor/neighbours")
        browser.wait("what this host knows", lambda: browser.facts().get("Connected") == "Yes")
        browser.go("#/vms/VM-02/summary")
        assert "esx-02 is not alive" in browser.text("main")
        browser.go("#/hosts/esx-02/summary")
        browser.click("Remove")
        browser.click("Remove", "dialog")
        browser.wait("the refusal", lambda: "host esx-02 is a member of the distributed switch DSwitch" in browser.refusal)
        browser.click("Cancel", "dialog")
        browser.go("#/hosts/esx-01/summary")
        assert "Remove" not in browser.text("main")  # it is alive
        browser.go("#/topology")
        browser.wait("the drawing", lambda: browser.text("main h1") == "Topology")
        assert browser.text("main .alert-danger") == ""
    finally:
        guided[2].start()
    browser.go("#/hosts/esx-02/monitor/neighbours")
    browser.wait("it is back", lambda: browser.grid("Neighbours"), 30)
    browser.messages()  # Chromium logs each read that failed while the host died


def test_hosts_without_certificates_say_so(browser: Browser, empty_bridge: Bridge) -> None:
    browser.open(empty_bridge.page, "#/hosts/esx-02/monitor/budgets")
    browser.wait("the reason", lambda: "Only the daemon of esx-02 knows this. Open its own page, or give the hosts certificates" in browser.text("main .alert-info"))
    assert not any("/hosts/esx-02/" in path for _, path in empty_bridge.asked)
