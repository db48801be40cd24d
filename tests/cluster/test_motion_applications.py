"""vMotion under applications: a file system over NVMe-oF, and MPI over VMs of both hosts."""

from __future__ import annotations

import pytest

from fleet.fleet import Fleet
from harness import nvme
from harness.rdma import DEVICE
from harness.vm import Job
from test_motion import migrate

_GUARD_S = 240.0
_FILES = f"""
modprobe -a ext4; mke2fs -q -t ext4 {nvme.DISK} && mkdir -p /mnt/moved && mount {nvme.DISK} /mnt/moved || exit 8
for i in $(seq 60); do
  dd if=/dev/urandom of=/tmp/wanted bs=1M count=4 2>/dev/null
  cp /tmp/wanted /mnt/moved/file$((i % 4)) && sync || exit 7
  echo 3 > /proc/sys/vm/drop_caches
  cmp /tmp/wanted /mnt/moved/file$((i % 4)) || exit 6
done
umount /mnt/moved && echo all files are what was written
"""


def _move_while_it_runs(fleet: Fleet, job: Job, least: int) -> str:
    """Moves VM-01 there and back until the job is done; what it printed."""
    moves = 0
    while not job.done:
        for origin, destination in ((1, 2), (2, 1)):
            migrate(fleet, "VM-01", origin, destination)
            moves += 1
    result = job.wait(_GUARD_S)
    assert result.exit_code == 0, result.output
    assert moves >= least, "the load was too short for this machine"
    return str(result.output)


@pytest.mark.full
@pytest.mark.parametrize("target", ["VM-02", "VM-03"])
def test_a_filesystem_over_nvme_goes_along(vm_fleet: Fleet, target: str) -> None:
    one, other = vm_fleet.vms["VM-01"], vm_fleet.vms[target]
    nvme.export_disk(other)
    nvme.load_host(one)
    nvme.connect(one, other)
    assert "all files are what was written" in _move_while_it_runs(vm_fleet, one.start_job(_FILES), 4)
    nvme.disconnect(one)


@pytest.mark.full
def test_an_mpi_ring_goes_along(own_fleet: Fleet) -> None:
    own_fleet.follow_the_guide()
    own_fleet.define_vm("VM-03", 1)
    vms = own_fleet.boot("VM-01", "VM-02", "VM-03", overlays=("mpi",))
    names = "".join(f"{vm.address} {vm.name}\\n" for vm in vms)
    for vm in vms:
        vm.check(f"printf '{names}' >> /etc/hosts")
        vm.start_job("remote-shell --serve")
    settings = {"UCX_NET_DEVICES": f"{DEVICE}:1", "UCX_TLS": "rc_verbs,ud_verbs,self"}
    ring = vms[1].start_job(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
        "mpirun.openmpi --prtemca plm_ssh_agent remote-shell --prtemca plm_ssh_no_tree_spawn 1 "
        f"--host {','.join(vm.name for vm in vms)} --map-by node -np 3 --mca pml ucx "
        + "".join(f"-x {name}={value} " for name, value in settings.items()) + "mpi_ring 3000")
    printed = _move_while_it_runs(own_fleet, ring, 2)
    assert "ring: 3 ranks, 3000 rounds" in printed and printed.rstrip().endswith("done"), printed
