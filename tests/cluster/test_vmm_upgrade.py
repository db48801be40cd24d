"""VMs of a cluster that continue in another QEMU while they talk to a VM on their host and to one on another
host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fleet.fleet import Fleet
from fleet.loads import messages_of, wait_until_they_flow
from fleet.until import until
from harness import cases, programs

_BETWEEN_HOSTS = programs.exactly_once("-n 30000")
_ON_ONE_HOST = programs.rping(3000, arguments="-V -S 4000")
_MOVES = (("VM-01", 1), ("VM-02", 2), ("VM-01", 1), ("VM-03", 1))


def test_connections_go_on(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with ThreadPoolExecutor(2) as pool:
        loads = {"tcp": pool.submit(cases.run, _BETWEEN_HOSTS, one, two), "local": pool.submit(cases.run, _ON_ONE_HOST, one, three)}
        done = [_go_on_in_another(vm_fleet, name, number) for name, number in _MOVES if wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))]
        for load in loads.values():
            load.result()
    assert len(done) >= 2, "the load was too short for this machine"
    cases.run(programs.pingpong("rc", "-c -e -n 300"), two, one)
    cases.run(programs.pingpong("rc", "-c -e -n 300"), three, one)


def _go_on_in_another(fleet: Fleet, name: str, number: int) -> str:
    vm = fleet.vms[name]
    arguments = fleet[number].ctl("vm", "qemu-args", name, "--incoming")["arguments"]
    pid = vm.start_successor()
    assert f"unix:{vm.successor_monitor},server=on,wait=off" in arguments, arguments
    vm.outlive_qemu()  # the successor may be connected only when the earlier QEMU has ended
    report = fleet[number].ctl("vm", "upgrade-vmm", name)
    vm.follow_successor()
    assert report["to"]["pid"] == pid, report
    return name
