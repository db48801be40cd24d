"""Fixtures of the VM tests. Booting takes seconds, so tests share clusters as far as possible."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1] / "tools")]

from harness.cluster import Cluster, Setup  # noqa: E402  (the path above comes first)
from harness.daemon import REPOSITORY, expect_quiet_sandboxes  # noqa: E402
from harness.mixed import Mixed  # noqa: E402
from harness.pairing import Pairing  # noqa: E402

_Kind = TypeVar("_Kind")
_MODE = os.environ.get("PVRDMA_DOORBELLS")  # runs with different modes may go on at the same time
_LOGS = REPOSITORY / "build" / (f"vm-logs-{_MODE}" if _MODE else "vm-logs")

# Every run uses the first; the others join in `make test-full`.
_SETUPS = [
    Setup(),
    pytest.param(Setup(hardware_version=14), marks=pytest.mark.full),
    pytest.param(Setup(hardware_version=13), marks=pytest.mark.full),
    pytest.param(Setup(suite="bookworm"), marks=pytest.mark.full),
    pytest.param(Setup(suite="bullseye"), marks=pytest.mark.full),
    pytest.param(Setup(suite="forky"), marks=pytest.mark.full),
]

# Messages that a healthy guest kernel never prints.
_KERNEL_TROUBLE = re.compile(r"^.*(?:WARNING: |BUG: |Oops: |general protection fault|Kernel panic|blocked for more than"
                             r"|vmw_pvrdma \S+: (?:unknown response|failed|could not)).*$", re.MULTILINE)


def pytest_configure() -> None:
    """Makes SIGTERM end the run like Ctrl-C: in order, with every VM and socket cleaned up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # after pytest has put the tests of a fixture's parameter together
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Moves the tests with the marker `last` to the end."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.fixture(autouse=True)
def quiet_sandboxes() -> Iterator[None]:
    """Every daemon runs confined. After each test, no daemon was refused a system call."""
    start = time.time()
    yield
    expect_quiet_sandboxes(_LOGS, start)


class Shared(Generic[_Kind]):
    """VMs that tests share, of one kind at a time. They boot when a test needs them, and again for another kind or after a
    test that failed or ended their daemon."""

    def __init__(self, name: str, make: Callable[[_Kind, Path], Cluster]) -> None:
        self._name = name
        self._make = make
        self._number = 0
        self._failed = 0  # failures in the session before the last loan
        self._kind: _Kind | None = None
        self._cluster: Cluster | None = None

    def close(self) -> None:
        """Ends the VMs."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    @contextmanager
    def lent(self, kind: _Kind, session: pytest.Session) -> Iterator[Cluster]:
        """The VMs, ready for use by one test. Checks afterwards that their kernels are healthy."""
        if session.testsfailed > self._failed:  # also after the end of the last loan: the kernels' check, for example
            self.close()
        self._failed = session.testsfailed
        cluster = self._get(kind)
        before = [vm.console_log.stat().st_size for vm in cluster.vms]
        yield cluster
        if session.testsfailed > self._failed:
            self.close()
        expect_healthy_kernels(cluster, before)

    def _get(self, kind: _Kind) -> Cluster:
        cluster = self._cluster
        if cluster is None or self._kind != kind or cluster.daemon.adapters and not cluster.daemon.running:
            self.close()
            self._number += 1
            self._kind = kind
            self._cluster = cluster = self._make(kind, _LOGS / f"{self._name}-{self._number}").__enter__()
        return cluster


class ClusterFactory:
    """Makes clusters for a single test, which may break them: own_cluster(vm_count=3, ...)."""

    def __init__(self, setup: Setup, logs: Path) -> None:
        self.clusters: list[Cluster] = []
        self._setup = setup
        self._logs = logs

    def __call__(self, **arguments: Any) -> Cluster:
        cluster = Cluster(self._setup, self._logs / str(len(self.clusters)), **arguments)
        self.clusters.append(cluster)
        return cluster.__enter__()


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder for log folders of clusters."""
    return _LOGS


@pytest.fixture(scope="session", params=_SETUPS, ids=lambda setup: setup.id)
def setup(request: pytest.FixtureRequest) -> Setup:
    """The guests' Debian suite and hardware version."""
    return request.param


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[Shared[Setup]]:
    """The VMs behind `pair`."""
    shared = Shared("pair", Cluster)
    yield shared
    shared.close()


@pytest.fixture
def pair(request: pytest.FixtureRequest, setup: Setup, shared_pair: Shared[Setup]) -> Iterator[Cluster]:
    """Two VMs that many tests share. A test may restart them, or continue them in other QEMUs, but must leave both
    ready for use, with their drivers and addresses as it found them. A failed test may leave them in any state."""
    with shared_pair.lent(setup, request.session) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_mixed() -> Iterator[Shared[Setup]]:
    """What is behind `mixed`."""
    shared = Shared("mixed", Mixed)
    yield shared
    shared.close()


@pytest.fixture
def mixed(request: pytest.FixtureRequest, setup: Setup, shared_mixed: Shared[Setup]) -> Iterator[Mixed]:
    """A VM and programs without a VM, which several tests share like `pair`."""
    with shared_mixed.lent(setup, request.session) as cluster:
        assert isinstance(cluster, Mixed)
        yield cluster


@pytest.fixture(scope="session")
def shared_natives() -> Iterator[Shared[Pairing]]:
    """The VMs behind `natives`."""
    shared = Shared("natives", Pairing.cluster)
    yield shared
    shared.close()


@pytest.fixture
def pairing() -> Pairing:
    """The kind of `natives`."""
    return Pairing()


@pytest.fixture
def natives(request: pytest.FixtureRequest, pairing: Pairing, shared_natives: Shared[Pairing]) -> Iterator[Cluster]:
    """A native endpoint, which is the last VM, and its partner, which several tests share like `pair`."""
    with shared_natives.lent(pairing, request.session) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(request: pytest.FixtureRequest, setup: Setup) -> Iterator[ClusterFactory]:
    """Makes clusters for this test alone; they end with the test."""
    factory = ClusterFactory(setup, _LOGS / re.sub(r"[^\w.]+", "-", request.node.name).strip("-"))
    yield factory
    for cluster in factory.clusters:
        cluster.close()
    for cluster in factory.clusters:
        expect_healthy_kernels(cluster)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the end of every log of the clusters involved to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if not report.failed:
        return
    for value in getattr(item, "funcargs", {}).values():
        clusters = [value] if isinstance(value, Cluster) else getattr(value, "clusters", [])
        for cluster in clusters:
            report.sections += cluster.log_tails()


def expect_healthy_kernels(cluster: Cluster, offsets: list[int] | None = None) -> None:
    """Checks that no console shows a kernel's complaint (since it had `offsets` bytes)."""
    for vm, offset in zip(cluster.vms, offsets or [0] * len(cluster.vms)):
        printed = vm.console_log.read_bytes()[offset:].decode(errors="replace")
        trouble = _KERNEL_TROUBLE.findall(printed)
        assert not trouble, f"{vm.name}'s kernel complained (all of it in {vm.console_log}): {trouble}"
