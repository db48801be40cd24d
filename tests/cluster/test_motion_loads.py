"""vMotion under load, with peers on the VM's source, on its destination and on a third host."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from conftest import PEERS
from fleet.fleet import Fleet
from fleet.until import until
from harness import cases, programs
from test_motion import migrate, quiet_rping

_LOAD_S = 100
_ROUNDS = 10  # there and back
_PARTS = ("pause", "freeze", "pages", "state", "memory", "commit", "go_on")  # the pause and its parts

_LOADS: dict[str, Callable[[int], cases.Case]] = {
    "rping": lambda port: quiet_rping(20000, port),
    "write_bw": lambda port: programs.perftest("ib_write_bw", f"-D {_LOAD_S}", (65536,), port=port),
    "read_bw": lambda port: programs.perftest("ib_read_bw", f"-D {_LOAD_S}", (65536,), port=port),
    "send_lat": lambda port: programs.perftest("ib_send_lat", "-e -n 50000", (2,), port=port),
    "atomic_bw": lambda port: programs.perftest("ib_atomic_bw", f"-D {_LOAD_S}", (8,), port=port),
}


@pytest.mark.full
@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("load", _LOADS)
def test_loads_go_along(three_hosts: Fleet, load: str, role: str) -> None:
    """VM-01 moves there and back ten times."""
    _move_under(three_hosts, _LOADS[load], role)


@pytest.mark.full
def test_each_request_is_executed_once(three_hosts: Fleet) -> None:
    """The same with every kind of request, including atomics, checked at both ends. A VM runs only one server of
    it."""
    _move_under(three_hosts, lambda port: dataclasses.replace(programs.exactly_once("-n 80000 -t 20"), guard_s=400), "client")


def _open_files(fleet: Fleet) -> dict[str, int]:
    return {host.name: len(os.listdir(f"/proc/{host.pid}/fd")) for host in fleet.hosts.values()}


def _move_under(fleet: Fleet, load: Callable[[int], cases.Case], role: str) -> None:
    one = fleet.vms["VM-01"]
    motions: list[dict[str, Any]] = []
    files: dict[str, int] = {}
    with ThreadPoolExecutor(len(PEERS)) as pool:
        loads: list[Future[Any]] = []
        for port, name in enumerate(PEERS, 18515):
            peer = fleet.vms[name]
            loads.append(pool.submit(cases.run, load(port), *((one, peer) if role == "server" else (peer, one))))
            time.sleep(1)  # the rdma_cm listeners start one after the other
        try:
            for _ in range(_ROUNDS):
                for origin, destination in ((1, 2), (2, 1)):
                    time.sleep(0.5)
                    motions.append(migrate(fleet, "VM-01", origin, destination))
                files = files or _open_files(fleet)
            assert not any(each.done() for each in loads), "the load was too short for this machine"
            until("no descriptor is left of the motions", lambda: _open_files(fleet), accept=lambda now: now == files)
        finally:
            for each in loads:
                each.result()
    assert not any(motion["error"] for motion in motions), "nothing is left to be done by hand"
    print(f"{len(motions)} motions, median of each part, ms:", *(
        f"{part} {statistics.median(motion[f'{part}_us'] for motion in motions) / 1000:.2f}" for part in _PARTS))
    pauses = [motion["pause_us"] / 1000 for motion in motions]
    print(f"pauses, ms: least {min(pauses):.0f}, median {statistics.median(pauses):.0f}, most {max(pauses):.0f}")
