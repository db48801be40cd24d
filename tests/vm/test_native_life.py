"""A guest and a native endpoint, of which one disappears under traffic and comes back: Soft-RoCE is unloaded, or
the guest's machine is reset."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness import cases, rdma, soft_roce
from harness.channel import GuestLost
from harness.cluster import Cluster
from harness.programs import exactly_once
from harness.under_way import exactly_once_under_way, jobs_killed, wait_flowing

_GUARD_S = 60
_ENDLESS = "-n 1000000 -k siwo -t 15"
_RETRY_EXCEEDED = "transport retry counter exceeded"
_LOAD = "ib_write_bw -x 1 -F -D 300 -u 12 -p 18516 -d"


@pytest.fixture
def natives(natives: Cluster) -> Iterator[Cluster]:
    """A guest and a native endpoint. After each test everything works again: traffic in both directions, and no
    QP has outlived its program."""
    yield natives
    guest, native = natives.vms
    for server, client in ((guest, native), (native, guest)):
        cases.run(exactly_once(f"-n 20 {soft_roce.NO_EMPTY}"), server, client)
    left = [qp for qp in natives.daemon.ctl("qp", "list") if int(qp["qpn"]) != 1]
    assert not left, f"QPs that outlived their programs: {left}"


@pytest.mark.parametrize("native_calls", [False, True], ids=["native_serves", "native_calls"])
def test_soft_roce_is_unloaded_under_traffic(natives: Cluster, native_calls: bool) -> None:
    guest, native = natives.vms
    server, client = (guest, native) if native_calls else (native, guest)
    with exactly_once_under_way(server, client, native, _ENDLESS) as jobs:
        of_guest, of_native = jobs if native_calls else jobs[::-1]
        unloaded = native.start_job(f"rdma link delete {soft_roce.DEVICE} && rmmod rdma_rxe")  # waits for the program
        of_native.kill()
        assert unloaded.wait(_GUARD_S).exit_code == 0, unloaded.output_so_far()
        if not native_calls:  # a server waits for requests
            ended = of_guest.wait(_GUARD_S)
            assert ended.exit_code == 1 and _RETRY_EXCEEDED in ended.output, ended.output
    soft_roce.add_device(native)


def test_the_guests_machine_is_reset_under_traffic(natives: Cluster) -> None:
    """Both are clients. The test ends the native endpoint's program, because Soft-RoCE may repeat for ever."""
    guest, native = natives.vms
    pid = natives.daemon.pid
    with jobs_killed(guest.start_job(f"{_LOAD} {guest.rdma_device}")) as jobs:
        guest.check("await-listener tcp 18516 20", 30)
        before = soft_roce.counters(native)["rcvd_pkts"]
        calling = native.start_job(f"{_LOAD} {native.rdma_device} {guest.address}")
        jobs.append(calling)
        wait_flowing(native, before, calling)
        with exactly_once_under_way(native, guest, native, _ENDLESS) as (_, of_guest):
            end = time.monotonic() + _GUARD_S
            while len(natives.daemon.ctl("path", "list")) < 2:
                assert not of_guest.done and time.monotonic() < end, of_guest.output_so_far()
            guest.reset()
            with pytest.raises(GuestLost):
                of_guest.wait()
    assert natives.daemon.running and natives.daemon.pid == pid
    rdma.wait_active(guest)
