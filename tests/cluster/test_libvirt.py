"""VMs that libvirt has started move to another host and into a file, led by pvrdmactl. libvirt sees domains that
begin and end."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fleet.fleet import Fleet
from fleet.libvirt import LibvirtVm
from fleet.loads import messages_of, under_way, wait_until_they_flow
from fleet.until import until
from harness import cases, programs
from harness.memory import differing_pages, memory_of

_PINGPONG = programs.pingpong("rc", "-c -e -n 300")
_LOAD = programs.exactly_once_load("-t 20 -z 200")


@pytest.fixture
def fleet(libvirt_fleet: Fleet) -> Fleet:
    """VM-01 and VM-03 are domains of esx-01's libvirt and are on, before and after each test."""
    return libvirt_fleet


def _domains(fleet: Fleet, number: int) -> set[str]:
    return LibvirtVm.libvirts[fleet[number].folder].domains()


def _let_libvirt_move(fleet: Fleet, name: str, origin: int, destination: int, *options: str) -> dict[str, Any]:
    vm = fleet.vms[name]
    assert isinstance(vm, LibvirtVm)
    socket = fleet[destination].folder / f"{name}.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    vm.expect_arrival(socket)
    uri = LibvirtVm.libvirts[fleet[destination].folder].uri
    vm.outlive_qemu()
    motion: dict[str, Any] = fleet[origin].ctl("vm", "migrate", name, "--to", fleet[destination].name, "--max-pause", "5000", "--libvirt", uri,
                                               "--migrateuri", "tcp:127.0.0.1", *options)
    vm.follow_domain()
    return motion


def test_libvirt_moves_a_domain_with_its_connections(fleet: Fleet) -> None:
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    with cases.under_way(_LOAD, one, three) as load:
        for origin, destination, path in ((1, 2, "local"), (2, 1, "tcp")):
            wait_until_they_flow({path: load}, messages_of(fleet, origin, "VM-01"))
            motion = _let_libvirt_move(fleet, "VM-01", origin, destination)
            print(motion)
            assert motion["state"] == "done" and not motion["error"], motion
            assert ("VM-01" in _domains(fleet, destination), "VM-01" in _domains(fleet, origin)) == (True, False)
        wait_until_they_flow({"local": load}, messages_of(fleet, 1, "VM-01"))
    cases.run(_PINGPONG, one, three)


@pytest.mark.full
def test_no_page_is_stale(fleet: Fleet) -> None:
    """virsh is stopped when both QEMUs have the VM and neither runs it. Their memory is then compared."""
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    origin, there = (LibvirtVm.libvirts[fleet[number].folder] for number in (1, 2))
    origin.note_virsh()
    origin.virsh("migrate-setspeed", "VM-01", "100")
    with under_way({"local": (programs.perftest_load("ib_atomic_bw"), one, three)}) as loads, ThreadPoolExecutor(1) as pool:
        wait_until_they_flow(loads, messages_of(fleet, 1, "VM-01"))
        moving = pool.submit(_let_libvirt_move, fleet, "VM-01", 1, 2)
        until("virsh migrates", origin.migrates)
        origin.stop_virsh_when_all_is_there(fleet[1])
        try:
            memories = (memory_of(libvirt.pid_of("VM-01"), one.spec.memory_mib) for libvirt in (origin, there))
            stale = differing_pages(*memories)
        finally:
            os.kill(origin.virsh_pid(), signal.SIGCONT)
        motion = moving.result()
        wait_until_they_flow({"tcp": loads["local"]}, messages_of(fleet, 2, "VM-01"))
    assert motion["page_bytes"] > 0, "the adapter wrote nothing, and nothing was tried"
    assert not stale, f"{len(stale)} of {motion['ram_bytes'] >> 12} pages: {stale[:20]}"
    _let_libvirt_move(fleet, "VM-01", 2, 1)


def test_a_domain_goes_into_a_file_and_on_from_it(fleet: Fleet, tmp_path: Path) -> None:
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    file = tmp_path / "VM-01.checkpoint"
    one.outlive_qemu()
    fleet[1].ctl("vm", "checkpoint", "VM-01", str(file))
    one.wait_ended()
    until("its domain has ended", lambda: "VM-01" not in _domains(fleet, 1))
    one.start_waiting()
    fleet[1].ctl("vm", "restore", "VM-01", str(file))
    assert _domains(fleet, 1) == {"VM-01", "VM-03"}
    cases.run(_PINGPONG, one, three)
