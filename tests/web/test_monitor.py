"""Host > Monitor: budgets, neighbours, the HCA, native endpoints. VM > Monitor: the rates of its adapter."""

from __future__ import annotations

import re
from typing import Any

from fleet.fleet import PORTGROUP, Fleet
from web.bridge import Bridge
from web.browser import Browser

CHECK = {"device": "mlx5_0", "mtu": 4096, "gids": ["fe80::1"], "gid": "fe80::1", "max_qps": 262144, "max_work_requests": 32768, "max_sges": 30, "max_cqes": 4194303,
         "max_regions": 16777216, "max_region_bytes": 1 << 40, "max_reads": 16, "memory_mib": 256, "register_untouched_us": 90000, "register_us": 12000,
         "deregister_us": 3000, "sends": 5_000_000, "send_bytes": 11_000_000_000, "read_bytes": 10_500_000_000, "long_read_bytes": 12_000_000_000, "read_ns": 1800}


def with_nic(path: str, answer: Any) -> Any:
    """Shows a host with an RDMA NIC, which can be measured."""
    if path == "/v1/cluster":
        answer["hca"] = {"device": "mlx5_0", "trouble": "", "pinned_bytes": 3 << 30, "peers": [{"host": "esx-02", "up": False, "falls": 2, "trouble": "its NIC is down"}]}
    if path == "/v1/adapters":
        answer[0] |= {"memory_bytes": 4 << 30, "pinned_bytes": 3 << 30, "pinned_trouble": "RLIMIT_MEMLOCK is too low"}
    if path == "/v1/stats":
        answer["host"]["hca"] = {"lent": 5, "lent_bytes": 5 << 20, "fetched": 4, "fetched_bytes": 4 << 20, "bulk_stops": 1}
    return CHECK if path == "/v1/hca/check" else answer


