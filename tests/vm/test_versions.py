"""Every VM hardware version and both RoCE versions: the port's GIDs show the version, and connections and
transfers work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cases
from harness.cases import Case
from harness.cluster import Cluster, Setup
from harness.programs import RDMA_CLIENT, perftest, pingpong, rping, rstream, ucmatose, udaddy

_SETUPS = [
    Setup(hardware_version=13),
    Setup(hardware_version=14),
    pytest.param(Setup(hardware_version=14, roce="v1"), marks=pytest.mark.full),
    pytest.param(Setup(hardware_version=17), marks=pytest.mark.full),
    pytest.param(Setup(hardware_version=18, roce="v1"), marks=pytest.mark.full),
    *(pytest.param(Setup(suite=suite, hardware_version=version), marks=pytest.mark.full)
      for suite in ("bullseye", "bookworm", "forky") for version in (13, 14, 18)),
]
# The connect-and-transfer set.
_CASES = [
    pingpong("rc", "-c -n 300 -e"),
    pingpong("ud", "-n 300", gid_index=1),
    pingpong("srq", "-c -n 300 -e"),
    perftest("ib_write_bw", "-n 300 -q 4 -b", (65536,)),
    perftest("ib_atomic_bw", "-n 300", (8,)),
    rping(50),
    udaddy("-c 5 -C 5"),
]
_MORE_CASES = [
    pingpong("rc", "-c -n 300", gid_index=1),
    perftest("ib_read_lat", "-n 300", (2,)),
    perftest("ib_send_bw", "-c UD -n 300", (1024,)),
    rping(20, "{server6}"),
    ucmatose("-c 20 -C 5"),
    rstream(4096, "-C 50 -T v"),
    RDMA_CLIENT,
]


@pytest.fixture(scope="module", params=_SETUPS, ids=lambda setup: setup.id)
def versioned_pair(request: pytest.FixtureRequest, logs: Path) -> Iterator[Cluster]:
    with Cluster(request.param, logs / f"versions-{request.param.id}") as cluster:
        yield cluster


def test_gids_are_of_the_hardware_versions_roce_version(versioned_pair: Cluster) -> None:
    setup = versioned_pair.setup
    expected = "IB/RoCE v1" if setup.hardware_version == 13 or setup.roce == "v1" else "RoCE v2"
    for vm in versioned_pair.vms:
        types = vm.check("cd /sys/class/infiniband/vmw_pvrdma0/ports/1/gid_attrs/types; cat * 2>/dev/null || true")
        assert set(types.splitlines()) == {expected}


@pytest.mark.parametrize("case", [*_CASES, *(pytest.param(case, marks=pytest.mark.full) for case in _MORE_CASES)], ids=cases.name)
def test_connect_and_transfer(versioned_pair: Cluster, case: Case) -> None:
    if "srq" in case.name and versioned_pair.setup.hardware_version < 14:
        pytest.skip("SRQ is there from VM hardware version 14 on")
    cases.run(case, *versioned_pair.vms)
