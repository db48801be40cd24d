"""vMotion when one of its participants dies at any moment: the VM runs on one host at most, and no participant
waits for ever."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from conftest import make_fleet
from fleet.fleet import Fleet
from fleet.host import Host, Refused
from fleet.until import until
from harness import cases, programs
from harness.vm import Vm

_PINGPONG = programs.pingpong("rc", "-c -e -n 300")
_VICTIMS = ("source daemon", "destination daemon", "source QEMU", "destination QEMU", "link", "store", "way to the store")
_LATEST_S = 1.2  # a motion under emulation takes about 0.7 s, of which it waits 0.2 s for its QEMU
_OVER_S = 60.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """VM-01 and VM-03 are on esx-01 and VM-02 is on esx-02, all powered on."""
    with make_fleet("motion-kills", tmp_path_factory.mktemp("motion")) as made:
        made.follow_the_guide()
        made.define_vm("VM-03", 1)
        made.boot("VM-01", "VM-02", "VM-03")
        yield made


@contextmanager
def _watched(vm: Vm) -> Iterator[list[list[str]]]:
    """Polls the states of the VM's QEMUs. Yields those samples in which two run."""
    wrong: list[list[str]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            states = vm.run_states()
            if states.count("running") > 1:
                wrong.append(states)
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield wrong
    finally:
        over.set()
        watcher.join()


def _strike(fleet: Fleet, vm: Vm, victim: str) -> None:
    host = fleet[1 if victim.startswith("source") else 2]
    match victim:
        case "source daemon" | "destination daemon":
            host.kill()
        case "source QEMU":
            vm.kill()
        case "destination QEMU":
            vm.kill_successor()
        case "link":
            fleet.network.block("esx-02", True)
            time.sleep(8)
            fleet.network.block("esx-02", False)
        case "store":
            fleet.etcd.kill()
            time.sleep(2)
            fleet.etcd.start()
        case "way to the store":
            fleet.network.hide_store("esx-01", True)
            time.sleep(8)
            fleet.network.hide_store("esx-01", False)


def _move(fleet: Fleet) -> str:
    try:
        return fleet[1].ctl_text("vm", "migrate", "VM-01", "--to", "esx-02", "--max-pause", "2000")
    except (Refused, RuntimeError) as ended:
        return str(ended)


def _restore_order(fleet: Fleet, number: int) -> None:
    """Restores the initial state and boots VM-01, whatever has happened to it and to host `number`."""
    ended = ["VM-01"]
    if not fleet[number].running:
        ended.append("VM-03" if number == 1 else "VM-02")
    for name in ended:
        fleet.vms.pop(name).close()
    if not fleet[number].running:
        for name in ended:  # kill -9 of a daemon leaves them behind
            (fleet[number].folder / f"{name}.sock").unlink(missing_ok=True)
        fleet[number].start()
    until("the VM is off", lambda: fleet[1].ctl("vm", "get", "VM-01"), _OVER_S,
          accept=lambda shown: shown["power"] == "off" and shown["motion"] is None)
    fleet[1].ctl("vm", "set", "VM-01", "--host", "esx-01")
    for name in ended:
        fleet.socket_of(name)
    fleet.boot(*ended)


def _expect_alive(witness: Host, vm: Vm, host: str, peer: Vm) -> None:
    until("it runs", vm.run_states, accept=lambda states: states == ["running"])
    until("its power is known", lambda: witness.ctl("vm", "get", "VM-01"), accept=lambda shown: (shown["host"], shown["power"]) == (host, "on"))
    cases.run(_PINGPONG, vm, peer)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("victim", _VICTIMS)
def test_what_dies_at_any_moment(fleet: Fleet, victim: str, seed: int) -> None:
    vm = fleet.vms["VM-01"]
    moment = random.Random(f"{victim} {seed}").uniform(0, _LATEST_S)
    try:
        _strike_while_it_moves(fleet, vm, victim, moment)
    finally:
        _restore_order(fleet, 1 if victim.startswith("source") else 2)


def _strike_while_it_moves(fleet: Fleet, vm: Vm, victim: str, moment: float) -> None:
    socket = fleet[2].folder / "VM-01.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    with _watched(vm) as wrong, ThreadPoolExecutor(1) as pool:
        moving = pool.submit(_move, fleet)
        until("its adapter is served there", socket.exists)
        vm.start_arriving(socket)
        time.sleep(moment)
        _strike(fleet, vm, victim)
        said = moving.result()
        alive = fleet[2 if victim == "source daemon" else 1]
        shown = until("the motion is over", lambda: alive.ctl("vm", "get", "VM-01"), _OVER_S, accept=lambda seen: seen["motion"] is None)
        vm.settle(shown["host"] == "esx-02")
        print(f"{victim} at {moment:.2f} s: on {shown['host']}: {said}")
        host = "esx-01" if victim.startswith("source") else "esx-02"
        if not victim.startswith(("source", "destination")) or shown["host"] != host:
            _expect_alive(alive, vm, shown["host"], fleet.vms["VM-02" if victim.startswith("source") else "VM-03"])
    assert not wrong, wrong
