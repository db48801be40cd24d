"""The daemon is restarted, or dies, while VMs use their adapters. systemd keeps what the next process needs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import make_fleet
from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.loads import under_way, wait_until_they_flow
from fleet.service import Service
from fleet.until import until
from harness import cases, programs
from harness.rdma import wait_active

_PINGPONG = programs.pingpong("rc", "-c -e -n 300")
_NAMES = ("VM-01", "VM-02", "VM-03", "VM-04")


@pytest.fixture(scope="module", params=["plain", pytest.param("tls", marks=pytest.mark.full)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, list[Service]]]:
    """Two hosts whose daemons are services, and four VMs that are on: VM-02 on esx-02, the others on esx-01."""
    with make_fleet(f"restart-{request.param}", tmp_path_factory.mktemp("restart"), tls=request.param == "tls") as fleet:
        fleet.follow_the_guide()
        for name in ("VM-03", "VM-04"):
            fleet.define_vm(name, 1)
        services = [host.become_service() for host in fleet.hosts.values()]
        fleet.boot(*_NAMES)
        yield fleet, services


def _bytes_moved(fleet: Fleet) -> dict[str, int]:
    return {each["name"]: int(each["tx_bytes"]) + int(each["rx_bytes"]) for each in fleet[1].ctl("adapter", "list")}


def _restart(fleet: Fleet, service: Service) -> None:
    """Returns when the adapters of esx-01 are back. Those of the cluster come a moment after systemd has its
    answer."""
    service.call("restart")
    until("the adapters are back", lambda: {each["name"]: each["state"] for each in fleet[1].ctl("adapter", "list")},
          accept=lambda seen: seen == dict.fromkeys(("VM-01", "VM-03", "VM-04"), "active"))


def _connections_work(fleet: Fleet) -> None:
    one, two, three, four = (fleet.vms[name] for name in _NAMES)
    cases.run(_PINGPONG, two, one)
    cases.run(_PINGPONG, three, one)
    cases.run(_PINGPONG, three, four)


def test_restart_goes_unnoticed(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    one, two, three, four = (fleet.vms[name] for name in _NAMES)
    with under_way({"VM-01": (programs.exactly_once_load(""), two, one), "VM-03": (programs.rping_load(), four, three)}) as loads:
        for service in (services[0], services[1], services[0], services[0]):
            wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
            _restart(fleet, service)
        wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
    _connections_work(fleet)


def test_a_slow_restart_goes_unnoticed(served: tuple[Fleet, list[Service]]) -> None:
    """VM-01's QP gives up after 8 time limits of 0.27 s, unless it knows that the daemon comes back."""
    fleet, services = served
    with under_way({"VM-01": (programs.exactly_once_load(""), fleet.vms["VM-02"], fleet.vms["VM-01"])}) as loads:
        wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
        with services[1].slow_start(2.5):
            _restart(fleet, services[1])
        wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
    _connections_work(fleet)


def test_another_number_of_shards_goes_unnoticed(served: tuple[Fleet, list[Service]]) -> None:
    """VM-03 comes to the second shard, and VM-04 to the third and to the first. Their peers ask the new shard for what they
    miss."""
    fleet, services = served
    one, two, three, four = (fleet.vms[name] for name in _NAMES)
    config = fleet[1].config.read_text(encoding="utf-8")
    loads_of = {"VM-01": (programs.exactly_once_load(""), one, two), "VM-03": (programs.exactly_once_load(""), two, three),
                "VM-04": (programs.rping_load(), four, one)}
    try:
        with under_way(loads_of) as loads:
            for shards in ([["VM-01"], ["VM-03"], ["VM-04"]], [["VM-01", "VM-04"], ["VM-03"]], [["VM-01", "VM-03", "VM-04"]]):
                wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
                fleet[1].config.write_text(config.replace(f"shards = {fleet.shards}", f"shards = {len(shards)}"), encoding="utf-8")
                _restart(fleet, services[0])
                assert [each["adapters"] for each in fleet[1].ctl("system", "shard", "list")["shards"]] == [*shards, []]
            wait_until_they_flow(loads, lambda: _bytes_moved(fleet))
    finally:
        fleet[1].config.write_text(config, encoding="utf-8")
        _restart(fleet, services[0])
    _connections_work(fleet)


