"""A VM of a cluster is written to a file and continues on another host, with its connections to VMs of both
hosts."""

from __future__ import annotations

from pathlib import Path

from fleet.fleet import Fleet
from fleet.loads import messages_of, under_way, wait_until_they_flow
from fleet.until import until
from harness import cases, programs
from harness.vm import vmm_socket


def test_connections_go_on_on_another_host(vm_fleet: Fleet, tmp_path: Path) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with under_way({"tcp": (programs.exactly_once_load(), one, two), "local": (programs.rping_load(), one, three)}) as loads:
        seen = []
        for origin, destination in ((1, 2), (2, 1)):
            wait_until_they_flow(loads, messages_of(vm_fleet, origin, "VM-01"))
            seen.append(vm_fleet.paths()["VM-01"])
            _move(vm_fleet, "VM-01", origin, destination, tmp_path)
        wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))
    assert seen == [{"local", "tcp"}] * 2, seen
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), one, three)


def _move(fleet: Fleet, name: str, origin: int, destination: int, folder: Path) -> None:
    vm = fleet.vms[name]
    file = folder / f"{name}.checkpoint"
    vm.outlive_qemu()
    fleet[origin].ctl("vm", "checkpoint", name, str(file))
    printed = fleet[origin].ctl_text("motion", "dump", str(file))
    assert f'name "{name}"' in printed or name in printed, printed[:500]
    vm.wait_ended()
    until("it is known to be off", lambda: fleet[1].ctl("vm", "get", name)["power"], accept=lambda power: power == "off")
    fleet[1].ctl("vm", "set", name, "--host", fleet[destination].name)
    socket = fleet[destination].folder / f"{name}.sock"
    until("its adapter is served there", socket.exists)
    pid = vm.start_waiting(socket)
    arguments = fleet[1].ctl("vm", "qemu-args", name, "--restore")["arguments"]
    assert arguments[-5:] == ["-qmp", f"unix:{vmm_socket(socket, 'qmp')},server=on,wait=off", "-S", "-incoming", "defer"], arguments
    report = fleet[destination].ctl("vm", "restore", name, str(file))
    assert report["qemu"]["pid"] == pid, report
