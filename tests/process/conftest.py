"""Fixtures: a machine of one user, and TCP ports that nobody uses."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import PVRDMA_RUN, Machine, listens

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

_ports = itertools.count(20000 + os.getpid() % 10000)


@pytest.fixture
def port() -> str:
    """Below the range from which the kernel gives ports to clients."""
    return str(next(each for each in _ports if not listens(each)))


@pytest.fixture(scope="session")
def shared_machine() -> Iterator[Machine]:
    """For tests that leave daemon and stand-ins as they were."""
    machine = Machine()
    machine.run("--start")
    machine.run("--start", node=1)
    yield machine
    machine.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """For tests that start, end or kill daemon and stand-ins."""
    machine = Machine()
    yield machine
    machine.close()


def pytest_sessionstart() -> None:
    assert subprocess.run([PVRDMA_RUN, "--version"], check=False).returncode == 0, f"{PVRDMA_RUN} is missing: make programs"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the logs of daemon and stand-ins, and the adapters' counters, to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if not report.failed:
        return
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, Machine):
            report.sections += [("logs of daemon and stand-ins", value.logs()), ("adapters", json.dumps(value.ask("adapters")))]