@pytest.mark.full
def test_a_native_endpoint_does_not_notice(own_fleet: Fleet) -> None:
    own_fleet.follow_the_guide()
    own_fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--native-endpoints", "on")
    own_fleet.link_roce(1, "VM-01")
    service = own_fleet[1].become_service()
    guest, native = *own_fleet.boot("VM-01"), own_fleet.boot_native()
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(cases.run, programs.perftest("ib_write_bw", "-u 18 -D 40", (65536,), gid_index=1), guest, native)
        for _ in range(5):
            before = _bytes_moved(own_fleet)["VM-01"]
            until("it flows", lambda: _bytes_moved(own_fleet)["VM-01"], accept=lambda now, last=before: now > last + 2**20)
            assert {path["path"] for path in own_fleet[1].ctl("path", "list")} == {"roce"}
            service.call("restart")
        assert not load.done(), "the load was too short for this machine"
        load.result()
    cases.run(programs.pingpong("rc", "-c -n 300 -s 32768 -m 1024", gid_index=1), guest, native)


def test_a_link_that_is_down_stays_down(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    fleet[1].ctl_text("adapter", "set", "VM-03", "--link", "down")
    _restart(fleet, services[0])
    assert not fleet[1].ctl("adapter", "get", "VM-03")["link_up"]
    fleet[1].ctl_text("adapter", "set", "VM-03", "--link", "up")
    wait_active(fleet.vms["VM-03"])
    _connections_work(fleet)


def test_guests_go_on_with_what_they_were_told(served: tuple[Fleet, list[Service]]) -> None:
    """A changed configuration applies from the VMs' next power-on."""
    fleet, services = served
    config = fleet[1].config.read_text(encoding="utf-8")
    fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9000")
    fleet[1].config.write_text(config + "\n[budgets]\nqps = 300\n", encoding="utf-8")
    try:
        _restart(fleet, services[0])
        assert [each["mtu"] for each in fleet[1].ctl("adapter", "list")] == [1024] * 3
        _connections_work(fleet)
    finally:
        fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "1500")
        fleet[1].config.write_text(config, encoding="utf-8")
    _restart(fleet, services[0])
    _connections_work(fleet)


def test_a_mistake_costs_no_adapter(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    config = fleet[1].config.read_text(encoding="utf-8")
    fleet[1].config.write_text(config + "\nnonsense = true\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="nonsense"):
        services[0].call("restart")
    fleet[1].config.write_text(config, encoding="utf-8")
    until("it is tried again", lambda: services[0].show("ActiveState"), accept=lambda state: state == "active")
    _connections_work(fleet)


def test_killed(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    on_host = [fleet.vms[name] for name in ("VM-01", "VM-03", "VM-04")]
    watches = [vm.start_job(f"timeout 60 ibv_asyncwatch {vm.rdma_device}") for vm in on_host]
    for watch in watches:
        until("it watches", watch.output_so_far, accept=lambda text: "async event FD" in text)
    before = services[0].show("NRestarts")
    services[0].kill()
    until("it was started again", lambda: (services[0].show("NRestarts"), services[0].show("ActiveState")),
          accept=lambda seen: seen[0] != before and seen[1] == "active")
    for vm, watch in zip(on_host, watches):
        until("the guest hears of it", watch.output_so_far, accept=lambda text: "FATAL" in text.upper())
        watch.kill()
        vm.check("rmmod vmw_pvrdma && modprobe vmw_pvrdma")
        wait_active(vm)
    _connections_work(fleet)
    _restart(fleet, services[0])
    _connections_work(fleet)


def test_stopped_for_good(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    services[0].call("stop")
    services[0].call("start")
    until("the adapters wait for VMs", lambda: [each["state"] for each in fleet[1].ctl("adapter", "list")],
          accept=lambda states: states == ["off"] * 3)
    for name in ("VM-01", "VM-03", "VM-04"):
        fleet.vms[name].close()
    fleet.boot("VM-01")
    cases.run(_PINGPONG, fleet.vms["VM-02"], fleet.vms["VM-01"])
