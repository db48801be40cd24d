"""Libraries above verbs, between programs of two adapters: Open MPI over UCX, libfabric, librpma, and pyverbs' examples."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import PATIENT_UCX, PVRDMA_RUN, REPOSITORY, Machine, address_of

PYVERBS_EXAMPLE = Path("/usr/share/doc/python3-pyverbs/examples/ib_devices.py")
ROUNDS = 100


@pytest.fixture(scope="module", name="mpi_ring")
def _mpi_ring(shared_machine: Machine) -> Iterator[Path]:
    """The program of the VM tests, which compares each byte that it receives."""
    program = shared_machine.folder / "mpi_ring"
    subprocess.run(["mpicc", "-O1", "-o", program, REPOSITORY / "tests/vm/programs/mpi_ring.c"], check=True)
    yield program
    program.unlink()


@pytest.mark.parametrize(("transport", "per_node"), [("ud_verbs", 2), ("rc_verbs", 1)])
def test_open_mpi(shared_machine: Machine, mpi_ring: Path, transport: str, per_node: int) -> None:
    """Ranks on two adapters. None uses shared memory, so ranks of one adapter use it, too."""
    count = 2 * per_node
    ranks = [["-np", str(per_node), str(PVRDMA_RUN), "--node", node, str(mpi_ring), str(ROUNDS)] for node in ("0", "1")]
    done = shared_machine.run_plainly(
        "mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx", *ranks[0], ":", *ranks[1],
        **PATIENT_UCX, UCX_NET_DEVICES="vmw_pvrdma0:1", UCX_TLS=f"{transport},ud_verbs,self", UCX_LOG_LEVEL="info",
        OMPI_MCA_btl="self", OMPI_MCA_orte_tmpdir_base=str(shared_machine.folder))
    assert done.returncode == 0, done.stdout
    chosen = re.findall(r"\[[^][:]+:(\d+) *:.*(?:ep_cfg\[[1-9]\]:|intra-node cfg#[1-9]) tag\((.*)\)", done.stdout)
    assert len({pid for pid, _ in chosen}) == count, done.stdout
    assert {paths for _, paths in chosen} == {f"{transport}/vmw_pvrdma0:1"}, done.stdout
    for line in (f"ring: {count} ranks, {ROUNDS} rounds, token {count * ROUNDS}",
                 f"ping-pong: ranks 0 and {count - 1}, 11 sizes up to 1048576 bytes",
                 f"reduction: 4096 words over {count} ranks", "done"):
        assert re.search(rf"^{line}$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("endpoint", ["msg", "rdm"])
def test_libfabric(shared_machine: Machine, endpoint: str) -> None:
    """It asks for the addresses of interfaces. So both nodes' addresses are on one, in a network of the test's own."""
    provider = {"msg": "verbs", "rdm": "verbs;ofi_rxm"}[endpoint]
    pingpong = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", "50", "-c"]
    server = shlex.join([str(PVRDMA_RUN), "--node", "1", *pingpong])
    client = shlex.join([str(PVRDMA_RUN), "--node", "0", *pingpong, "10.99.0.2"])
    script = f"""
        ip link set lo up
        ip link add here type veth peer name there
        ip link set here up && ip link set there up
        ip address add 10.99.0.1/24 dev here && ip address add 10.99.0.2/24 dev here
        {server} & server=$!
        until grep -q ' 0A ' /proc/net/tcp; do kill -0 $server; sleep 0.1; done
        {client}
        wait $server"""
    done = shared_machine.run_plainly("unshare", "--map-root-user", "--net", "sh", "-ec", script)
    assert done.returncode == 0, done.stdout
    # Server and client print a line for each size: bytes, sent, acknowledged, and figures.
    assert len(re.findall(r"^1m +50 +=50 ", done.stdout, re.MULTILINE)) == 2, done.stdout


def test_librpma(shared_machine: Machine, port: str) -> None:
    """Each of its connections registers anonymous memory that it shares, for its flushes."""
    program = shared_machine.folder / "remote_memory"
    subprocess.run(["gcc", "-O1", "-g", "-o", program, REPOSITORY / "tests/process/programs/remote_memory.c", "-lrpma", "-libverbs"], check=True)
    outputs = shared_machine.connect([str(program), "serve", address_of(0), port], [str(program), "use", address_of(0), port], (0, 1))
    program.unlink()
    assert outputs == ("passed\n", "passed\n")


def test_pyverbs_example(shared_machine: Machine) -> None:
    done = shared_machine.run("/usr/bin/python3", str(PYVERBS_EXAMPLE))
    assert done.returncode == 0 and "vmw_pvrdma0" in done.stdout, done.stdout
