"""Programs of this machine that have an adapter without a VM, and a native endpoint, Linux's Soft-RoCE, on one switch with a VM."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from conftest import Shared
from harness import node_cases, soft_roce
from harness.cases import Case, name
from harness.cluster import Setup
from harness.process_node import ProcessJob
from harness.programs import RDMA_CLIENT, RPING_PEER_ENDED, perftest, pingpong, rping, rstream, ucmatose, udaddy
from harness.trio import Trio
from harness.vm import Job

_IPV4, _IPV6 = 1, 2  # GID indices at all three
_GUARD_S = 60
_MORE_PINGS = 50
_NODE_SERVES, _NODE_CALLS = "node_serves", "node_calls"
_SECOND = "-u 18"  # as in test_native.py
_READS = f"{_SECOND} -o 16"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the node's host is a network namespace: only root makes those")


@pytest.fixture(scope="module")
def shared_trio() -> Iterator[Shared[Setup]]:
    shared = Shared("trio", Trio)
    yield shared
    shared.close()


@pytest.fixture
def trio(request: pytest.FixtureRequest, shared_trio: Shared[Setup]) -> Iterator[Trio]:
    """A test must leave all of it as it found it."""
    with shared_trio.lent(Setup(), request.session) as cluster:
        assert isinstance(cluster, Trio)
        yield cluster


_BOTH_WAYS = [
    perftest("ib_write_bw", f"{_SECOND} -n 20", (65536,), _IPV4),
    perftest("ib_write_bw", "-R -n 20", (65536,)),
    rping(20),
]
_ONE_WAY = [
    pingpong("ud", "-n 50 -s 1000", _IPV4),
    ucmatose("-c 4 -C 5 -S 4000"),
    udaddy("-c 1 -C 4 -S 500"),
    rping(20, "{local6}%{nic}"),
]
_LONG = [
    pingpong("rc", "-c -n 100", _IPV4),
    pingpong("rc", "-c -n 100 -e", _IPV6),
    pingpong("srq", "-c -n 100", _IPV4),
    perftest("ib_read_bw", f"{_READS} -n 20", (65536,), _IPV4),
    perftest("ib_write_bw", f"{_SECOND} -q 8 -b -n 10", (65536,), _IPV4),
    perftest("ib_send_bw", f"{_SECOND} -n 20", (65536,), _IPV4),
    perftest("ib_send_lat", f"{_SECOND} -e -n 50", (2,), _IPV4),
    perftest("ib_atomic_bw", f"{_READS} -n 100", (8,), _IPV4),
    perftest("ib_send_lat", "-c UD -n 100", (2,), _IPV4),
    perftest("ib_read_bw", f"{_READS} -R -n 20", (65536,)),
    perftest("ib_send_bw", "-R -n 20 -q 4", (65536,)),
    rping(50, arguments="-V -S 60000"),
    rping(20, "{server6}"),
    ucmatose("-c 50 -C 20 -S 16000"),
    rstream(4096, "-C 10 -T v"),
    RDMA_CLIENT,
]


def _every_run(cases: list[Case], *roles: str) -> list[tuple[Case, str]]:
    return [(case, role) for case in cases for role in roles]


def _full_run(cases: list[Case], *roles: str) -> list[Any]:
    return [pytest.param(*values, marks=pytest.mark.full) for values in _every_run(cases, *roles)]


@pytest.mark.parametrize(("case", "role"), [
    *_every_run(_BOTH_WAYS, _NODE_SERVES, _NODE_CALLS), *_every_run(_ONE_WAY, _NODE_CALLS), *_full_run(_ONE_WAY, _NODE_SERVES),
    *_full_run(_LONG, _NODE_SERVES, _NODE_CALLS)], ids=lambda value: name(value) if isinstance(value, Case) else value)
def test_node_and_native_endpoint(trio: Trio, case: Case, role: str) -> None:
    before = soft_roce.counters(trio.native)
    node_cases.run(case, *((trio.node, trio.native) if role == _NODE_SERVES else (trio.native, trio.node)))
    counted = soft_roce.counted(before, soft_roce.counters(trio.native))
    assert {"sent_pkts", "rcvd_pkts"} & counted.keys(), "the packets went another way"


_WITH_A_VM = [
    *(pingpong("rc", arguments, _IPV4) for arguments in ("-c -n 200", "-c -n 200 -e")),
    pingpong("srq", "-c -n 200 -e", _IPV4),
    pingpong("ud", "-n 50 -s 1000", _IPV4),
    perftest("ib_write_bw", "-a -n 20", (2, 65536, 8 << 20), _IPV4),
    perftest("ib_write_bw", "-q 8 -b -n 100", (65536,), _IPV4),
    *(perftest(f"ib_{verb}_bw", "-n 300", (65536,), _IPV4) for verb in ("write", "read", "send")),
    *(perftest(f"ib_{verb}_lat", "-n 100", (2,), _IPV4) for verb in ("write", "read", "send")),
    *(perftest(f"ib_atomic_{kind}", "-n 100", (8,), _IPV4) for kind in ("bw", "lat")),
    perftest("ib_send_lat", "-e -n 100", (2,), _IPV4),
    perftest("ib_send_lat", "-c UD -n 100", (2,), _IPV4),
    perftest("ib_send_bw", "--use-srq -q 4 -n 100", (65536,), _IPV4),
]


@pytest.mark.full
@pytest.mark.parametrize("case", _WITH_A_VM, ids=name)
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_plain_verbs_with_a_vm(trio: Trio, case: Case, serves: str) -> None:
    """Their TCP goes over the same Ethernet."""
    node_cases.run(case, *((trio.vm, trio.node) if serves == "vm" else (trio.node, trio.vm)))


def test_neighbor_that_is_not_known_yet(trio: Trio) -> None:
    """The GIDs are of IPv6 addresses, while TCP uses IPv4: the stand-in has the kernel ask for the MAC address."""
    subprocess.run([*trio.nic.inside, "ip", "-6", "neighbour", "flush", "dev", "eth0"], check=True)
    node_cases.run(pingpong("rc", "-c -n 100", _IPV6), trio.native, trio.node)


@pytest.mark.parametrize("role", [_NODE_SERVES, _NODE_CALLS])
def test_nobody_listens(trio: Trio, role: str) -> None:
    server, client = (trio.node, trio.native) if role == _NODE_SERVES else (trio.native, trio.node)
    refused = client.run(f"rping -c -C 1 -p 7999 -a {server.address}")
    assert re.search("REJECTED, error 8$", refused.output, re.MULTILINE), refused.output


@pytest.mark.parametrize(("role", "killed"), [
    (_NODE_SERVES, "server"), (_NODE_SERVES, "client"),
    *(pytest.param(_NODE_CALLS, killed, marks=pytest.mark.full) for killed in ("server", "client"))])
def test_peer_that_is_killed(trio: Trio, role: str, killed: str) -> None:
    """The kernel, or the stand-in, of the program that was killed tells the other end."""
    server, client = (trio.node, trio.native) if role == _NODE_SERVES else (trio.native, trio.node)
    serving, calling = node_cases.start_rping(server, client)
    dying, hearing = (serving, calling) if killed == "server" else (calling, serving)
    dying.kill()
    heard = hearing.wait(_GUARD_S)
    assert RPING_PEER_ENDED.search(heard.output), heard.output[-2000:]


def test_all_three_pairs_at_once(trio: Trio) -> None:
    with ExitStack() as jobs:
        callers = []
        for server, client in ((trio.vm, trio.native), (trio.native, trio.node), (trio.node, trio.vm)):
            serving, calling = node_cases.start_rping(server, client)
            for job in (serving, calling):
                jobs.callback(job.kill)
            callers.append(calling)
        before = [_pings(each) for each in callers]
        end = time.monotonic() + _GUARD_S
        while not all(_pings(each) >= count + _MORE_PINGS for each, count in zip(callers, before)):
            assert time.monotonic() < end, (before, [_pings(each) for each in callers])
            time.sleep(0.2)
        paths: dict[str, set[str]] = {}
        for path in trio.daemon.ctl("path", "list"):
            paths.setdefault(path["adapter"], set()).add(path["path"])
        assert paths == {"VM-01": {"roce", "local"}, "NODE-01": {"roce", "local"}}
        assert not any(each.done for each in callers)


def _pings(job: Job | ProcessJob) -> int:
    return job.output_so_far().count("ping data")
