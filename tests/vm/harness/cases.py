"""A case: a server program in one VM, a client program in another, and the output that they must print.

Adding one is a `Case(...)` in a test module's list. Time limits are hang guards, not performance checks.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from harness.channel import GuestLost, GuestTimeout, Result
from harness.process_node import ProcessNode
from harness.vm import Job, Vm

_LISTEN_GUARD_S = 20
_LAST_WORDS_S = 10  # for a server whose client has failed: it ends by itself, or is killed
_load_numbers = itertools.count(1)


@dataclass(frozen=True)
class Case:
    """`{server}` in a command line stands for the server VM's IPv4 address, `{server6}` for its IPv6 address and `{local6}`
    for its link-local one, `{device}` for the RDMA device of the VM that it runs in, `{nic}` for its interface. `expect` and
    `expect_server` are regular expressions. Each must match somewhere in that side's output (^ and $ are line ends). Both
    sides must exit with 0.

    `listens_again`: after a first connection the server closes its listener and listens again. A client that comes earlier is
    refused, and does not survive it, so a fast one (of a process) is held until the server listens.

    `port` is the TCP port the server listens on before the client may start; None waits for an rdma_cm listener.

    A case with `{end}` in its commands is a load: both sides go on until the file of this name exists in their VM
    (`under_way`).
    """

    name: str
    server: str
    client: str
    expect: tuple[str, ...] = ()
    expect_server: tuple[str, ...] = ()
    port: int | None = 18515
    guard_s: float = 60.0
    listens_again: bool = False


def name(case: Case) -> str:
    """The case's name as a pytest id."""
    return case.name.replace(" ", "_")


def run(case: Case, server: Vm, client: Vm | ProcessNode, end_file: str = "") -> tuple[Result, Result]:
    """Runs the case. AssertionError with both outputs if a side fails. Returns (server's, client's) result. `end_file` is
    for loads."""
    values = {"server": server.address, "server6": server.address6, "local6": server.link_local, "end": end_file}
    server_command = case.server.format(**values, device=server.rdma_device, nic=server.nic)
    client_command = case.client.format(**values, device=client.rdma_device, nic=client.nic)
    job = server.start_job(server_command)
    await_listener = f"await-listener {f'tcp {case.port}' if case.port is not None else 'rdma'} {_LISTEN_GUARD_S}"
    waited = server.run(await_listener, _LISTEN_GUARD_S + 10)
    if waited.exit_code != 0 and not job.done:
        printed = job.output_so_far()
        job.kill()
        raise AssertionError(f"{case.name}: {server.name} '{server_command}' never listened; it printed:\n{printed}")
    try:
        if case.listens_again and isinstance(client, ProcessNode):
            client_result = client.run_held(
                client_command, lambda: server.check(await_listener, _LISTEN_GUARD_S + 10), case.guard_s)
        else:
            client_result = client.run(client_command, case.guard_s)
        if client_result.exit_code != 0:  # then the server may wait for ever
            raise AssertionError("\n".join((problem(case, client, client_command, client_result, case.expect),
                                            "The server: " + _last_words(server, job))))
        server_result = job.wait(case.guard_s)
    except BaseException:
        if server.running and not job.done:
            job.kill()
        raise
    problems = (problem(case, server, server_command, server_result, case.expect_server),
                problem(case, client, client_command, client_result, case.expect))
    if any(problems):
        raise AssertionError("\n".join(filter(None, problems)))
    return server_result, client_result


@contextmanager
def under_way(case: Case, server: Vm, client: Vm) -> Iterator[Future[tuple[Result, Result]]]:
    """Runs a load during the block, ends it, and checks its results. Yields their future, which is done before only if
    the load has ended too early.

    The client is told first, because its program may fail when the server's ends, which then is no error.
    """
    assert "{end}" in case.client, f"{case.name} ends by itself"
    end_file = f"/tmp/end-{next(_load_numbers)}"  # a new one, so a load that has hardly begun sees its end, too
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(run, case, server, client, end_file)
        try:
            yield load
        finally:
            for vm in (client, server):
                with suppress(GuestLost, GuestTimeout):  # the load's result says more
                    vm.run(f"touch {end_file}")
        load.result()


def problem(case: Case, vm: Vm | ProcessNode, command: str, result: Result, patterns: tuple[str, ...]) -> str:
    """What is wrong with a side's result; empty if it is correct."""
    missing = [pattern for pattern in patterns if not re.search(pattern, result.output, re.MULTILINE)]
    if result.exit_code == 0 and not missing:
        return ""
    why = f"exit code {result.exit_code}" if result.exit_code else f"nothing matches {missing}"
    return f"{case.name}: {vm.name} '{command}': {why}; output:\n{result.output}"


def _last_words(vm: Vm, job: Job) -> str:
    try:
        result = job.wait(_LAST_WORDS_S)
    except (GuestTimeout, GuestLost) as error:
        return str(error)
    return f"{vm.name} '{job.command}': exit code {result.exit_code}; output:\n{result.output}"
