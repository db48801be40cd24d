"""More than two VMs on one switch."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import ClusterFactory
from harness import cases
from harness.programs import perftest, pingpong

_FIRST_PORT = 18600


@pytest.mark.full
@pytest.mark.parametrize("count", [3, 4])
def test_all_pairs_at_once(own_cluster: ClusterFactory, count: int) -> None:
    cluster = own_cluster(vm_count=count)
    jobs = []
    for index, (server, client) in enumerate(itertools.combinations(cluster.vms, 2)):
        port = _FIRST_PORT + 2 * index
        jobs.append((pingpong("rc", "-c -n 300 -e", gid_index=1, port=port), server, client))
        jobs.append((perftest("ib_write_bw", "-n 200 -b", (65536,), port=port + 1), client, server))
    with ThreadPoolExecutor(len(jobs)) as pool:
        for outcome in [pool.submit(cases.run, *job) for job in jobs]:
            outcome.result()
    names = {vm.name for vm in cluster.vms}
    assert {adapter["name"] for adapter in cluster.daemon.ctl("adapter", "list")} == names
    for vm in cluster.vms:
        assert int(cluster.daemon.ctl("adapter", "get", vm.name)["rx_bytes"]) > 0
