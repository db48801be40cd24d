"""vMotion under applications: a file system over NVMe-oF, and MPI over VMs of all hosts. VM-01 moves there and
back ten times."""

from __future__ import annotations

import pytest

from conftest import PEERS
from fleet.fleet import Fleet
from harness import nvme
from harness.rdma import DEVICE
from harness.vm import Job
from test_motion import migrate
from test_motion_memory import move_and_compare

_GUARD_S = 240.0
_ROUNDS = 10  # there and back
_RING_ROUNDS = 22000  # takes longer than the motions


def _move_while_it_runs(fleet: Fleet, job: Job) -> None:
    for _ in range(_ROUNDS):
        for origin, destination in ((1, 2), (2, 1)):
            migrate(fleet, "VM-01", origin, destination)
            assert not job.done, job.output_so_far()


@pytest.mark.full
@pytest.mark.parametrize("target", PEERS)
def test_a_filesystem_over_nvme_goes_along(three_hosts: Fleet, target: str) -> None:
    one, other = three_hosts.vms["VM-01"], three_hosts.vms[target]
    nvme.export_disk(other)
    nvme.load_host(one)
    nvme.connect(one, other)
    job = nvme.start_files(one)
    _move_while_it_runs(three_hosts, job)
    nvme.end_files(one, job)
    nvme.disconnect(one)


@pytest.mark.full
@pytest.mark.parametrize("way", [pytest.param("plain", marks=pytest.mark.fleet(host_count=3, lease_s=30)),
                                 pytest.param("tls", marks=pytest.mark.fleet(tls=True, host_count=3, lease_s=30))])
def test_an_mpi_ring_goes_along(own_fleet: Fleet, way: str) -> None:
    own_fleet.follow_the_guide()
    own_fleet.join(3)
    for name in ("VM-03", "VM-04"):
        own_fleet.define_vm(name, PEERS[name])
    vms = own_fleet.boot("VM-01", *PEERS, overlays=("mpi",))
    names = "".join(f"{vm.address} {vm.name}\\n" for vm in vms)
    for vm in vms:
        vm.check(f"printf '{names}' >> /etc/hosts")
        vm.start_job("remote-shell --serve")
    settings = {"UCX_NET_DEVICES": f"{DEVICE}:1", "UCX_TLS": "rc_verbs,ud_verbs,self"}
    ring = vms[1].start_job(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
        "mpirun.openmpi --prtemca plm_ssh_agent remote-shell --prtemca plm_ssh_no_tree_spawn 1 "
        f"--host {','.join(vm.name for vm in vms)} --map-by node -np {len(vms)} --mca pml ucx "
        + "".join(f"-x {name}={value} " for name, value in settings.items()) + f"mpi_ring {_RING_ROUNDS}")
    _move_while_it_runs(own_fleet, ring)
    move_and_compare(own_fleet)
    migrate(own_fleet, "VM-01", 2, 1)
    assert not ring.done, ring.output_so_far()
    printed = ring.wait(_GUARD_S).output
    assert f"ring: {len(vms)} ranks, {_RING_ROUNDS} rounds" in printed and printed.rstrip().endswith("done"), printed
