"""A guest's disks and files on an independent array: nvmet-rdma, ib_isert and nfsd over Linux's Soft-RoCE.

Kernel verbs: fast registration, remote invalidation, RDMA reads by the array from the guest's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import expect_healthy_kernels
from harness import files, iser, nfs, nvme
from harness.cluster import Cluster, Setup
from harness.faults import Action, Fault, Faults, share
from harness.pairing import Pairing
from harness.vm import Vm

_PAIRINGS = [
    Pairing(),
    *(pytest.param(pairing, marks=pytest.mark.full)
      for pairing in (Pairing(mtu=9000), Pairing(Setup(suite="bookworm")), Pairing(guest_count=0))),
]


@pytest.fixture(scope="module", params=_PAIRINGS, ids=lambda pairing: pairing.id)
def storage(request: pytest.FixtureRequest, logs: Path) -> Iterator[Cluster]:
    """Both VMs, with the modules that each side needs."""
    with request.param.cluster(logs / "storage", overlays=("nvme", "array")) as cluster:
        yield cluster
    expect_healthy_kernels(cluster)


@pytest.fixture
def host(storage: Cluster) -> Vm:
    """The user of the array."""
    return storage.vms[0]


@pytest.fixture
def array(storage: Cluster) -> Iterator[Vm]:
    """The native endpoint."""
    yield storage.natives[-1]
    storage.hub.set_faults(None)


@pytest.fixture(scope="module")
def nvme_array(storage: Cluster) -> None:
    """The array exports its RAM disk by NVMe over RDMA."""
    nvme.export_disk(storage.natives[-1])
    nvme.load_host(storage.vms[0])


def test_nvme(nvme_array: None, host: Vm, array: Vm) -> None:
    nvme.connect(host, array)
    nvme.write_files(host)
    nvme.disconnect(host)
    nvme.connect(host, array)
    nvme.verify_files(host)
    nvme.disconnect(host)


def test_nvme_while_one_of_200_frames_is_lost(nvme_array: None, storage: Cluster, host: Vm, array: Vm) -> None:
    nvme.connect(host, array)
    nvme.write_files(host)
    # The array answers reads with RDMA writes. It uses RDMA reads for the host's writes, and Soft-RoCE accepts wrong
    # data when these are lost.
    faults = Faults(Fault(Action.DROP, share(0.005, seed=1)))
    storage.hub.set_faults(faults)
    nvme.verify_files(host)
    storage.hub.set_faults(None)
    assert faults.hits
    nvme.disconnect(host)


@pytest.mark.full
def test_a_guest_is_the_array(storage: Cluster, host: Vm, array: Vm) -> None:
    nvme.export_disk(host)
    nvme.load_host(array)
    nvme.connect(array, host)
    nvme.write_files(array)
    nvme.verify_files(array)
    nvme.disconnect(array)


def test_iser(host: Vm, array: Vm) -> None:
    iser.export_disk(array)
    iser.load_host(host, array)
    iser.connect(host, array)
    files.make_ext4(host, iser.DISK)
    files.write(host, files.ext4(iser.DISK))
    iser.disconnect(host)
    iser.connect(host, array)
    files.verify(host, files.ext4(iser.DISK))
    iser.disconnect(host)


def test_nfs(host: Vm, array: Vm) -> None:
    nfs.export_folder(array)
    nfs.load_client(host)
    files.write(host, nfs.mount(array))
    files.verify(host, nfs.mount(array))
