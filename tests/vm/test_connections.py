"""Connections that rdma_cm makes: the guests' own ib_cm talks to QP 1 of the peer, over IPv4 and IPv6 GIDs."""

from __future__ import annotations

import re

import pytest

from harness import cases, rdma
from harness.cases import Case
from harness.cluster import Cluster
from harness.programs import RDMA_CLIENT, RPING_PEER_ENDED, perftest, rping, rstream, ucmatose, udaddy

_CASES = [
    rping(300),
    *(rping(50, address) for address in ("{server6}", "{local6}%eth0")),
    ucmatose("-c 10 -C 10 -S 4000"),
    ucmatose("-c 4 -C 4", "{server6}"),
    udaddy("-c 10 -C 10 -S 500"),
    udaddy("-c 4 -C 4", "{local6}%eth0"),  # the provider makes address handles only for link-local and IPv4 GIDs
    perftest("ib_write_bw", "-R -n 500", (65536,)),
    RDMA_CLIENT,
    *(rstream(size, arguments) for size, arguments in ((64, "-C 300 -T v"), (65536, "-C 50 -T v"))),
]
_LONG = [
    rping(5000),
    rping(3000, "{server6}"),
    rping(1000, arguments="-V -S 60000"),
    ucmatose("-c 50 -C 200 -S 16000"),
    udaddy("-c 50 -C 100"),
    *(perftest(f"ib_{verb}_bw", "-R -n 500 -q 8", (65536,)) for verb in ("write", "read", "send")),
    perftest("ib_send_lat", "-R -n 500", (2,)),
    perftest("ib_send_bw", "-R -c UD -n 500", (1024,)),
    # Not -T a: its last poll sometimes sees the peer's hang-up together with the data, and rstream ends with 16
    # (POLLHUP).
    *(rstream(size, f"-C 100 -I 10 -T v -T {mode}") for size in (1000, 1 << 20) for mode in "nb"),
]


@pytest.mark.parametrize("case", [*_CASES, *(pytest.param(case, marks=pytest.mark.full) for case in _LONG)],
                         ids=cases.name)
def test_connection(pair: Cluster, case: Case) -> None:
    cases.run(case, *pair.vms)


@pytest.mark.parametrize("case", [rping(100), ucmatose("-c 4 -C 4")], ids=cases.name)
def test_the_other_direction(pair: Cluster, case: Case) -> None:
    first, second = pair.vms
    cases.run(case, second, first)


def test_guests_with_jumbo_frames_on_a_port_without(pair: Cluster) -> None:
    assert [rdma.active_mtu(vm) for vm in pair.vms] == [1024, 1024]
    with rdma.jumbo_frames(*pair.vms):
        for case in (rping(100), perftest("ib_write_bw", "-R -n 500", (65536,)), udaddy("-c 4 -C 4 -S 500")):
            cases.run(case, *pair.vms)


def test_both_ends_in_one_vm(pair: Cluster) -> None:
    vm = pair.vms[1]
    cases.run(rping(50), vm, vm)


def test_200_connections_at_once_made_again_and_again(pair: Cluster) -> None:
    for _ in range(2):
        cases.run(ucmatose("-c 200 -C 5"), *pair.vms)
        _expect_no_qps_but_gsi(pair)


def test_nobody_listens(pair: Cluster) -> None:
    refused = pair.vms[1].run(f"rping -c -C 1 -a {pair.vms[0].address}", 60)
    assert "RDMA_CM_EVENT_REJECTED" in refused.output, refused.output


@pytest.mark.full
def test_no_such_host(pair: Cluster) -> None:
    failed = pair.vms[1].run("rping -c -C 1 -a 192.168.11.99", 120)
    assert re.search("RDMA_CM_EVENT_(ADDR_ERROR|ROUTE_ERROR|UNREACHABLE)", failed.output), failed.output


def test_a_server_killed_in_the_middle(pair: Cluster) -> None:
    server, client = pair.vms
    server_job = server.start_job("rping -s -C 1000000")
    server.check("await-listener rdma 20", 30)
    client_job = client.start_job(f"rping -c -C 1000000 -a {server.address}")
    client.check("n=0; until rdma resource show qp | grep 'type RC' | grep -q 'state RTS'; do "
                 "n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; done", 60)
    server_job.kill()
    ended = client_job.wait(60)  # rping may or may not report it by its exit code; the test only checks that it ends
    assert RPING_PEER_ENDED.search(ended.output), ended.output
    _expect_no_qps_but_gsi(pair)
    cases.run(rping(20), server, client)


def _expect_no_qps_but_gsi(cluster: Cluster) -> None:
    left = [qp for qp in cluster.daemon.ctl("qp", "list") if int(qp["qpn"]) != 1]
    assert not left, f"QPs that outlived their programs: {left}"


def test_a_new_address_is_a_new_gid(pair: Cluster) -> None:
    server, client = pair.vms
    server.check("ip address add 192.168.11.151/24 dev eth0")
    try:
        cases.run(Case("rping to a new address", server="rping -s -C 20 -a 192.168.11.151",
                       client="rping -c -v -C 20 -a 192.168.11.151", expect=("rdma-ping-19:",), port=None),
                  server, client)
    finally:
        server.check("ip address del 192.168.11.151/24 dev eth0")
    assert "192.168.11.151" not in server.check("ibv_devinfo -v")
