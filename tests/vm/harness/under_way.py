"""Traffic that flows while a test interferes with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from harness import soft_roce
from harness.cluster import Cluster
from harness.programs import exactly_once
from harness.vm import Job, Vm

_GUARD_S = 60
_LOAD_GUARD_S = 90
_FLOWING_BYTES = 100_000


def wait_until_it_flows(cluster: Cluster, vm: Vm, load: Future[object]) -> None:
    """Waits until the VM's adapter has moved 100,000 more bytes. Fails with the load's error if the load ends."""
    before = _moved(cluster, vm)
    end = time.monotonic() + _LOAD_GUARD_S
    while _moved(cluster, vm) < before + _FLOWING_BYTES:
        if load.done():
            load.result()
        assert not load.done(), "the load has ended"
        assert time.monotonic() < end, "nothing flows"
        time.sleep(0.05)


def _moved(cluster: Cluster, vm: Vm) -> int:
    adapter = cluster.daemon.ctl("adapter", "get", vm.name)
    return int(adapter["tx_bytes"]) + int(adapter["rx_bytes"])


@contextmanager
def exactly_once_under_way(server: Vm, client: Vm, native: Vm, arguments: str) -> Iterator[tuple[Job, Job]]:
    """The (server's, client's) job of exactly_once, once packets flow. `native` is the native endpoint of the
    two."""
    case = exactly_once(arguments)
    with jobs_killed(server.start_job(case.server.format(device=server.rdma_device))) as jobs:
        server.check(f"await-listener tcp {case.port} 20", 30)
        before = soft_roce.counters(native)["rcvd_pkts"]
        jobs.append(client.start_job(case.client.format(device=client.rdma_device, server=server.address)))
        wait_flowing(native, before, jobs[-1])
        yield jobs[0], jobs[1]


@contextmanager
def jobs_killed(*jobs: Job) -> Iterator[list[Job]]:
    """The jobs, to which more may be added. Those that still run at the end are killed."""
    begun = list(jobs)
    try:
        yield begun
    finally:
        for job in begun:
            if not job.done:
                job.kill()


def wait_flowing(native: Vm, before: int, client: Job) -> None:
    """Waits until the native endpoint has received 50 more packets than `before`."""
    end = time.monotonic() + _GUARD_S
    while soft_roce.counters(native)["rcvd_pkts"] < before + 50:
        assert not client.done and time.monotonic() < end, client.output_so_far()
