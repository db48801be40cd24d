"""vMotion: VMs go from host to host while they run, with their connections."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleet.fleet import Fleet
from fleet.until import until
from harness import cases, programs

_BETWEEN_HOSTS = programs.exactly_once("-n 40000 -t 20")
_ON_ONE_HOST = programs.rping(3000, arguments="-V -S 4000")
_FLOWING_MESSAGES = 200
_LOAD_S = 75


def migrate(fleet: Fleet, name: str, origin: int, destination: int, *options: str) -> dict[str, Any]:
    """Moves the VM, and returns what `pvrdmactl vm migrate` tells of it."""
    vm = fleet.vms[name]
    socket = fleet[destination].folder / f"{name}.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(fleet[origin].ctl, "vm", "migrate", name, "--to", fleet[destination].name, "--max-pause", "5000", *options)
        until("its adapter is served there", lambda: socket.exists() or moving.done(), accept=bool)
        if not moving.done():
            vm.start_arriving(socket)
        motion: dict[str, Any] = moving.result()
    vm.follow_successor()
    return motion


def test_connections_go_along(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with ThreadPoolExecutor(2) as pool:
        loads = [pool.submit(cases.run, _BETWEEN_HOSTS, one, two), pool.submit(cases.run, _ON_ONE_HOST, one, three)]
        seen = []
        for origin, destination in ((1, 2), (2, 1)):
            _wait_for_messages(vm_fleet, origin, loads)
            seen.append(vm_fleet.paths()["VM-01"])
            motion = migrate(vm_fleet, "VM-01", origin, destination)
            print(motion)
            assert motion["state"] == "done", motion
        for load in loads:
            load.result()
    assert seen == [{"local", "tcp"}] * 2, seen
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)


def _wait_for_messages(fleet: Fleet, number: int, loads: list[Any]) -> None:
    """Until both of VM-01's connections have moved something more."""
    def counts() -> dict[str, int]:
        paths = fleet[number].ctl("adapter", "get", "VM-01")["paths"]
        return {kind: int(paths[kind]["messages"]) for kind in ("tcp", "local")}
    before = counts()
    until("both connections carry messages", lambda: (counts(), [load.done() for load in loads]),
          accept=lambda now: any(now[1]) or all(now[0][kind] > before[kind] + _FLOWING_MESSAGES for kind in before))
    assert not any(load.done() for load in loads), "the load was too short for this machine"


def _quiet_rping(count: int, port: int) -> cases.Case:
    """rping that compares what comes, and prints nothing of it."""
    arguments = f"-C {count} -V -S 4000 -p {port}"
    return cases.Case("rping", server=f"rping -s -a {{server}} {arguments}", client=f"rping -c -a {{server}} {arguments}",
                      port=None, guard_s=180)


_ROUNDS = 10  # there and back, of a full run


@pytest.mark.full
@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("load", [
    lambda port: _quiet_rping(20000, port),
    lambda port: programs.perftest("ib_write_bw", f"-D {_LOAD_S}", (65536,), port=port),
    lambda port: programs.perftest("ib_read_bw", f"-D {_LOAD_S}", (65536,), port=port),
    lambda port: programs.perftest("ib_send_lat", "-e -n 60000", (2,), port=port),
    lambda port: programs.perftest("ib_atomic_bw", f"-D {_LOAD_S}", (8,), port=port),
], ids=["rping", "write_bw", "read_bw", "send_lat", "atomic_bw"])
def test_loads_go_along(vm_fleet: Fleet, load: Callable[[int], cases.Case], role: str) -> None:
    """VM-01 goes there and back ten times, with a peer on either host."""
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    pauses = []
    with ThreadPoolExecutor(2) as pool:
        loads = []
        for index, peer in enumerate((two, three)):
            loads.append(pool.submit(cases.run, load(18515 + index), *((one, peer) if role == "server" else (peer, one))))
            time.sleep(1)  # one rdma_cm listener after the other
        try:
            while len(pauses) < 2 * _ROUNDS and not any(each.done() for each in loads):
                for origin, destination in ((1, 2), (2, 1)):
                    time.sleep(0.5)
                    pauses.append(migrate(vm_fleet, "VM-01", origin, destination)["pause_us"] / 1000)
        finally:
            for each in loads:
                each.result()
    assert len(pauses) >= _ROUNDS, "the load was too short for this machine"
    print(f"pauses of {len(pauses)} motions, ms: least {min(pauses):.0f}, median {statistics.median(pauses):.0f}, most {max(pauses):.0f}")
