"""Stock programs exchanging data between two VMs: pingpong and perftest over RC."""

from __future__ import annotations

import pytest

from harness import cases
from harness.cases import Case
from harness.cluster import Cluster
from harness.rdma import DEVICE

_BYTES = r"^\d+ bytes in [\d.]+ seconds"

_PINGPONG = [
    Case(f"pingpong {arguments}", server=f"ibv_rc_pingpong -d {DEVICE} -g 0 {arguments}",
         client=f"ibv_rc_pingpong -d {DEVICE} -g 0 {arguments} {{server}}", expect=(_BYTES,), expect_server=(_BYTES,))
    for arguments in (
        "-c -n 1000",  # -c: the received data is compared
        "-c -n 1000 -e",
        "-c -n 200 -s 65536 -m 1024",
        "-c -n 100 -s 1048576 -e",
    )
]


def _perftest(program: str, arguments: str, sizes: tuple[int, ...]) -> Case:
    """A perftest pair whose result table must have a row for each of `sizes`."""
    command = f"{program} -x 0 -F -d {DEVICE} {arguments}"
    rows = tuple(rf"^ *{size} +\d+ +[\d.]+" for size in sizes)
    return Case(f"{program} {arguments}", server=command, client=f"{command} {{server}}", expect=rows, guard_s=120)


_ALL_SIZES = (2, 4096, 65536, 1 << 20, 8 << 20)
_PERFTEST = [
    *(_perftest(f"ib_{verb}_{kind}", "-a -n 100", _ALL_SIZES)
      for verb in ("write", "read", "send") for kind in ("bw", "lat")),
    *(_perftest(f"ib_{verb}_bw", arguments, (65536,))
      for verb in ("write", "read", "send") for arguments in ("-q 8 -n 500", "-b -n 500", "-q 8 -b -n 500")),
    _perftest("ib_send_bw", "-e -n 500", (65536,)),
    _perftest("ib_write_bw", "-m 1024 -n 500", (65536,)),
    *(_perftest(f"ib_atomic_{kind}", f"-A {operation} -n 500", (8,))
      for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD") for kind in ("bw", "lat")),
]


@pytest.mark.parametrize("case", _PINGPONG + _PERFTEST, ids=lambda case: case.name.replace(" ", "_"))
def test_traffic(pair: Cluster, case: Case) -> None:
    server, client = pair.vms
    cases.run(case, server, client)


def test_both_ends_in_one_vm(pair: Cluster) -> None:
    vm = pair.vms[0]
    cases.run(_PINGPONG[0], vm, vm)


def test_traffic_is_counted(pair: Cluster) -> None:
    def transmitted_bytes() -> int:
        return sum(int(pair.daemon.ctl("adapter", "get", vm.name)["tx_bytes"]) for vm in pair.vms)

    before = transmitted_bytes()
    server, client = pair.vms
    cases.run(_perftest("ib_write_bw", "-n 500 -s 65536", (65536,)), server, client)
    assert transmitted_bytes() - before >= 500 * 65536
