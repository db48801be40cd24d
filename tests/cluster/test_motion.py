"""vMotion: VMs move from host to host while they run, with their connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from fleet.fleet import Fleet
from fleet.host import Host
from fleet.loads import messages_of, under_way, wait_until_they_flow
from fleet.until import until
from harness import cases, programs

_CALL_S = 5.5  # longer than any of the daemon's calls to the store
SLOW = "40mbit"  # with this rate 512 MiB take long enough to interfere


def migrate(fleet: Fleet, name: str, origin: int, destination: int, *options: str) -> dict[str, Any]:
    """Moves the VM and returns the report of `pvrdmactl vm migrate`."""
    with ThreadPoolExecutor(1) as pool:
        motion: dict[str, Any] = begin(pool, fleet, name, origin, destination, "--max-pause", "5000", *options).result()
    fleet.vms[name].follow_successor()
    return motion


def begin(pool: ThreadPoolExecutor, fleet: Fleet, name: str, origin: int, destination: int, *options: str,
          call: Callable[..., Any] | None = None) -> Future[Any]:
    """A running motion, with a waiting QEMU at the destination. Its result is that of `call` (default: the host's
    ctl)."""
    socket = fleet[destination].folder / f"{name}.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    moving = pool.submit(call or fleet[origin].ctl, "vm", "migrate", name, "--to", fleet[destination].name, *options)
    until("its adapter is served there", lambda: socket.exists() or moving.done())
    if not moving.done():
        fleet.vms[name].start_arriving(socket)
    return moving


def phase_of(fleet: Fleet, origin: int) -> str:
    """The phase of VM-01's motion from that host; its state when it is over."""
    for motion in fleet[origin].ctl("motion", "list"):
        if motion["vm"] == "VM-01":
            return str(motion["phase"] if motion["state"] == "runs" else motion["state"])
    return "not begun"


def quiet_rping(count: int, port: int) -> cases.Case:
    """rping that compares the received data but does not print it."""
    arguments = f"-C {count} -V -S 4000 -p {port}"
    return cases.Case("rping", server=f"rping -s -a {{server}} {arguments}", client=f"rping -c -a {{server}} {arguments}",
                      port=None, guard_s=400)


@pytest.mark.tls
def test_connections_go_along(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with under_way({"tcp": (programs.exactly_once_load(), one, two), "local": (programs.rping_load(), one, three)}) as loads:
        seen = []
        for origin, destination in ((1, 2), (2, 1)):
            wait_until_they_flow(loads, messages_of(vm_fleet, origin, "VM-01"))
            seen.append(vm_fleet.paths()["VM-01"])
            motion = migrate(vm_fleet, "VM-01", origin, destination)
            print(motion)
            assert motion["state"] == "done", motion
        wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))
    assert seen == [{"local", "tcp"}] * 2, seen
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)


def test_a_paused_vm_stays_paused(vm_fleet: Fleet) -> None:
    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    for origin, destination in ((1, 2), (2, 1)):
        assert one.tell_qemu("stop") == "paused"
        motion = migrate(vm_fleet, "VM-01", origin, destination)
        assert motion["state"] == "done", motion
        assert one.run_states() == ["paused"]
        one.tell_qemu("cont")
        cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)


@pytest.mark.parametrize("command, state", [("stop", "paused"), ("cont", "running")])
def test_what_its_operator_does_while_memory_goes_over_counts(vm_fleet: Fleet, command: str, state: str) -> None:
    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    if state == "running":
        one.tell_qemu("stop")
    with ThreadPoolExecutor(1) as pool:
        with vm_fleet.network.narrowed("esx-02", SLOW):
            moving = begin(pool, vm_fleet, "VM-01", 1, 2, "--max-pause", "5000")
            until("memory goes over", lambda: phase_of(vm_fleet, 1), accept=lambda seen: seen == "memory")
            assert one.tell_qemu(command) == state
            assert phase_of(vm_fleet, 1) == "memory", "it was through already"
        assert moving.result()["state"] == "done"
    one.follow_successor()
    assert one.run_states() == [state]
    one.tell_qemu("cont")
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)
    assert migrate(vm_fleet, "VM-01", 2, 1)["state"] == "done"


def test_a_vm_that_is_reset_while_memory_goes_over(vm_fleet: Fleet) -> None:
    """Its PCI state has changed when QEMU there loads its devices, so it is restored once more after that."""
    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    boots = one.boots
    with ThreadPoolExecutor(1) as pool:
        with vm_fleet.network.narrowed("esx-02", SLOW):
            moving = begin(pool, vm_fleet, "VM-01", 1, 2, "--max-pause", "5000")
            until("memory goes over", lambda: phase_of(vm_fleet, 1), accept=lambda seen: seen == "memory")
            assert one.tell_qemu("system_reset") == "running"
            assert phase_of(vm_fleet, 1) == "memory", "it was through already"
        assert moving.result()["state"] == "done"
    one.follow_successor()
    one.wait_ready(boots + 1)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)
    assert migrate(vm_fleet, "VM-01", 2, 1)["state"] == "done"


def test_a_vm_that_somebody_lets_run_before_it_is_there_stays(vm_fleet: Fleet) -> None:
    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    with ThreadPoolExecutor(1) as pool:
        with vm_fleet.network.narrowed("esx-02", SLOW):
            ended = begin(pool, vm_fleet, "VM-01", 1, 2, "--max-pause", "5000", call=vm_fleet[1].refusal)
            until("memory goes over", lambda: phase_of(vm_fleet, 1), accept=lambda seen: seen == "memory")
            vm_fleet.network.hide_store("esx-01", True)
            # Then each attempt to commit fails at once and is followed by a look.
            until("the store is away", lambda: not vm_fleet[1].ctl("cluster", "get")["store"]["connected"])
        try:
            until("the commit waits", lambda: phase_of(vm_fleet, 1), accept=lambda seen: seen == "commit")
            assert one.tell_qemu("cont") == "running"
        finally:
            vm_fleet.network.hide_store("esx-01", False)
        sentence = ended.result()
    assert "somebody else has changed VM VM-01" in sentence and "VM VM-01 stays on host esx-01" in sentence, sentence
    one.forget_arrival()
    assert one.run_states() == ["running"]
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)
    _wait_settled(vm_fleet[1])


def _wait_settled(host: Host) -> None:
    """An earlier call to the store may still time out, and then the store counts as unreachable for a moment
    again."""
    since = time.monotonic()

    def is_settled() -> bool:
        nonlocal since
        if not host.ctl("cluster", "get")["store"]["connected"]:
            since = time.monotonic()
        return time.monotonic() - since > _CALL_S
    until("the store has settled", is_settled)
