"""VMs of a cluster that continue in another QEMU while they talk to a VM on their host and to one on another
host."""

from __future__ import annotations

from fleet.fleet import Fleet
from fleet.loads import messages_of, under_way, wait_until_they_flow
from harness import cases, programs

_MOVES = (("VM-01", 1), ("VM-02", 2), ("VM-01", 1), ("VM-03", 1))


def test_connections_go_on(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with under_way({"tcp": (programs.exactly_once_load(""), one, two), "local": (programs.rping_load(), one, three)}) as loads:
        for name, number in _MOVES:
            wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))
            _go_on_in_another(vm_fleet, name, number)
        wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), three, one)


def _go_on_in_another(fleet: Fleet, name: str, number: int) -> None:
    vm = fleet.vms[name]
    arguments = fleet[number].ctl("vm", "qemu-args", name, "--incoming")["arguments"]
    pid = vm.start_successor()
    assert f"unix:{vm.successor_monitor},server=on,wait=off" in arguments, arguments
    vm.outlive_qemu()  # the successor may be connected only when the earlier QEMU has ended
    report = fleet[number].ctl("vm", "upgrade-vmm", name)
    vm.follow_successor()
    assert report["to"]["pid"] == pid, report
