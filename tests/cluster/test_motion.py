"""vMotion: VMs go from host to host while they run, with their connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleet.fleet import Fleet
from fleet.loads import expect_none_ended, messages_of, wait_until_they_flow
from fleet.until import until
from harness import cases, programs
from harness.qmp import tell

_BETWEEN_HOSTS = programs.exactly_once("-n 40000 -t 20")
_ON_ONE_HOST = programs.rping(3000, arguments="-V -S 4000")


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


def quiet_rping(count: int, port: int) -> cases.Case:
    """rping that compares what comes, and prints nothing of it."""
    arguments = f"-C {count} -V -S 4000 -p {port}"
    return cases.Case("rping", server=f"rping -s -a {{server}} {arguments}", client=f"rping -c -a {{server}} {arguments}",
                      port=None, guard_s=400)


def test_connections_go_along(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with ThreadPoolExecutor(2) as pool:
        loads = {"tcp": pool.submit(cases.run, _BETWEEN_HOSTS, one, two), "local": pool.submit(cases.run, _ON_ONE_HOST, one, three)}
        seen = []
        for origin, destination in ((1, 2), (2, 1)):
            wait_until_they_flow(loads, messages_of(vm_fleet, origin, "VM-01"))
            expect_none_ended(loads)
            seen.append(vm_fleet.paths()["VM-01"])
            motion = migrate(vm_fleet, "VM-01", origin, destination)
            print(motion)
            assert motion["state"] == "done", motion
        for load in loads.values():
            load.result()
    assert seen == [{"local", "tcp"}] * 2, seen
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)


def test_a_paused_vm_stays_paused(vm_fleet: Fleet) -> None:
    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    for origin, destination in ((1, 2), (2, 1)):
        tell(one.monitor, "stop")
        motion = migrate(vm_fleet, "VM-01", origin, destination)
        assert motion["state"] == "done", motion
        assert one.run_states() == ["paused"]
        tell(one.monitor, "cont")
        cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)
