"""vMotion when something dies, breaks, or is misconfigured: the VM runs on one host, and the error says why it
stays."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from conftest import make_fleet
from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.host import Refused
from fleet.until import until
from harness import cases, programs
from harness.vm import Vm
from test_motion import SLOW, begin, migrate, phase_of

_STAYS = "VM VM-01 stays on host esx-01"
_PINGPONG = programs.pingpong("rc", "-c -e -n 300")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """VM-01 and VM-03 are on, both on esx-01, before each test and after each except the last."""
    with make_fleet("motion-faults", tmp_path_factory.mktemp("motion")) as made:
        made.follow_the_guide()
        made.define_vm("VM-03", 1)
        made.boot("VM-01", "VM-03")
        yield made


@contextmanager
def _moving(fleet: Fleet, *options: str, phase: str = "memory", qemu: bool = True) -> Iterator[Future[str]]:
    """A motion of VM-01 that has reached `phase`. Yields the sentence with which it ends."""
    vm = fleet.vms["VM-01"]
    socket = fleet[2].folder / "VM-01.sock"
    with fleet.network.narrowed("esx-02", SLOW), ThreadPoolExecutor(1) as pool:
        ended = pool.submit(fleet[1].refusal, "vm", "migrate", "VM-01", "--to", "esx-02", *options)
        until("its adapter is served there", socket.exists)
        if qemu:
            vm.start_arriving(socket)
        until("the motion is under way", lambda: phase_of(fleet, 1), accept=lambda seen: seen == phase)
        yield ended


def _answer(fleet: Fleet, *arguments: str) -> str:
    try:
        return fleet[1].ctl_text(*arguments)
    except Refused as refused:
        return str(refused)


def _expect_here(fleet: Fleet) -> None:
    """Checks that the VM is where it was, can be moved again, and has left nothing on the other host."""
    shown = until("the motion is over", lambda: fleet[1].ctl("vm", "get", "VM-01"), accept=lambda vm: vm["motion"] is None)
    assert (shown["host"], shown["power"]) == ("esx-01", "on")
    vm = fleet.vms["VM-01"]
    vm.forget_arrival()
    until("nothing waits there", lambda: not (fleet[2].folder / "VM-01.sock").exists())
    cases.run(_PINGPONG, vm, fleet.vms["VM-03"])


def _expect_stays(fleet: Fleet, ended: Future[str], *parts: str) -> None:
    sentence = ended.result()
    for part in (*parts, _STAYS):
        assert part in sentence, sentence
    _expect_here(fleet)


def test_a_motion_that_is_given_up_leaves_the_vm_where_it_is(fleet: Fleet) -> None:
    with _moving(fleet, "--patience", "10", phase="waits for QEMU", qemu=False) as ended:
        assert "on its way to host esx-02" in fleet[1].refusal("vm", "migrate", "VM-01", "--to", "esx-02")
        assert "on its way" in fleet[2].refusal("dvs", "remove-host", SWITCH, "esx-02")
    _expect_stays(fleet, ended, "no QEMU waits for VM VM-01", "qemu-args VM-01 --restore")
    for phase, qemu in (("waits for QEMU", False), ("memory", True)):
        with _moving(fleet, phase=phase, qemu=qemu) as ended:
            fleet[1].ctl("vm", "migrate", "VM-01", "--cancel")
        _expect_stays(fleet, ended, "cancelled")
    assert "not on its way" in fleet[1].refusal("vm", "migrate", "VM-01", "--cancel")


def test_a_pause_that_is_not_allowed_is_not_made(fleet: Fleet) -> None:
    with _moving(fleet, "--patience", "5", "--max-pause", "50") as ended:
        pass
    _expect_stays(fleet, ended, "too much for a pause of 50 ms", "--max-pause")
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    writes = programs.perftest_load("ib_write_bw", "--run_infinitely -D 2 -s 8388608 -t 4", port=18600)
    with cases.under_way(writes, one, three), ThreadPoolExecutor(1) as pool:  # they bypass QEMU, which sees an idle guest
        # Before its first message, perftest fills 16 MiB byte by byte, at both ends.
        until("much is written", lambda: fleet[1].ctl("adapter", "get", "VM-01")["rx_bytes"], 90, lambda seen: seen > 2**28)
        ended = begin(pool, fleet, "VM-01", 1, 2, "--max-pause", "1", call=fleet[1].refusal)
        _expect_stays(fleet, ended, "peers of VM VM-01 have written", "too much for a pause of 1 ms", "--max-pause")


def test_a_guest_that_was_told_something_else_does_not_even_stand(fleet: Fleet) -> None:
    """The guest continues with the MTU from its power-on. The adapter at the destination would have another one,
    so the VM is not even paused."""
    fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9000")
    try:
        with ThreadPoolExecutor(1) as pool:
            ended = begin(pool, fleet, "VM-01", 1, 2, call=fleet[1].refusal)
            ended.result()
        assert fleet[1].ctl("motion", "get", "VM-01")["ram_bytes"] == 0, "nothing of it was copied"
    finally:
        fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "1500")
    _expect_stays(fleet, ended, "cannot go on from this state", "mtu is")


def test_what_dies_on_the_other_host_leaves_the_vm_where_it_is(fleet: Fleet) -> None:
    with _moving(fleet) as ended:
        fleet.vms["VM-01"].kill_successor()
    _expect_stays(fleet, ended)
    with _moving(fleet) as ended:
        fleet.network.block("esx-02", True)
        try:
            ended.result()
        finally:
            fleet.network.block("esx-02", False)
    _expect_stays(fleet, ended)
    with _moving(fleet) as ended:
        fleet[2].kill()
    assert _STAYS in ended.result()
    (fleet[2].folder / "VM-01.sock").unlink()  # kill -9 of a daemon leaves it behind
    fleet[2].start()
    _expect_here(fleet)


def test_a_store_that_is_away_lets_the_vm_stand_and_then_go(fleet: Fleet) -> None:
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    with ThreadPoolExecutor(1) as pool:
        with fleet.network.narrowed("esx-02", SLOW):
            moving = begin(pool, fleet, "VM-01", 1, 2, "--max-pause", "5000")
            until("memory goes over", lambda: phase_of(fleet, 1), accept=lambda seen: seen == "memory")
            fleet.network.hide_store("esx-01", True)
        try:
            until("the commit waits", lambda: phase_of(fleet, 1), accept=lambda seen: seen == "commit")
        finally:
            fleet.network.hide_store("esx-01", False)
        assert moving.result()["state"] == "done"
    one.follow_successor()
    cases.run(_PINGPONG, one, three)
    assert migrate(fleet, "VM-01", 2, 1)["state"] == "done"


_MAY_MOVE = "The VM may move to that host. Nothing was moved.\n"


def test_what_a_motion_needs_is_said_before_anything_moves(fleet: Fleet) -> None:
    check = ("vm", "migrate", "VM-01", "--check", "--to")
    assert fleet[1].ctl_text(*check, "esx-02") == _MAY_MOVE
    assert "esx-09" in fleet[1].refusal(*check, "esx-09")
    assert "already" in fleet[1].refusal(*check, "esx-01")
    assert "VM VM-01 is on host esx-01: ask the pvrdmad there" in fleet[2].refusal(*check, "esx-02")
    assert "VM VM-02 is off" in fleet[2].refusal("vm", "migrate", "VM-02", "--to", "esx-01")
    fleet[2].ctl("network", "firewall", "ruleset", "set", "--ruleset-id", "pvrdma", "--enabled", "false")
    until("that is known", lambda: _answer(fleet, *check, "esx-02"), accept=lambda text: "ruleset pvrdma is disabled on esx-02" in text)
    fleet[2].ctl("network", "firewall", "ruleset", "set", "--ruleset-id", "pvrdma", "--enabled", "true")
    until("the path stands again", lambda: _answer(fleet, *check, "esx-02"), accept=lambda text: text == _MAY_MOVE)
    vm: Vm = fleet.vms["VM-01"]
    monitor = fleet[1].folder / "VM-01.vmm" / "qmp"
    monitor.rename(monitor.with_suffix(".away"))
    assert "monitor" in fleet[1].refusal(*check, "esx-02")
    monitor.with_suffix(".away").rename(monitor)
    cases.run(_PINGPONG, vm, fleet.vms["VM-03"])


def test_a_host_that_dies_while_memory_goes_over_takes_the_vm_along(fleet: Fleet) -> None:
    with _moving(fleet) as ended:
        fleet[1].kill()
        fleet.vms["VM-01"].wait_successor_ended()
    ended.cancel()
    shown = until("the motion is over", lambda: fleet[2].ctl("vm", "get", "VM-01"), accept=lambda vm: vm["motion"] is None)
    assert shown["host"] == "esx-01"
