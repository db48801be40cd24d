"""rdma_cm between a guest, with its stock kernel, and programs of this machine that have an adapter without a VM."""

from __future__ import annotations

import platform
import re
import time

import pytest

from harness import cases, node_cases, rdma
from harness.cases import Case
from harness.mixed import Mixed
from harness.process_node import ProcessNode
from harness.programs import RDMA_CLIENT, RPING_PEER_ENDED, perftest, rping, rstream, ucmatose, udaddy
from harness.vm import Vm

_GUARD_S = 60

_CASES = [
    rping(100),
    rping(50, "{local6}%{nic}"),
    ucmatose("-c 10 -C 10 -S 4000"),
    perftest("ib_send_bw", "-R -n 500", (65536,)),
    perftest("ib_read_lat", "-R -n 200", (2,)),
    rstream(4096, "-C 50 -T v"),
    udaddy("-c 1 -C 50 -S 500"),  # a client with more could be refused in part, and its server would wait for ever
]
_MORE_CASES = [
    rping(50, "{server6}"),
    perftest("ib_write_bw", "-R -n 500", (65536,)),
    RDMA_CLIENT,
    perftest("ib_send_bw", "-R -c UD -n 500", (1024,)),
    rping(500, arguments="-V -S 60000"),
    ucmatose("-c 200 -C 50"),
    *(perftest(f"ib_{verb}_bw", "-R -n 500 -q 8", (65536,)) for verb in ("write", "read", "send")),
    rstream(1 << 20, "-C 50 -T v"),
]


def _ends(mixed: Mixed, serves: str) -> tuple[Vm | ProcessNode, Vm | ProcessNode]:
    """(server, client)"""
    return (mixed.vm, mixed.node) if serves == "vm" else (mixed.node, mixed.vm)


@pytest.mark.parametrize("case", [*_CASES, *(pytest.param(case, marks=pytest.mark.full) for case in _MORE_CASES)], ids=cases.name)
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_connection(mixed: Mixed, case: Case, serves: str) -> None:
    node_cases.run(case, *_ends(mixed, serves))


def test_guest_with_jumbo_frames(mixed: Mixed) -> None:
    """Its kernel then asks for a path MTU of 4096 bytes."""
    with rdma.jumbo_frames(mixed.vm):
        for serves in ("vm", "node"):
            node_cases.run(rping(100), *_ends(mixed, serves))


@pytest.mark.parametrize("serves", ["vm", "node"])
@pytest.mark.parametrize("program", ["rping -c -C 1 -p 7999 -a {address}", "ucmatose -p 7999 -s {address}"])
def test_nobody_listens(mixed: Mixed, program: str, serves: str) -> None:
    server, client = _ends(mixed, serves)
    refused = client.run(program.format(address=server.address))
    assert re.search("REJECTED, error:? 8$", refused.output, re.MULTILINE), refused.output


@pytest.mark.parametrize("serves", ["vm", "node"])
def test_nobody_listens_for_datagrams(mixed: Mixed, serves: str) -> None:
    server, client = _ends(mixed, serves)
    refused = client.run(f"udaddy -c 1 -s {server.address}")
    assert "RDMA_CM_EVENT_UNREACHABLE, error: 1\n" in refused.output, refused.output


def test_udaddy_with_several_ids(mixed: Mixed) -> None:
    cases.run(udaddy("-c 10 -C 10 -S 500"), mixed.vm, mixed.node)


@pytest.mark.full
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_cmtime(mixed: Mixed, serves: str) -> None:
    """Many connections at once. Its server runs until it is killed."""
    if mixed.setup.suite != platform.freedesktop_os_release().get("VERSION_CODENAME"):
        pytest.skip("cmtime speaks only with its own version: later ones connect in two rounds")
    server, client = _ends(mixed, serves)
    serving = server.start_job(f"cmtime -c 20 -b {server.address}")
    end = time.monotonic() + _GUARD_S
    try:
        while node_cases.REFUSED.search((timed := client.run(f"cmtime -c 20 -s {server.address}")).output):
            assert time.monotonic() < end, timed.output
    finally:
        serving.kill()
    assert timed.exit_code == 0 and re.search(r"^disconnect +: +[\d.]+", timed.output, re.MULTILINE), timed.output


@pytest.mark.parametrize("killed", ["vm", "node"])
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_peer_that_is_killed(mixed: Mixed, serves: str, killed: str) -> None:
    """The kernel, or the stand-in, of the program that was killed tells the other end."""
    serving, calling = node_cases.start_rping(*_ends(mixed, serves))
    dying, hearing = (serving, calling) if serves == killed else (calling, serving)
    dying.kill()
    heard = hearing.wait(_GUARD_S)
    assert RPING_PEER_ENDED.search(heard.output), heard.output[-2000:]
