"""libvirt moves a domain, and something goes wrong. The VM runs on one host. As long as libvirt has not ended its
QEMU there, it keeps its connections."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fleet.fleet import Fleet
from fleet.libvirt import Libvirt, LibvirtVm
from fleet.loads import messages_of, under_way, wait_until_they_flow
from fleet.until import until
from harness import cases, programs, rdma

_STAYS = "VM VM-01 stays on host esx-01"
_PINGPONG = programs.pingpong("rc", "-c -e -n 300")
_LOAD = programs.exactly_once_load("-t 20 -z 200")
_SLOW_MIB_S = "8"  # so slow that 512 MiB are not sent before the fault


@pytest.fixture
def fleet(libvirt_fleet: Fleet) -> Fleet:
    """VM-01 and VM-03 are domains of esx-01's libvirt and are on, before and after each test."""
    return libvirt_fleet


def _libvirt(fleet: Fleet, number: int) -> Libvirt:
    return LibvirtVm.libvirts[fleet[number].folder]


def _phase(fleet: Fleet) -> str:
    motion = fleet[1].ctl("motion", "get", "VM-01")
    return str(motion["phase"]) if motion["state"] == "runs" else str(motion["state"])


@contextmanager
def _moving(fleet: Fleet, *options: str, phase: str = "memory", slow: bool = True) -> Iterator[Future[str]]:
    """A motion of VM-01 that has reached `phase` and fails. Yields the sentence with which pvrdmactl ends."""
    one = fleet.vms["VM-01"]
    assert isinstance(one, LibvirtVm)
    socket = fleet[2].folder / "VM-01.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    one.expect_arrival(socket)
    one.outlive_qemu()
    _libvirt(fleet, 1).virsh("migrate-setspeed", "VM-01", _SLOW_MIB_S if slow else "1000")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(fleet[1].refusal, "vm", "migrate", "VM-01", "--to", "esx-02", "--max-pause", "5000", "--libvirt", _libvirt(fleet, 2).uri,
                            "--migrateuri", "tcp:127.0.0.1", *options)
        until("its adapter is served there", lambda: ended.done() or socket.exists(), accept=bool)
        until("the motion is under way", lambda: ended.done() or _phase(fleet) == phase, accept=bool)
        yield ended


def _expect_here(fleet: Fleet) -> None:
    """Checks that the VM is where it was, can be moved again, and has left nothing on the other host."""
    shown = until("the motion is over", lambda: fleet[1].ctl("vm", "get", "VM-01"), accept=lambda vm: vm["motion"] is None)
    assert (shown["host"], shown["power"]) == ("esx-01", "on")
    until("libvirt has it here alone", lambda: ("VM-01" in _libvirt(fleet, 1).domains(), "VM-01" in _libvirt(fleet, 2).domains()),
          accept=lambda seen: seen == (True, False))
    until("nothing waits there", lambda: not (fleet[2].folder / "VM-01.sock").exists())
    vm = fleet.vms["VM-01"]
    vm.forget_arrival()
    cases.run(_PINGPONG, vm, fleet.vms["VM-03"])


def _cancel(fleet: Fleet) -> None:
    fleet[1].ctl("vm", "migrate", "VM-01", "--cancel")


def _abort_job(fleet: Fleet) -> None:
    _libvirt(fleet, 1).virsh("domjobabort", "VM-01")


def _kill_virsh(fleet: Fleet) -> None:
    os.kill(_libvirt(fleet, 1).virsh_pid(), signal.SIGKILL)


def _kill_qemu_there(fleet: Fleet) -> None:
    os.kill(_libvirt(fleet, 2).pid_of("VM-01"), signal.SIGKILL)


@pytest.mark.parametrize("mishap", [
    _cancel,
    pytest.param(_abort_job, marks=pytest.mark.full),
    pytest.param(_kill_virsh, marks=pytest.mark.full),
    pytest.param(_kill_qemu_there, marks=pytest.mark.full),
], ids=["cancelled", "job-aborted", "virsh-killed", "qemu-there-killed"])
def test_what_fails_while_memory_moves_leaves_it_here(fleet: Fleet, mishap: Callable[[Fleet], None]) -> None:
    _libvirt(fleet, 1).note_virsh()
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    with under_way({"local": (_LOAD, one, three)}) as loads:
        with _moving(fleet) as ended:
            until("memory goes over", lambda: fleet[1].ctl("motion", "get", "VM-01")["ram_bytes"])
            mishap(fleet)
            said = ended.result()
        assert _STAYS in said, said
        _expect_here(fleet)
        wait_until_they_flow(loads, messages_of(fleet, 1, "VM-01"))


def test_virsh_is_killed_when_all_is_there(fleet: Fleet) -> None:
    """libvirt ends the domain there and leaves it paused here, because it was not told which one is the VM."""
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    libvirt = _libvirt(fleet, 1)
    libvirt.note_virsh()
    with under_way({"local": (_LOAD, one, three)}) as loads:
        with _moving(fleet) as ended:
            libvirt.stop_virsh_when_all_is_there(fleet[1])
            os.kill(libvirt.virsh_pid(), signal.SIGKILL)
            said = ended.result()
            assert "is paused on host esx-01 until libvirt resumes it: virsh resume VM-01" in said, said
            until("libvirt is through with it", lambda: "VM-01" not in _libvirt(fleet, 2).domains())
            libvirt.virsh("resume", "VM-01")
        _expect_here(fleet)
        wait_until_they_flow(loads, messages_of(fleet, 1, "VM-01"))


def test_libvirt_lets_it_run_there_too_early(fleet: Fleet) -> None:
    """Without --suspend the VM runs before its adapter is there. It loses its connections, but survives and can
    move back."""
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    _libvirt(fleet, 1).let_virsh('for word; do shift; [ "$word" = --suspend ] || set -- "$@" "$word"; done')
    with _moving(fleet) as ended:
        until("memory goes over", lambda: fleet[1].ctl("motion", "get", "VM-01")["ram_bytes"])
        fleet[1].pause()
        _libvirt(fleet, 1).virsh("migrate-setspeed", "VM-01", "1000")
        until("it runs there", lambda: "VM-01" in _libvirt(fleet, 2).domains() and _libvirt(fleet, 2).virsh("domstate", "VM-01").strip() == "running")
        fleet[1].resume()
        said = ended.result()
    _libvirt(fleet, 1).let_virsh()
    assert "without its connections" in said or "its connections are lost" in said, said
    until("it is on esx-02", lambda: fleet[1].ctl("vm", "get", "VM-01"), accept=lambda vm: (vm["host"], vm["motion"]) == ("esx-02", None))
    assert "have libvirt leave it paused (virsh migrate --suspend)" in fleet[2].logged()
    one.follow_domain()
    one.run("rmmod vmw_pvrdma; modprobe vmw_pvrdma", timeout_s=60.0)
    rdma.wait_active(one)
    cases.run(_PINGPONG, one, three)
