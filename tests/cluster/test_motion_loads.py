"""vMotion under load, with peers on the host that a VM leaves, on the one that it comes to, and on a third."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from conftest import make_fleet
from fleet.fleet import PORTGROUP, SWITCH, Fleet
from harness import cases, programs
from test_motion import migrate, quiet_rping

_LOAD_S = 75
_ROUNDS = 10  # there and back
_PEERS = {"VM-02": 2, "VM-03": 1, "VM-04": 3}  # and their hosts


@pytest.fixture(scope="module", params=["plain", "tls"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three hosts; VM-01 is on esx-01, and a peer on each. All are on."""
    tls = request.param == "tls"
    with make_fleet(f"motion-loads-{request.param}", tmp_path_factory.mktemp("motion"), tls, host_count=3) as made:
        made.follow_the_guide()
        made.join(3)
        made[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9000")
        for name in ("VM-03", "VM-04"):
            made.define_vm(name, _PEERS[name])
        made.boot("VM-01", *_PEERS)
        yield made


_LOADS: dict[str, Callable[[int], cases.Case]] = {
    "rping": lambda port: quiet_rping(12000, port),
    "write_bw": lambda port: programs.perftest("ib_write_bw", f"-D {_LOAD_S}", (65536,), port=port),
    "read_bw": lambda port: programs.perftest("ib_read_bw", f"-D {_LOAD_S}", (65536,), port=port),
    "send_lat": lambda port: programs.perftest("ib_send_lat", "-e -n 30000", (2,), port=port),
    "atomic_bw": lambda port: programs.perftest("ib_atomic_bw", f"-D {_LOAD_S}", (8,), port=port),
}


@pytest.mark.full
@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("load", _LOADS)
def test_loads_go_along(fleet: Fleet, load: str, role: str) -> None:
    """VM-01 goes there and back ten times."""
    _move_under(fleet, _LOADS[load], role)


@pytest.mark.full
def test_each_request_is_executed_once(fleet: Fleet) -> None:
    """Likewise, with every kind of request, atomics among them, checked at both ends. A VM has one server of it."""
    _move_under(fleet, lambda port: dataclasses.replace(programs.exactly_once("-n 80000 -t 20"), guard_s=400), "client")


def _move_under(fleet: Fleet, load: Callable[[int], cases.Case], role: str) -> None:
    one = fleet.vms["VM-01"]
    pauses: list[float] = []
    with ThreadPoolExecutor(len(_PEERS)) as pool:
        loads: list[Future[Any]] = []
        for port, name in enumerate(_PEERS, 18515):
            peer = fleet.vms[name]
            loads.append(pool.submit(cases.run, load(port), *((one, peer) if role == "server" else (peer, one))))
            time.sleep(1)  # one rdma_cm listener after the other
        try:
            while len(pauses) < 2 * _ROUNDS and not any(each.done() for each in loads):
                for origin, destination in ((1, 2), (2, 1)):
                    time.sleep(0.5)
                    pauses.append(migrate(fleet, "VM-01", origin, destination)["pause_us"] / 1000)
        finally:
            for each in loads:
                each.result()
    assert len(pauses) >= _ROUNDS, "the load was too short for this machine"
    print(f"pauses of {len(pauses)} motions, ms: least {min(pauses):.0f}, median {statistics.median(pauses):.0f}, most {max(pauses):.0f}")
