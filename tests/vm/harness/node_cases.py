"""Runs a case when programs without a VM are its server, its client or both."""

from __future__ import annotations

import re
import time
from typing import Union

import pytest

from harness import cases
from harness.cases import Case
from harness.process_node import ProcessJob, ProcessNode
from harness.vm import Job, Vm

Machine = Union[Vm, ProcessNode]

REFUSED = re.compile(r"REJECTED|UNREACHABLE[,;] error: 1\.?$|Connection refused|Unexpected CM event", re.IGNORECASE | re.MULTILINE)
_GUARD_S = 60


def run(case: Case, server: Machine, client: Machine) -> None:
    """Runs the case. A node cannot tell whether its server listens yet by rdma_cm. If the client came too early, both begin
    again, and the client waits longer. A client with several connections may be refused in part, so the server has to begin
    again, too.
    """
    if isinstance(server, Vm):
        cases.run(case, server, client)
        return
    values = {"server": server.address, "server6": server.address6, "local6": server.link_local}
    for head_start_s in (0.1, 1, 5, 20):
        job = server.start_job(case.server.format(**values, device=server.rdma_device, nic=server.nic))
        try:
            _wait(case, job, head_start_s)
            command = case.client.format(**values, device=client.rdma_device, nic=client.nic)
            client_result = client.run(command, case.guard_s)
            if REFUSED.search(client_result.output):
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


def start_rping(server: Machine, client: Machine) -> tuple[Job | ProcessJob, Job | ProcessJob]:
    """(server's, client's) job of an endless rping, once data has been exchanged. Both ends compare it."""
    serving = server.start_job(f"rping -s -v -V -a {server.address}")
    if isinstance(server, Vm):
        server.check("await-listener rdma 20", 30)
    end = time.monotonic() + _GUARD_S
    calling = client.start_job(f"rping -c -v -V -a {server.address}")
    while "ping data" not in calling.output_so_far():
        assert time.monotonic() < end, calling.output_so_far()
        if calling.done:
            assert REFUSED.search(calling.output_so_far()), calling.output_so_far()
            calling = client.start_job(calling.command)
        time.sleep(0.05)
    return serving, calling


def _wait(case: Case, job: ProcessJob, head_start_s: float) -> None:
    """Until the server listens, as far as one can see that from here."""
    if case.port is None:
        time.sleep(head_start_s)
        return
    end = time.monotonic() + _GUARD_S
    while not job.listens(case.port):
        assert not job.done and time.monotonic() < end, f"{case.name}: the server never listened: {job.output_so_far()}"
        time.sleep(0.02)
