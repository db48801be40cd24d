"""Two stock guests with ib_write_bw between them, in front of the page: path, reason and rate, a pulled cable, a store that is
away, and Migrate."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from conftest import LOGS, bridge_to
from fleet.certificates import Authority
from fleet.fleet import Fleet
from fleet.loads import Loads, under_way
from fleet.until import until
from harness import programs
from web.bridge import Bridge
from web.browser import Browser

pytestmark = pytest.mark.full  # guests without KVM need minutes

_LOAD = programs.perftest_load("ib_write_bw", "--run_infinitely -D 2 -s 65536 -u 21")  # -u 21: waits 8.6 s for an answer, seven times

_TOLD_S = 2.0  # after which a pulled cable is on the page


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with certificates, set up by the guide, with VM-01 on esx-01 and VM-02 on esx-02."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    with Fleet(LOGS / "guests", certificates={host: authority.issue(host) for host in ("esx-01", "esx-02")}, lease_s=30) as fleet:
        fleet.follow_the_guide()
        fleet.boot("VM-01", "VM-02")
        yield fleet


@pytest.fixture
def watched(guests: Fleet, browser: Browser) -> Iterator[Bridge]:
    """A port that leads to the API of esx-01, with the stream of changes."""
    with bridge_to(guests[1], browser) as bridge:
        bridge.watches = True
        yield bridge


@pytest.fixture(scope="module")
def load(guests: Fleet) -> Iterator[Loads]:
    """ib_write_bw from VM-01 to VM-02, all the time."""
    with under_way({"ib_write_bw": (_LOAD, guests.vms["VM-02"], guests.vms["VM-01"])}) as loads:
        yield loads


def _flows(browser: Browser, path: str) -> dict[str, str]:
    """The connection that carries the load, once the page shows it with a rate."""
    def busy() -> list[dict[str, str]]:
        return [row for row in browser.grid("Connections") if row["Path"] == path and row["Throughput"] not in ("--", "0.0 Mbit/s")]
    return browser.wait(f"a connection by {path} with a rate", busy)[0]


def test_path_reason_and_rate(browser: Browser, guests: Fleet, watched: Bridge, load: Loads) -> None:
    browser.open(watched.page, "#/connections/VM-01")
    row = _flows(browser, "TCP")
    [told] = [path for path in guests[1].ctl("path", "list") if str(path["qpn"]) == row["QPN"]]
    assert (row["Reason"], row["Peer Host"], row["Remote GID"]) == (told["reason"], told["peer_host"], told["remote_gid"])
    browser.go("#/vms/VM-01/summary")
    browser.wait("the adapter's rate", lambda: browser.facts().get("Throughput", "0.0 Mbit/s") not in ("--", "0.0 Mbit/s"))
    facts = browser.facts()
    assert (facts["Adapter"], facts["Guest"]) == ("active", guests[1].ctl("adapter", "get", "VM-01")["guest_os"])
    assert not load["ib_write_bw"].done()


@pytest.mark.parametrize("host", ["esx-01", "esx-02"])
def test_a_pulled_cable_is_told(browser: Browser, guests: Fleet, watched: Bridge, load: Loads, host: str) -> None:
    browser.open(watched.page, "#/connections")
    browser.wait("the path", lambda: [row["Path"] for row in browser.grid("Paths and reasons")] == ["TCP"])
    before = browser.grid("Paths and reasons")[0]["Reason"]
    start_s = time.monotonic()
    guests.network.cut(host)
    try:
        row = browser.wait("another reason", lambda: [row for row in browser.grid("Paths and reasons") if row["Reason"] != before])[0]
        assert time.monotonic() - start_s < _TOLD_S
        assert row["Reason"] == f"{before}, nothing is heard from it now"
        browser.wait("the end of the lanes", lambda: browser.grid("Paths and reasons")[0]["Reason"] == f"{before}, not connected now")
        assert {path["reason"] for path in guests[1].ctl("path", "list")} == {f"{before}, not connected now"}
    finally:
        guests.network.mend(host)
    browser.go("#/connections/VM-01")
    _flows(browser, "TCP")
    assert not load["ib_write_bw"].done()


def test_a_store_that_is_stopped(browser: Browser, guests: Fleet, watched: Bridge, load: Loads) -> None:
    browser.open(watched.page, "#/networking")
    assert browser.button("New Distributed Switch").is_enabled()
    guests.etcd.kill()
    try:
        browser.wait("the bar", lambda: "The store is away: " in browser.text("main .alert-danger"))
        assert guests[1].ctl("cluster", "get")["store"]["trouble"] in browser.text("main .alert-danger")
        assert not browser.button("New Distributed Switch").is_enabled()
        browser.go("#/connections/VM-01")
        _flows(browser, "TCP")
    finally:
        guests.etcd.start()
    browser.go("#/networking")
    browser.wait("edits are possible", lambda: browser.button("New Distributed Switch").is_enabled())
    assert browser.text("main .alert-danger") == ""


def test_migrate(browser: Browser, guests: Fleet, watched: Bridge, load: Loads) -> None:
    """VM-01 comes to the host of its peer, with its connection: by TCP before, by memory copy afterwards."""
    browser.open(watched.page, "#/connections/VM-01")
    qpn = _flows(browser, "TCP")["QPN"]
    browser.go("#/vms/VM-01")
    browser.click("Migrate")
    browser.type("max_pause_ms", "5000")
    browser.click("Check", "dialog")
    browser.wait("the check", lambda: browser.text("dialog [role=status]") == "Compatibility checks succeeded.")
    browser.ok("Migrate")
    socket = guests[2].folder / "VM-01.sock"
    until("its adapter is served there", socket.exists)
    guests.vms["VM-01"].start_arriving(socket)
    browser.wait("progress", lambda: browser.facts().get("Memory", ""), 60)
    [row] = browser.wait("the end", lambda: [row for row in browser.grid("Motions") if row["State"] != "runs"], 120)
    assert (row["VM"], row["From"], row["To"], row["State"], row["Progress"]) == ("VM-01", "esx-01", "esx-02", "done", "100 %")
    guests.vms["VM-01"].follow_successor()
    [told] = guests[1].ctl("motion", "list")
    assert row["Pause"] == f"{told['pause_us'] / 1000:.1f} ms"
    browser.go("#/vms/VM-01")
    browser.wait("its host", lambda: browser.facts().get("Host") == "esx-02")
    browser.go("#/hosts/esx-02/monitor/connections/VM-01")
    row = _flows(browser, "memory copy")
    assert (row["QPN"], row["Peer Host"]) == (qpn, "--")
    assert not load["ib_write_bw"].done()
