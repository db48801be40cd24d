"""Stock programs exchanging data between two VMs: pingpong and perftest over RC."""

from __future__ import annotations

import pytest

from harness import cases, programs
from harness.cases import Case
from harness.cluster import Cluster

# -c compares the received data.
_PINGPONG = [programs.pingpong("rc", arguments)
             for arguments in ("-c -n 1000", "-c -n 1000 -e", "-c -n 200 -s 65536 -m 1024", "-c -n 100 -s 1048576 -e")]
_ALL_SIZES = (2, 4096, 65536, 1 << 20, 8 << 20)
_PERFTEST = [
    programs.perftest("ib_write_bw", "-a -n 50", _ALL_SIZES),
    *(programs.perftest(f"ib_{verb}_bw", f"-n 50 -s {1 << 20}", (1 << 20,)) for verb in ("read", "send")),
    *(programs.perftest(f"ib_{verb}_lat", f"-n 100 -s {size}", (size,)) for verb in ("write", "read", "send") for size in (2, 65536)),
    *(programs.perftest(f"ib_{verb}_bw", arguments, (65536,))
      for verb in ("write", "read", "send") for arguments in ("-q 8 -n 500", "-b -n 500", "-q 8 -b -n 500")),
    programs.perftest("ib_send_bw", "-e -n 500", (65536,)),
    programs.perftest("ib_write_bw", "-m 1024 -n 500", (65536,)),
    *(programs.perftest(f"ib_atomic_{kind}", f"-A {operation} -n 500", (8,))
      for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD") for kind in ("bw", "lat")),
]
# Before the first message, perftest fills its buffer byte by byte: 8 MiB, which takes seconds without KVM.
_LONG = [*(programs.perftest(f"ib_{verb}_lat", "-a -n 20", _ALL_SIZES) for verb in ("write", "read", "send")),
         *(programs.perftest(f"ib_{verb}_bw", "-a -n 50", _ALL_SIZES) for verb in ("read", "send"))]


@pytest.mark.parametrize("case", [*_PINGPONG, *_PERFTEST, *(pytest.param(case, marks=pytest.mark.full) for case in _LONG)], ids=cases.name)
def test_traffic(pair: Cluster, case: Case) -> None:
    server, client = pair.vms
    cases.run(case, server, client)


def test_both_ends_in_one_vm(pair: Cluster) -> None:
    vm = pair.vms[0]
    cases.run(_PINGPONG[1], vm, vm)  # -e: one processor serves both


def test_traffic_is_counted(pair: Cluster) -> None:
    def transmitted_bytes() -> int:
        return sum(int(pair.daemon.ctl("adapter", "get", vm.name)["tx_bytes"]) for vm in pair.vms)

    before = transmitted_bytes()
    server, client = pair.vms
    cases.run(programs.perftest("ib_write_bw", "-n 500 -s 65536", (65536,)), server, client)
    assert transmitted_bytes() - before >= 500 * 65536
