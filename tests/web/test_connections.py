"""The views Connections and Topology: what `pvrdmactl --json` tells, with traffic and with 5,000 QPs."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from selenium.webdriver.common.keys import Keys

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from web.bridge import Bridge
from web.browser import Browser

_QPS = 5000


def many_qps(path: str, answer: Any) -> Any:
    """5,000 connections in place of the daemon's, half of them by TCP, as it answers a page of them."""
    if path.startswith("/v1/qps"):
        query = {name: value for name, [value] in parse_qs(urlsplit(path).query).items()}
        numbers = [number for number in range(2, _QPS + 2) if number > int(query["after"]) and query.get("path") in (None, "tcp" if number % 2 else "hca")]
        return [{"adapter": "VM-01", "qpn": number, "type": "RC", "state": "RTS", "local_gid": "fe80::1", "remote_gid": "fe80::2", "remote_qpn": number,
                 "peer_host": "esx-02", "path": "tcp" if number % 2 else "hca", "path_reason": "this host has no active HCA", "tx_messages": number, "tx_bytes": 9,
                 "rx_messages": 0, "rx_bytes": 0, "retransmits": 0} for number in numbers[:int(query["limit"])]]
    if path == "/v1/paths/summary":
        return [{"adapter": "VM-01", "path": kind, "reason": reason, "peer_host": "esx-02", "connections": _QPS // 2}
                for kind, reason in (("hca", "two"), ("tcp", "one"))]
    return answer


def test_connections_at_work(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/connections")
    assert browser.wait("the summary", lambda: browser.grid("Paths and reasons") == [])
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        told = guided[1].ctl("path", "list")
        assert told
        rows = browser.wait("the connections", lambda: browser.grid("Paths and reasons"))
        assert [(row["Path"], row["Reason"], row["Connections"], row["VMs"], row["Peer Hosts"]) for row in rows] == \
            [("TCP", told[0]["reason"], str(len(told)), "VM-01", "esx-02")]
        assert [(row["Name"], row["Connections"], row["Path"]) for row in browser.grid("VMs")] == [("VM-01", str(len(told)), "TCP")]
        browser.go("#/connections/VM-01")
        rows = browser.wait("the QPs", lambda: [row for row in browser.grid("Connections") if row["Path"] == "TCP"])
        assert {(row["QPN"], row["Peer Host"], row["Remote GID"]) for row in rows} == \
            {(str(path["qpn"]), path["peer_host"], path["remote_gid"]) for path in told}
        browser.go("#/topology")
        browser.wait("the path", lambda: browser.run("return document.querySelectorAll('svg .topology-line.path-tcp').length") >= 2)


def test_five_thousand_connections(browser: Browser, bridge: Bridge) -> None:
    bridge.overlay = many_qps
    browser.open(bridge.page, "#/connections")
    rows = browser.wait("the summary", lambda: browser.grid("Paths and reasons"))
    assert [(row["Path"], row["Reason"], row["Connections"]) for row in rows] == [("HCA", "two", str(_QPS // 2)), ("TCP", "one", str(_QPS // 2))]
    browser.go("#/connections/VM-01")
    browser.wait("the QPs", lambda: browser.grid("Connections"))
    assert browser.run("return document.querySelectorAll('[role=grid] tbody tr[role=row]').length") == 60
    assert browser.run("return document.querySelector('[role=grid]').getAttribute('aria-rowcount')") == "1001"
    browser.run("document.querySelector('[role=grid]').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.END)
    browser.wait("the last one", lambda: browser.grid("Connections")[-1]["QPN"] == "1001")
    assert not browser.button("Previous page").is_enabled()
    for page in range(1, 5):
        browser.click("Next page")
        browser.wait("the page", lambda page=page: browser.grid("Connections")[0]["QPN"] == str(1000 * page + 2))
    browser.wait("where it is", lambda: "4001 to 5000, by QPN" in browser.text("main"))
    browser.click("Next page")
    browser.wait("the end", lambda: "No more" in browser.text("main"))
    assert not browser.button("Next page").is_enabled()
    browser.click("Previous page")
    browser.wait("the page before", lambda: browser.grid("Connections")[0]["QPN"] == "4002")
    browser.run("const choice = document.getElementById('qps-path'); choice.value = 'tcp'; choice.dispatchEvent(new Event('change'))")
    browser.wait("the first page of TCP", lambda: browser.grid("Connections")[0]["QPN"] == "3")
    assert {row["Path"] for row in browser.grid("Connections")} == {"TCP"}


def test_topology(browser: Browser, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/topology")
    boxes = browser.wait("the drawing", lambda: browser.run("return [...document.querySelectorAll('svg a.topology-box')].map((each) => each.getAttribute('aria-label'))"))
    assert {"VM-01, esx-01", "VM-02, esx-02", f"{PORTGROUP}, {SWITCH}", "esx-01, alive", "esx-02, alive"} <= set(boxes)
    browser.run("document.querySelector('svg a.topology-box').focus()")
    browser.wait("what is linked with the VM stands out", lambda: browser.run("return document.querySelectorAll('svg .far').length") > 0)
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.wait("the VM's page", lambda: browser.text("main h1").endswith("VM-01"))
    browser.go("#/topology")
    browser.click("Table")
    rows = browser.grid("Topology")
    assert {"From": "VM-01 (esx-01)", "To": f"{PORTGROUP} ({SWITCH})", "Type": "Network"} in rows
    assert {"From": "esx-01 (alive)", "To": "esx-02 (alive)", "Type": "Path: TCP"} in rows
    browser.click("Drawing")
