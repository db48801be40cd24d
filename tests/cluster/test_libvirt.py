"""VMs that libvirt has started go to another host and into a file, led by pvrdmactl; libvirt sees domains that begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import make_fleet
from fleet.fleet import Fleet
from fleet.libvirt import Libvirt, LibvirtVm
from fleet.until import until
from harness import cases, programs
from test_motion import migrate
from testbed import ensure

_PINGPONG = programs.pingpong("rc", "-c -e -n 300")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """VM-01 and VM-03 are domains of esx-01's libvirt, and on."""
    testbed = ensure()
    with make_fleet("libvirt", tmp_path_factory.mktemp("libvirt")) as made:
        made.follow_the_guide()
        made.define_vm("VM-03", 1)
        libvirts = [Libvirt(made.folder / f"l{number}", made.logs / f"libvirt{number}.log", testbed.qemu(), testbed.qemu_environment())
                    for number in (1, 2)]
        with libvirts[0], libvirts[1]:
            LibvirtVm.libvirts = {made[number].folder: libvirt for number, libvirt in enumerate(libvirts, 1)}
            made.boot("VM-01", "VM-03", kind=LibvirtVm)
            yield made
            for vm in made.vms.values():
                vm.close()


def _domains(fleet: Fleet, number: int) -> set[str]:
    return set(LibvirtVm.libvirts[fleet[number].folder].virsh("list", "--name").split())


def test_a_domain_goes_to_another_host_and_back(fleet: Fleet) -> None:
    one, three = fleet.vms["VM-01"], fleet.vms["VM-03"]
    cases.run(_PINGPONG, one, three)
    for origin, destination in ((1, 2), (2, 1)):
        motion = migrate(fleet, "VM-01", origin, destination)
        assert motion["state"] == "done", motion
        until("the domain is on one host", lambda here=origin: "VM-01" not in _domains(fleet, here))
        assert "VM-01" in _domains(fleet, destination)
        cases.run(_PINGPONG, one, three)


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
