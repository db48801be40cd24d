"""A fixture of pytest: programs on machines ("nodes") with an RDMA device each, on one switch. Copy it into the folder of
your tests. `pvrdma-run` must be in the PATH."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest


class Node:
    """Node 0 to 7. Its device has the address as a GID; no network interface has it."""

    def __init__(self, number: int, started: list[subprocess.Popen[str]]) -> None:
        self.number = number
        self.address = f"10.99.0.{number + 1}"
        self._started = started

    def popen(self, command: list[str], **options: object) -> subprocess.Popen[str]:
        """Starts the command with this node's device. It is killed at the end of the test."""
        process = subprocess.Popen(["pvrdma-run", "--node", str(self.number), *command], text=True, **options)
        self._started.append(process)
        return process


@pytest.fixture
def pvrdma_node() -> Iterator[Callable[[int], Node]]:
    """pvrdma_node(1).popen(["ib_write_bw"]) runs a program on node 1."""
    started: list[subprocess.Popen[str]] = []
    yield lambda number: Node(number, started)
    for process in started:
        process.kill()
        process.wait()
