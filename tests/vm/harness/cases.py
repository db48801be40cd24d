"""A case: a server program in one VM, a client program in another, and what they have to print.

Adding one is a `Case(...)` in a test module's list. Time limits are hang guards, not performance checks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.channel import Result
from harness.vm import Vm

_LISTEN_GUARD_S = 20


@dataclass(frozen=True)
class Case:
    """`{server}` in `client` stands for the server VM's address. `expect` and `expect_server` are regular expressions,
    each of which must match somewhere in that side's output (^ and $ are line ends). Both sides must exit with 0.

    `port` is the TCP port the server listens on before the client may start; None waits for an rdma_cm listener.
    """

    name: str
    server: str
    client: str
    expect: tuple[str, ...] = ()
    expect_server: tuple[str, ...] = ()
    port: int | None = 18515
    guard_s: float = 60.0


def run(case: Case, server: Vm, client: Vm) -> tuple[Result, Result]:
    """Runs the case; AssertionError with both outputs when a side fails. Returns (server's, client's) result."""
    job = server.start_job(case.server)
    listening = f"tcp {case.port}" if case.port is not None else "rdma"
    waited = server.run(f"await-listener {listening} {_LISTEN_GUARD_S}", _LISTEN_GUARD_S + 10)
    if waited.exit_code != 0 and not job.done:
        printed = job.output_so_far()
        job.kill()
        raise AssertionError(f"{case.name}: {server.name} '{case.server}' never listened; it printed:\n{printed}")
    try:
        client_result = client.run(case.client.format(server=server.address), case.guard_s)
        server_result = job.wait(case.guard_s)
    except BaseException:
        if server.running and not job.done:
            job.kill()
        raise
    _check(case, server, case.server, server_result, case.expect_server)
    _check(case, client, case.client, client_result, case.expect)
    return server_result, client_result


def _check(case: Case, vm: Vm, command: str, result: Result, patterns: tuple[str, ...]) -> None:
    missing = [pattern for pattern in patterns if not re.search(pattern, result.output, re.MULTILINE)]
    if result.exit_code == 0 and not missing:
        return
    problem = f"exit code {result.exit_code}" if result.exit_code else f"nothing matches {missing}"
    raise AssertionError(f"{case.name}: {vm.name} '{command}': {problem}; output:\n{result.output}")