def test_budgets(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/hosts/esx-01/monitor")
        told = guided[1].ctl("adapter", "budget", "list")
        [row] = browser.grid("Budgets")
        [adapter] = told["adapters"]
        qps = adapter["budgets"]["qps"]
        assert qps["use"] > 0 and (row["Adapter"], row["QPs"]) == ("VM-01", f"{qps['use']} of {qps['limit']:,}")
        assert "Native connections" in row and len(row) == 2 + len(adapter["budgets"]), "each budget has its column"
        total = told["totals"]["qps"]
        assert browser.facts()["QPs"].startswith(f"{total['use']} of {total['limit']:,}")
        browser.wait("the turns", lambda: int(browser.facts().get("Turns", "0").replace(",", "")) > 0)
        assert browser.run("return document.querySelector('[aria-sort=descending]').innerText").startswith("Doorbells/s")

        def short(path: str, answer: Any) -> Any:
            if path == "/v1/budgets":
                answer["adapters"][0]["budgets"]["cqs"] |= {"use": 95, "limit": 100}
                answer["adapters"][0]["budgets"]["mrs"] |= {"refused": 7}
                answer["adapters"][0]["budgets"]["of_a_newer_daemon"] = {"use": 1, "limit": 2, "refused": 0}
                answer["adapters"][0]["budgets"]["commands_per_s"] |= {"use": 1, "limit": 100, "refused": 3}
            return answer
        bridge.overlay = short
        short_ones = "VM-01: Commands/s, VM-01: CQs, VM-01: MRs"
        browser.wait("what is short", lambda: browser.text(".side-content .alert-warning") == f"▲ Nearly used up, or exceeded within the last minute: {short_ones}")
        [row] = browser.grid("Budgets")
        assert row["of_a_newer_daemon"] == "1 of 2" and row["CQs"] == "▲ 95 of 100" and row["MRs"].startswith("▲ ") and row["MRs"].endswith("refused 7 times")
        assert row["Commands/s"] == "▲ 1 of 100, waited 3 times"
        browser.driver.refresh()
        browser.wait("old refusals are no warning", lambda: browser.text(".side-content .alert-warning") == "▲ Nearly used up, or exceeded within the last minute: VM-01: CQs")
        [row] = browser.grid("Budgets")
        assert row["Commands/s"] == "1 of 100, waited 3 times" and row["MRs"].endswith("refused 7 times") and "▲" not in row["MRs"]


def test_neighbours(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-01/monitor/neighbours")
    told = guided[1].ctl("cluster", "get")
    [peer] = told["tcp"]["peers"]
    assert browser.grid("Neighbours") == [{"Host": "esx-02", "Lanes up": str(peer["lanes_up"]), "Sessions up": str(peer["sessions_up"]),
                                           "Reconnects": str(peer["reconnects"]), "HCA": "--", "HCA falls": "--", "Trouble": "--"}]
    facts = browser.facts()
    assert (facts["Store"], facts["Connected"], facts["Alarms"]) == (told["store"]["description"], "Yes", "none")


def test_hca(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """No test machine has an RDMA NIC: the daemon refuses to measure, and what a NIC answers comes from the bridge."""
    browser.open(bridge.page, "#/hosts/esx-01/monitor/hca")
    assert browser.facts()["Device"] == "none"
    assert [row["Adapter"] for row in browser.grid("Registration")] == ["VM-01"]
    told = guided[1].refusal("hca", "check", "--device", "mlx5_7").removeprefix("pvrdmactl: ")
    browser.click("Measure")
    browser.type("device", "mlx5_7")
    browser.click("Measure", "dialog")
    browser.wait("the refusal", lambda: browser.refusal)
    assert browser.refusal == told and browser.run("return document.getElementById('field-device').value") == "mlx5_7"
    bridge.overlay = with_nic
    browser.ok("Measure")
    browser.wait("the result", lambda: browser.facts().get("GID used") == "fe80::1")
    browser.wait("the NIC", lambda: browser.facts()["Device"] == "mlx5_0")
    facts = browser.facts()
    assert (facts["Register again"], facts["SEND 64 B"], facts["READ 64 B, alone"]) == ("12.0 ms/GiB", "5.000 million/s", "1.8 µs")
    browser.wait("the loans", lambda: browser.facts()["Lent"] == "5 times, 5.0 MiB")
    assert browser.grid("Registration") == [{"Adapter": "VM-01", "Memory": "4.0 GiB", "Registered": "3.0 GiB (75 %)", "Trouble": "RLIMIT_MEMLOCK is too low"}]
    assert browser.grid("Other hosts with an HCA") == [{"Host": "esx-02", "State": "not up", "Falls": "2", "Trouble": "its NIC is down"}]
    assert browser.violations() == []
    assert [message for message in browser.messages() if "status of 4" not in message] == []


def test_native_endpoints(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    browser.open(bridge.page, "#/hosts/esx-01/monitor/native")
    assert [(row["Port group"], row["Native endpoints"], row["Peers"]) for row in browser.grid("Port Groups")] == [(PORTGROUP, "not allowed", "--")]
    [row] = browser.grid("Adapters")
    assert row["Native endpoints"] == guided[1].ctl("adapter", "get", "VM-01")["native_endpoints"]
    assert "No connection is possible: its port group does not allow them." in browser.text("main")
    assert not any(path.startswith("/v1/qps") for _, path in bridge.asked)

    def allowed(path: str, answer: Any) -> Any:
        if path == "/v1/adapters":
            answer[0]["native_endpoints"] = "on"
        return answer
    bridge.overlay = allowed
    browser.wait("no connection", lambda: "VM-01 has no connection to a native endpoint" in browser.text("main"))
    qp = {"adapter": "VM-01", "qpn": 17, "type": "RC", "state": "RTS", "local_gid": "fe80::1", "remote_gid": "fd00::9", "remote_qpn": 4, "peer_host": "", "path": "roce",
          "path_reason": "fd00::9 is a native endpoint", "tx_messages": 8, "tx_bytes": 9, "rx_messages": 7, "rx_bytes": 9, "retransmits": 2}
    bridge.overlay = lambda path, answer: [qp] if path == "/v1/qps?adapter=VM-01&path=roce" else allowed(path, answer)
    [row] = browser.wait("the connection", lambda: browser.grid("Connections of VM-01"))
    assert (row["QPN"], row["State"], row["Remote GID"], row["Sent"], row["Retransmits"]) == ("17", "RTS", "fd00::9", "8", "2")


_RATES = ["Sent throughput", "Received throughput", "Sent messages/s", "Received messages/s", "Retransmits/s"]


def sparklines(browser: Browser) -> dict[str, tuple[str, int]]:
    """By its label: the text of each sparkline, and how many points it has."""
    told = browser.run("""return [...document.querySelectorAll('main svg.sparkline[role=img]')].map((each) => [each.getAttribute('aria-label'),
        [...each.querySelectorAll('polyline')].flatMap((line) => line.getAttribute('points').split(' ')).length])""")
    return {text.split(" in the last 5 minutes: ")[0]: (text, points) for text, points in told}


def number(text: str) -> float:
    """The number that a text begins with; 0 without one."""
    found = re.match(r"[\d,.]+", text)
    return float(found[0].replace(",", "")) if found else 0.0


def expect_rates(browser: Browser, retransmits: bool) -> None:
    """Waits for rates above 0, sparklines with texts, and counters that grow."""
    def shown() -> bool:
        facts, lines = browser.facts(), sparklines(browser)
        return all(number(facts.get(name, "")) > 0 and lines[name][1] >= 3 for name in _RATES[:4])
    browser.wait("the rates", shown)
    facts, lines = browser.facts(), sparklines(browser)
    assert list(lines) == _RATES
    for name in _RATES[:2]:
        assert re.search(r"least [\d.]+ [kMG]bit/s, most [\d.]+ [kMG]bit/s, now [\d.]+ [kMG]bit/s$", lines[name][0]), lines[name]
    for name in _RATES[2:4]:
        assert re.search(r"least [\d,.]+, most [\d,.]+, now [\d,.]+$", lines[name][0]), lines[name]
    assert facts["Retransmits/s"].startswith("0" if retransmits else "--"), facts
    browser.wait("the growth of a counter", lambda: any(row["Name"] == "tx_messages" and number(row["Value"]) > 0 and number(row["Per second"]) > 0
                                                        for row in browser.grid("Counters")))


def test_rates_of_an_adapter(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    with guided.checker("VM-01", "VM-02") as checker:
        checker.advance(20)
        browser.open(bridge.page, "#/vms/VM-01/monitor")
        expect_rates(browser, retransmits=False)  # what is polled has none
        browser.go("#/connections/VM-01")
        browser.wait("messages of a QP", lambda: any(number(row["Messages/s"]) > 0 for row in browser.grid("Connections")))
        bridge.watches = True
        browser.open(bridge.page, "#/vms/VM-01/monitor")
        expect_rates(browser, retransmits=True)
        browser.go("#/vms/VM-02/monitor")
        expect_rates(browser, retransmits=True)  # the counters of the other host's daemon have them
    assert browser.violations() == []
