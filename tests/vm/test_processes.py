"""rdma_cm between a guest, with its stock kernel, and programs of this machine that have an adapter without a VM."""

from __future__ import annotations

import re
import time

import pytest

from harness import cases, rdma
from harness.cases import Case
from harness.mixed import Mixed
from harness.process_node import ProcessJob, ProcessNode
from harness.programs import RDMA_CLIENT, perftest, rping, rstream, ucmatose, udaddy
from harness.vm import Job, Vm

_GUARD_S = 60
_REFUSED = re.compile(r"REJECTED|UNREACHABLE[,;] error: 1\.?$|Connection refused|Unexpected CM event", re.IGNORECASE | re.MULTILINE)

_CASES = [
    rping(100),
    rping(50, "{server6}"),
    ucmatose("-c 10 -C 10 -S 4000"),
    perftest("ib_send_bw", "-R -n 500", (65536,)),
    perftest("ib_write_bw", "-R -n 500", (65536,)),
    perftest("ib_read_lat", "-R -n 200", (2,)),
    rstream(4096, "-C 50 -T v"),
    RDMA_CLIENT,
    udaddy("-c 1 -C 50 -S 500"),  # a client with more could be refused in part, and its server would wait for ever
    perftest("ib_send_bw", "-R -c UD -n 500", (1024,)),
]
_LONG = [
    rping(500, arguments="-V -S 60000"),
    ucmatose("-c 200 -C 50"),
    *(perftest(f"ib_{verb}_bw", "-R -n 500 -q 8", (65536,)) for verb in ("write", "read", "send")),
    rstream(1 << 20, "-C 50 -T v"),
]


def _ends(mixed: Mixed, serves: str) -> tuple[Vm | ProcessNode, Vm | ProcessNode]:
    """(server, client)"""
    return (mixed.vm, mixed.node) if serves == "vm" else (mixed.node, mixed.vm)


def _run(case: Case, server: Vm | ProcessNode, client: Vm | ProcessNode) -> None:
    """Runs the case. A node cannot tell whether its server listens yet. If the client came too early, both begin again, and
    the client waits longer. A client with several connections may be refused in part, so the server has to begin again, too.
    """
    if isinstance(server, Vm):
        cases.run(case, server, client)
        return
    values = {"server": server.address, "server6": server.address6}
    for head_start_s in (0.1, 1, 5, 20):
        job = server.start_job(case.server.format(**values, device=server.rdma_device))
        try:
            time.sleep(head_start_s)
            command = case.client.format(**values, device=client.rdma_device)
            client_result = client.run(command, case.guard_s)
            if _REFUSED.search(client_result.output):
                continue
            server_result = job.wait(case.guard_s)
            break
        finally:
            job.kill()
    else:
        pytest.fail(f"{case.name}: refused: {client_result.output}")
    problems = (cases.problem(case, client, command, client_result, case.expect),
                cases.problem(case, server, job.command, server_result, case.expect_server))
    assert not any(problems), "\n".join(filter(None, problems))


@pytest.mark.parametrize("case", [*_CASES, *(pytest.param(case, marks=pytest.mark.full) for case in _LONG)], ids=cases.name)
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_connection(mixed: Mixed, case: Case, serves: str) -> None:
    _run(case, *_ends(mixed, serves))


def test_guest_with_jumbo_frames(mixed: Mixed) -> None:
    """Its kernel then asks for a path MTU of 4096 bytes."""
    with rdma.jumbo_frames(mixed.vm):
        for serves in ("vm", "node"):
            _run(rping(100), *_ends(mixed, serves))


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


def _start_rping(mixed: Mixed, serves: str) -> tuple[Job | ProcessJob, Job | ProcessJob]:
    """(server's, client's) job, once data has been exchanged."""
    server, client = _ends(mixed, serves)
    serving = server.start_job(f"rping -s -v -a {server.address}")
    if isinstance(server, Vm):
        server.check("await-listener rdma 20", 30)
    end = time.monotonic() + _GUARD_S
    calling = client.start_job(f"rping -c -v -a {server.address}")
    while "ping data" not in calling.output_so_far():
        assert time.monotonic() < end, calling.output_so_far()
        if calling.done:
            assert _REFUSED.search(calling.output_so_far()), calling.output_so_far()
            calling = client.start_job(calling.command)
        time.sleep(0.05)
    return serving, calling


@pytest.mark.parametrize("killed", ["vm", "node"])
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_peer_that_is_killed(mixed: Mixed, serves: str, killed: str) -> None:
    """The kernel, or the stand-in, of the program that was killed tells the other end."""
    serving, calling = _start_rping(mixed, serves)
    dying, hearing = (serving, calling) if serves == killed else (calling, serving)
    dying.kill()
    heard = hearing.wait(_GUARD_S)
    assert "DISCONNECT EVENT" in heard.output, heard.output[-2000:]
