"""NVMe over Fabrics: nvmet-rdma in VM-01, nvme-rdma in VM-02. Kernel verbs: fast registration, remote invalidation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import expect_healthy_kernels
from harness import cases
from harness.channel import GuestTimeout
from harness.cluster import Cluster, Setup
from harness.programs import rping
from harness.rdma import wait_active
from harness.vm import Job, Vm

_SUBSYSTEM = "pvrdma"
_DISK = "/dev/nvme0n1"
_PORT = "/sys/kernel/config/nvmet/ports/1"
_EXPORT = f"ln -s /sys/kernel/config/nvmet/subsystems/{_SUBSYSTEM} {_PORT}/subsystems/{_SUBSYSTEM}"
_WITHDRAW = f"rm {_PORT}/subsystems/{_SUBSYSTEM}"
_TARGET = """set -e
modprobe brd rd_nr=1 rd_size=98304
modprobe nvmet-rdma
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/{subsystem} ports/1
echo 1 > subsystems/{subsystem}/attr_allow_any_host
mkdir subsystems/{subsystem}/namespaces/1
echo /dev/ram0 > subsystems/{subsystem}/namespaces/1/device_path
echo 1 > subsystems/{subsystem}/namespaces/1/enable
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo {address} > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
{export}
"""
_WRITE_FILES = """set -e
mke2fs -q -t ext4 {disk}
mkdir -p /mnt
mount -t ext4 {disk} /mnt
cd /mnt
for i in 1 2 3 4 5 6; do dd if=/dev/urandom of=file$i bs=10007 count=$((i * 60)) 2>/dev/null; done
sha256sum file* > sums
cd /
umount /mnt
"""
_VERIFY_FILES = """set -e
mount -t ext4 {disk} /mnt
cd /mnt
sha256sum -c sums
cd /
umount /mnt
"""
# Writes until it is told to stop or a write fails; /tmp/written grows by a line with each MiB.
_LOAD = ("rm -f /tmp/stop; : > /tmp/written; while [ ! -e /tmp/stop ]; do "
         f"dd if=/dev/zero of={_DISK} bs=64k count=16 oflag=direct 2>/tmp/error || {{ cat /tmp/error; exit 1; }}; "
         "echo >> /tmp/written; done")
_LOAD_GUARD_S = 60.0


@pytest.fixture(scope="module")
def storage(logs: Path, setup: Setup) -> Iterator[Cluster]:
    """VM-01 exports a RAM disk; VM-02 has the host side's modules."""
    with Cluster(setup, logs / f"storage-{setup.id}", overlays=("nvme",)) as cluster:
        target, host = cluster.vms
        target.check(_TARGET.format(subsystem=_SUBSYSTEM, address=target.address, export=_EXPORT))
        host.check("modprobe -a nvme-rdma ext4")
        yield cluster
    expect_healthy_kernels(cluster)


def _connect(host: Vm, target: Vm) -> None:
    host.check(f"nvme connect -t rdma -a {target.address} -s 4420 -n {_SUBSYSTEM} --reconnect-delay=1 "
               f"--hostnqn=nqn.2014-08.org.nvmexpress:{host.name}", 60)
    host.check(f"n=0; until [ -b {_DISK} ]; do n=$((n + 1)); [ $n -lt 200 ] || {{ dmesg | tail; exit 1; }}; sleep 0.1; "
               "done", 60)


def _disconnect(host: Vm) -> None:
    assert "disconnected 1 controller" in host.check(f"nvme disconnect -n {_SUBSYSTEM}", 60)


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
    _connect(host, target)
    host.check(_WRITE_FILES.format(disk=_DISK), 180)
    _disconnect(host)
    assert host.run(f"[ -e {_DISK} ]").exit_code != 0
    _connect(host, target)
    assert host.check(_VERIFY_FILES.format(disk=_DISK), 180).count(": OK") == 6
    _disconnect(host)


def test_the_hosts_driver_goes_under_load(storage: Cluster) -> None:
    target, host = storage.vms
    _connect(host, target)
    load = _start_load(host)
    host.check("rmmod vmw_pvrdma", 60)
    failed = load.wait(60)
    assert failed.exit_code == 1 and "error" in failed.output, failed.output
    assert host.run(f"[ -e {_DISK} ]").exit_code != 0
    host.check("modprobe vmw_pvrdma")
    wait_active(host)
    _connect(host, target)
    host.check(_WRITE_FILES.format(disk=_DISK), 180)
    assert host.check(_VERIFY_FILES.format(disk=_DISK), 180).count(": OK") == 6
    _disconnect(host)


@pytest.mark.full
def test_the_targets_driver_goes_under_load_and_writes_go_on_when_it_is_back(storage: Cluster) -> None:
    target, host = storage.vms
    _connect(host, target)
    load = _start_load(host)
    target.check("rmmod vmw_pvrdma", 60)
    target.check("modprobe vmw_pvrdma")
    wait_active(target)
    target.check(f"{_WITHDRAW}; {_EXPORT}")  # nvmet-rdma gave up its listener with the device
    _wait_for_writes(host, load, 4)
    host.check("touch /tmp/stop")
    assert load.wait(60).exit_code == 0
    _disconnect(host)


@pytest.mark.full
def test_disconnect_under_load(storage: Cluster) -> None:
    target, host = storage.vms
    for _ in range(3):
        _connect(host, target)
        load = _start_load(host)
        _disconnect(host)
        assert load.wait(60).exit_code == 1
    cases.run(rping(50), target, host)


def test_modules_unload_at_rest(storage: Cluster) -> None:
    target, host = storage.vms
    _connect(host, target)
    _disconnect(host)
    host.check("rmmod nvme_rdma", 60)
    target.check(f"{_WITHDRAW} && rmmod nvmet_rdma", 60)
    for vm in storage.vms:
        vm.check("rmmod vmw_pvrdma && modprobe vmw_pvrdma", 60)
        wait_active(vm)
    target.check(f"modprobe nvmet-rdma && {_EXPORT}")
    host.check("modprobe nvme-rdma")
    _connect(host, target)
    _disconnect(host)
