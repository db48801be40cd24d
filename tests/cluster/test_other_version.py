"""Hosts with another build of pvrdmad, PVRDMA_OTHER_DAEMON: the daemon is replaced under running VMs, and VMs
move from one version to the other."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import make_fleet
from fleet.fleet import Fleet
from fleet.loads import under_way, wait_until_they_flow
from fleet.service import Service
from harness import cases, programs
from harness.daemon import binary
from test_motion import migrate

_OTHER = os.environ.get("PVRDMA_OTHER_DAEMON")
_PINGPONG = programs.pingpong("rc", "-c -e -n 300")

pytestmark = [pytest.mark.full, pytest.mark.skipif(_OTHER is None, reason="PVRDMA_OTHER_DAEMON names no other build of pvrdmad")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, list[Service]]]:
    """Two hosts whose daemons are services, and four VMs that are on: VM-02 on esx-02, the others on esx-01. Each host has two
    shards, but one while it runs the other build, which may know of one only."""
    with make_fleet("other-version", tmp_path_factory.mktemp("other"), shards=2) as fleet:
        fleet.follow_the_guide()
        for name in ("VM-03", "VM-04"):
            fleet.define_vm(name, 1)
        services = []
        for host in fleet.hosts.values():
            host.program = host.folder / "pvrdmad"
            host.program.symlink_to(binary("pvrdmad"))
            services.append(host.become_service())
        fleet.boot("VM-01", "VM-02", "VM-03", "VM-04")
        yield fleet, services


def _change(fleet: Fleet, services: list[Service], number: int, program: Path) -> None:
    fleet[number].program.unlink()
    fleet[number].program.symlink_to(program)
    config = fleet[number].config
    shards = 1 if program == Path(str(_OTHER)) else fleet.shards
    config.write_text(re.sub(r"^shards = \d+$", f"shards = {shards}", config.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8")
    services[number - 1].call("restart")


def test_upgraded_and_back_under_load(served: tuple[Fleet, list[Service]]) -> None:
    fleet, services = served
    one, two, three, four = (fleet.vms[f"VM-{number:02d}"] for number in (1, 2, 3, 4))
    other, this = Path(str(_OTHER)), binary("pvrdmad")
    moved = lambda: {each["name"]: int(each["tx_bytes"]) + int(each["rx_bytes"]) for each in fleet[1].ctl("adapter", "list")}
    with under_way({"VM-01": (programs.exactly_once_load(), two, one), "VM-03": (programs.rping_load(), four, three)}) as loads:
        for number, program in ((1, other), (1, this), (2, other), (1, other), (2, this), (1, this)):
            wait_until_they_flow(loads, moved)
            _change(fleet, services, number, program)
        wait_until_they_flow(loads, moved)
    cases.run(_PINGPONG, two, one)
    cases.run(_PINGPONG, three, one)


@pytest.mark.parametrize("there", [1, 2], ids=["esx-01 is the other", "esx-02 is the other"])
def test_a_vm_goes_there_and_back(served: tuple[Fleet, list[Service]], there: int) -> None:
    fleet, services = served
    _change(fleet, services, there, Path(str(_OTHER)))
    one, two, three = (fleet.vms[f"VM-{number:02d}"] for number in (1, 2, 3))
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(cases.run, programs.exactly_once("-n 40000 -t 20"), one, two)
        for origin, destination in ((1, 2), (2, 1)):
            motion = migrate(fleet, "VM-01", origin, destination)
            assert motion["state"] == "done", motion
        load.result()
    cases.run(_PINGPONG, one, three)
    _change(fleet, services, there, binary("pvrdmad"))
