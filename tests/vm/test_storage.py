"""NVMe over Fabrics: nvmet-rdma in VM-01, nvme-rdma in VM-02. Kernel verbs: fast registration, remote invalidation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import expect_healthy_kernels
from harness import cases, nvme
from harness.channel import GuestTimeout
from harness.cluster import Cluster, Setup
from harness.programs import rping
from harness.rdma import wait_active
from harness.vm import Job, Vm

# Writes until it is told to stop or a write fails. /tmp/written gets a line for each MiB. The disk is opened once: a dd that
# opens it by its name makes a file of that name when the disk has just gone, and then writes for ever.
_LOAD = (f"exec 3<>{nvme.DISK} || exit 2; rm -f /tmp/stop; : > /tmp/written; while [ ! -e /tmp/stop ]; do "
         "dd if=/dev/zero of=/proc/self/fd/3 bs=64k count=16 oflag=direct 2>/tmp/error || { cat /tmp/error; exit 1; }; "
         "echo >> /tmp/written; done")
_DISK_IS_GONE = ("error", "No such device")  # for a write that was under way, and for the next one
_LOAD_GUARD_S = 60.0


@pytest.fixture(scope="module")
def storage(logs: Path, setup: Setup) -> Iterator[Cluster]:
    """VM-01 exports a RAM disk; VM-02 has the initiator's modules."""
    with Cluster(setup, logs / f"storage-{setup.id}", overlays=("nvme",)) as cluster:
        target, host = cluster.vms
        nvme.export_disk(target)
        nvme.load_host(host)
        yield cluster
    expect_healthy_kernels(cluster)


def _written_mib(host: Vm) -> int:
    return int(host.check("wc -l < /tmp/written"))


def _start_load(host: Vm) -> Job:
    job = host.start_job(_LOAD)
    _wait_for_writes(host, job, 2)
    return job


def _wait_for_writes(host: Vm, job: Job, mib: int) -> None:
    goal = (_written_mib(host) if host.run("[ -e /tmp/written ]").exit_code == 0 else 0) + mib
    deadline = time.monotonic() + _LOAD_GUARD_S
    while host.run("[ -e /tmp/written ]").exit_code != 0 or _written_mib(host) < goal:
        assert not job.done, job.wait().output
        if time.monotonic() > deadline:
            raise GuestTimeout(f"{host.name}: no {mib} MiB in {_LOAD_GUARD_S:g} s:\n" + host.check("dmesg | tail -20"))
        time.sleep(0.2)


def test_a_filesystem_survives_a_reconnect(storage: Cluster) -> None:
    target, host = storage.vms
    nvme.connect(host, target)
    nvme.write_files(host)
    nvme.disconnect(host)
    assert host.run(f"[ -e {nvme.DISK} ]").exit_code != 0
    nvme.connect(host, target)
    nvme.verify_files(host)
    nvme.disconnect(host)


def test_the_hosts_driver_goes_under_load(storage: Cluster) -> None:
    target, host = storage.vms
    nvme.connect(host, target)
    load = _start_load(host)
    host.check("rmmod vmw_pvrdma", 60)
    failed = load.wait(60)
    assert failed.exit_code == 1 and any(why in failed.output for why in _DISK_IS_GONE), failed.output
    assert host.run(f"[ -e {nvme.DISK} ]").exit_code != 0
    host.check("modprobe vmw_pvrdma")
    wait_active(host)
    nvme.connect(host, target)
    nvme.write_files(host)
    nvme.verify_files(host)
    nvme.disconnect(host)


@pytest.mark.full
def test_the_targets_driver_goes_under_load_and_writes_go_on_when_it_is_back(storage: Cluster) -> None:
    target, host = storage.vms
    nvme.connect(host, target)
    load = _start_load(host)
    target.check("rmmod vmw_pvrdma", 60)
    target.check("modprobe vmw_pvrdma")
    wait_active(target)
    target.check(f"{nvme.WITHDRAW}; {nvme.EXPORT}")  # nvmet-rdma dropped its listener together with the device
    _wait_for_writes(host, load, 4)
    host.check("touch /tmp/stop")
    assert load.wait(60).exit_code == 0
    nvme.disconnect(host)


@pytest.mark.full
def test_disconnect_under_load(storage: Cluster) -> None:
    target, host = storage.vms
    for _ in range(3):
        nvme.connect(host, target)
        load = _start_load(host)
        nvme.disconnect(host)
        assert load.wait(60).exit_code == 1
    cases.run(rping(50), target, host)


def test_modules_unload_at_rest(storage: Cluster) -> None:
    target, host = storage.vms
    nvme.connect(host, target)
    nvme.disconnect(host)
    host.check("rmmod nvme_rdma", 60)
    target.check(f"{nvme.WITHDRAW} && rmmod nvmet_rdma", 60)
    for vm in storage.vms:
        vm.check("rmmod vmw_pvrdma && modprobe vmw_pvrdma", 60)
        wait_active(vm)
    target.check(f"modprobe nvmet-rdma && {nvme.EXPORT}")
    host.check("modprobe nvme-rdma")
    nvme.connect(host, target)
    nvme.disconnect(host)
