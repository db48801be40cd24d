"""vMotion: VMs go from host to host while they run, with their connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleet.fleet import Fleet
from fleet.until import until
from harness import cases, programs

_BETWEEN_HOSTS = programs.exactly_once("-n 40000 -t 20")
_ON_ONE_HOST = programs.rping(3000, arguments="-V -S 4000")
_FLOWING_MESSAGES = 200


def migrate(fleet: Fleet, name: str, origin: int, destination: int, *options: str) -> dict[str, Any]:
    """Moves the VM, and returns what `pvrdmactl vm migrate` tells of it."""
    vm = fleet.vms[name]
    socket = fleet[destination].folder / f"{name}.sock"
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
