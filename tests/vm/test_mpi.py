"""Open MPI over UCX's verbs transports, with pairs of ranks on two VMs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster import Cluster, Setup
from harness.rdma import DEVICE

_GUARD_S = 180
_SIZES = 11  # the number of sizes in programs/mpi_ring.c


@pytest.fixture(scope="module")
def mpi_pair(logs: Path, setup: Setup) -> Iterator[Cluster]:
    if setup.suite != "trixie":
        pytest.skip("only the trixie guest has Open MPI; user space decides what this shows, not the kernel")
    if setup.hardware_version < 14:
        pytest.skip("UCX's rc_verbs needs an SRQ, which is there from VM hardware version 14 on")
    with Cluster(setup, logs / f"mpi-{setup.id}", overlays=("mpi",)) as cluster:
        for vm in cluster.vms:
            names = "".join(f"{other.address} {other.name}\\n" for other in cluster.vms)
            vm.check(f"printf '{names}' >> /etc/hosts")
            vm.start_job("remote-shell --serve")
        yield cluster


@pytest.mark.parametrize(("transport", "ranks_per_vm"), [
    ("rc_verbs", 2), ("ud_verbs", 1),
    *(pytest.param(transport, ranks, marks=pytest.mark.full) for transport, ranks in (("rc_verbs", 1), ("ud_verbs", 2)))])
def test_ring_and_ping_pong(mpi_pair: Cluster, transport: str, ranks_per_vm: int) -> None:
    first = mpi_pair.vms[0]
    ranks = ranks_per_vm * len(mpi_pair.vms)
    hosts = ",".join(f"{vm.name}:{ranks_per_vm}" for vm in mpi_pair.vms)
    settings = {"UCX_NET_DEVICES": f"{DEVICE}:1", "UCX_TLS": f"{transport},ud_verbs,self", "UCX_LOG_LEVEL": "info"}
    printed = first.check(
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
        f"mpirun.openmpi --prtemca plm_ssh_agent remote-shell --prtemca plm_ssh_no_tree_spawn 1 "
        f"--host {hosts} --map-by node -np {ranks} --mca pml ucx "
        + "".join(f"-x {name}={value} " for name, value in settings.items()) + "mpi_ring 100", _GUARD_S)
    # Each VM's UCX reports what carries the messages to the other VM.
    for vm in mpi_pair.vms:
        chosen = re.findall(rf"\[{vm.name}:.*inter-node cfg#\d+ tag\((.*)\)", printed)
        assert chosen, printed
        assert set(chosen) == {f"{transport}/{DEVICE}:1"}, printed
    for line in (f"ring: {ranks} ranks, 100 rounds, token {100 * ranks}",
                 f"ping-pong: ranks 0 and {ranks - 1}, {_SIZES} sizes up to 1048576 bytes",
                 f"reduction: 4096 words over {ranks} ranks", "done"):
        assert re.search(rf"^{line}$", printed, re.MULTILINE), printed
    for vm in mpi_pair.vms:
        assert int(mpi_pair.daemon.ctl("adapter", "get", vm.name)["tx_bytes"]) > 1 << 20
