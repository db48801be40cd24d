"""UD and shared receive queues: pingpong and perftest."""

from __future__ import annotations

import pytest

from harness import cases, programs
from harness.cases import Case
from harness.cluster import Cluster, Setup
from harness.programs import perftest, pingpong

_UD = [
    *(pingpong("ud", arguments, gid_index) for arguments, gid_index in (("-n 500", 0), ("-n 500 -e", 1))),
    perftest("ib_send_bw", "-c UD -n 500", (1024,), gid_index=1),
    perftest("ib_send_bw", "-c UD -q 4 -n 200 -s 512", (512,)),
    perftest("ib_send_lat", "-c UD -n 500", (2,), gid_index=1),
]
_SRQ = [
    *(pingpong("srq", arguments, gid_index) for arguments, gid_index in (("-c -n 500", 1), ("-c -n 500 -e", 0))),
    pingpong("srq", "-c -q 16 -r 300 -n 500 -e"),
    perftest("ib_send_bw", "--use-srq -n 500", (65536,)),
    perftest("ib_send_bw", "--use-srq -q 4 -n 200", (65536,)),
    perftest("ib_send_lat", "--use-srq -n 500", (2,)),
]
_LONG = [
    pingpong("ud", "-n 20000 -s 1024", gid_index=1),
    pingpong("srq", "-c -q 32 -r 500 -n 20000"),
    *(perftest("ib_send_bw", f"-c UD -a -n 500 {arguments}", (2, 256, 1024)) for arguments in ("", "-b")),
    perftest("ib_send_lat", "-c UD -a -n 500", (2, 256, 1024)),
    perftest("ib_send_bw", "--use-srq -a -n 100 -q 8", (2, 65536, 1 << 20)),
    perftest("ib_send_bw", "--use-srq -q 8 -b -e -n 500", (65536,)),
]
_LONG_RUNS = [pytest.param(case, marks=pytest.mark.full) for case in _LONG]


def _skip_without_srq(case: Case, setup: Setup) -> None:
    if "srq" in case.name and setup.hardware_version < 14:
        pytest.skip("SRQ is there from VM hardware version 14 on")


@pytest.mark.parametrize("case", [*_UD, *_SRQ, *_LONG_RUNS], ids=cases.name)
def test_datagrams_and_shared_receive_queues(pair: Cluster, case: Case) -> None:
    _skip_without_srq(case, pair.setup)
    cases.run(case, *pair.vms)


def test_both_ends_in_one_vm(pair: Cluster) -> None:
    vm = pair.vms[0]
    cases.run(programs.pingpong("ud", "-n 500 -e", gid_index=1), vm, vm)
