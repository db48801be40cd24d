"""Fixtures of the cluster tests. Booting takes seconds, so tests share fleets as far as possible."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "vm"), str(_HERE.parent / "cli"), str(_HERE.parents[1] / "tools")]

from fleet.fleet import PORTGROUP, SWITCH, Fleet  # noqa: E402  (the path above comes first)
from fleet.host import Certificates  # noqa: E402
from fleet.until import until  # noqa: E402
from harness.daemon import REPOSITORY, expect_quiet_sandboxes  # noqa: E402

_LOGS = REPOSITORY / "build" / "cluster-logs"
_LONG_LEASE_S = 30  # for tests that hide the store while memory is compared, which takes seconds on a busy machine


def pytest_configure() -> None:
    """Makes SIGTERM end the run like Ctrl-C: in order, with everything cleaned up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        pytest.exit("the cluster tests make network namespaces: run them as root", returncode=2)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the tests of `vm_fleet`, only those with the marker `tls` run over TLS in every run. The others do so in
    `make test-full`."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters is not None and parameters.params.get("vm_fleet") == "tls" and item.get_closest_marker("tls") is None:
            item.add_marker(pytest.mark.full)


@pytest.fixture(autouse=True)
def quiet_sandboxes() -> Iterator[None]:
    """Every daemon runs confined. After each test, no daemon was refused a system call."""
    start = time.time()
    yield
    expect_quiet_sandboxes(_LOGS, start)


def make_fleet(name: str, folder: Path, tls: bool = False, **arguments: Any) -> Fleet:
    """A fleet with logs in `name`. With `tls` its hosts have the example's certificates, made in `folder`."""
    if tls:
        hosts = [f"esx-{number:02d}" for number in range(1, arguments.get("host_count", 2) + 1)]
        subprocess.run([REPOSITORY / "examples" / "certificates.sh", folder, *hosts], check=True)
        arguments["certificates"] = {
            host: Certificates(folder / "ca.crt", folder / f"{host}.crt", folder / f"{host}.key") for host in hosts}
    return Fleet(_LOGS / name, **arguments)


@pytest.fixture(scope="session", params=["plain", "tls"])
def vm_fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet configured by the guide, with VM-01 and VM-03 on esx-01 and VM-02 on esx-02, all on, and jumbo
    frames in their port group. A test must leave it as it found it."""
    with make_fleet(f"vms-{request.param}", tmp_path_factory.mktemp("ca"), tls=request.param == "tls", lease_s=_LONG_LEASE_S) as fleet:
        fleet.follow_the_guide()
        fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9000")
        fleet.define_vm("VM-03", 1)
        until("the adapters' MTU", lambda: [adapter["mtu"] for host in fleet.hosts.values() for adapter in host.ctl("adapter", "list")],
              accept=lambda mtus: mtus == [4096] * 3)
        fleet.boot("VM-01", "VM-02", "VM-03", overlays=("nvme",))
        yield fleet


PEERS = {"VM-02": 2, "VM-03": 1, "VM-04": 3}  # of three_hosts, with their hosts


@pytest.fixture(scope="session", params=["plain", "tls"])
def three_hosts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three hosts. VM-01 is on esx-01, and each host has a peer for it. All are on, with jumbo frames in their
    port group. A test must leave it as it found it."""
    tls = request.param == "tls"
    with make_fleet(f"three-hosts-{request.param}", tmp_path_factory.mktemp("ca"), tls, host_count=3, lease_s=_LONG_LEASE_S) as fleet:
        fleet.follow_the_guide()
        fleet.join(3)
        fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--mtu", "9000")
        for name in ("VM-03", "VM-04"):
            fleet.define_vm(name, PEERS[name])
        fleet.boot("VM-01", *PEERS, overlays=("nvme",))
        yield fleet


@pytest.fixture(scope="session")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet configured by the guide, with all VMs off, for faults that heal. A test must leave it as it found
    it."""
    with make_fleet("shared", tmp_path_factory.mktemp("shared")) as fleet:
        fleet.follow_the_guide()
        yield fleet


class SharedFleet:
    """A fleet that tests share. `make` gets its number. After a failed test the next test gets a new one."""

    def __init__(self, make: Callable[[int], AbstractContextManager[Fleet]]) -> None:
        self._make = make
        self._number = 0
        self._failed = 0  # failures in the session before the last loan
        self._fleet: Fleet | None = None
        self._open = ExitStack()

    def close(self) -> None:
        """Ends the fleet."""
        self._fleet = None
        self._open.close()

    def lent(self, session: pytest.Session) -> Fleet:
        """The fleet, for one test."""
        if session.testsfailed > self._failed:
            self.close()
        self._failed = session.testsfailed
        if self._fleet is None:
            self._number += 1
            self._fleet = self._open.enter_context(self._make(self._number))
        return self._fleet


@pytest.fixture(scope="session")
def shared_libvirt_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedFleet]:
    """The fleet behind `libvirt_fleet`."""
    from fleet.libvirt import make_libvirt_fleet  # it imports this module

    shared = SharedFleet(lambda number: make_libvirt_fleet(f"libvirt-{number}", tmp_path_factory.mktemp("libvirt")))
    yield shared
    shared.close()


@pytest.fixture
def libvirt_fleet(request: pytest.FixtureRequest, shared_libvirt_fleet: SharedFleet) -> Fleet:
    """VM-01 and VM-03 are domains of esx-01's libvirt, and are on. A test must leave it so. A failed test may leave it in any
    state."""
    return shared_libvirt_fleet.lent(request.session)


@pytest.fixture
def own_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet for this test alone, not configured. A `fleet` marker's arguments go to make_fleet()."""
    name = re.sub(r"[^\w.]+", "-", request.node.name).strip("-")
    marker = request.node.get_closest_marker("fleet")
    with make_fleet(name, tmp_path, **(marker.kwargs if marker else {})) as fleet:
        yield fleet


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the end of every log of the fleets involved to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Fleet) and value.logs.is_dir():
                report.sections += value.log_tails()
