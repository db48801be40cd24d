"""pvrdmactl fault: real daemon, real traffic of the user-space driver, while faults come and go.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... RC_CHECKER=... /usr/bin/python3 -m pytest tests/cli/test_fault.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from test_cli import Daemon, adapter, pvrdmad, run, running_daemon
from traffic import RC_CHECKER, Traffic, traffic, until

OFF = ("pvrdmactl: this daemon injects no faults: start it with --fault-injection, or set fault_injection = true in "
       "[daemon]\n")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Two adapters of a daemon that is ready and allows faults."""
    with running_daemon(tmp_path, "fault_injection = true\n" + adapter(tmp_path, 1) + adapter(tmp_path, 2)) as running:
        yield running


def only_fault(daemon: Daemon) -> Any:
    (fault,) = daemon.ctl_json("fault", "list")  # type: ignore[misc,attr-defined]
    return fault


def retransmits(daemon: Daemon) -> int:
    return sum(qp["retransmits"] for qp in daemon.ctl_json("qp", "list"))  # type: ignore[attr-defined]


def nothing_comes_again(daemon: Daemon, running: Traffic) -> bool:
    """Whether nothing is retransmitted in enough rounds that losing a fiftieth of the messages would show. On a
    slow machine a guest's timer may end without a loss."""
    before = retransmits(daemon)
    running.advance(100)
    return retransmits(daemon) == before


@pytest.mark.parametrize(("option", "count"), [("drop", "dropped"), ("duplicate", "duplicated"), ("delay", "delayed"),
                                               ("reorder", "reordered"), ("corrupt", "corrupted")])
def test_faults_come_and_go_under_traffic(daemon: Daemon, option: str, count: str) -> None:
    with traffic(daemon.folder, daemon.folder / "rc_checker.log") as running:
        done = daemon.ctl("fault", "add", "--adapter", "VM-01", f"--{option}", "0.02", "--seed", "7")
        assert (done.returncode, done.stdout) == (0, "Fault 1\n   Adapter: VM-01\n   Seed: 7\n"), done.stderr
        until(f"some are {count}", lambda: only_fault(daemon)["counts"][count] >= 3)
        running.advance(2)
        fault = only_fault(daemon)
        assert fault["counts"]["messages"] > fault["counts"][count]
        if option != "delay":  # messages after a late one are delayed, too
            others = {key: value for key, value in fault["counts"].items() if key not in ("messages", count)}
            assert set(others.values()) == {0}
        assert daemon.ctl("fault", "remove", "1").returncode == 0
        assert daemon.ctl_json("fault", "list") == []
        until("nothing is injected any more", lambda: nothing_comes_again(daemon, running))


def test_only_what_the_adapter_sends_meets_its_faults(daemon: Daemon) -> None:
    """The faults also stay when the adapter's VMM leaves and comes back."""
    assert daemon.ctl("fault", "add", "--adapter", "VM-02", "--drop", "0.000001", "--seed", "1").returncode == 0
    for _ in range(2):
        before = only_fault(daemon)["counts"]["messages"]
        with traffic(daemon.folder, daemon.folder / "rc_checker.log") as running:
            running.advance(2)
        assert only_fault(daemon)["counts"]["messages"] > before
    adapters = {each["name"]: each for each in daemon.ctl_json("adapter", "list")}  # type: ignore[attr-defined]
    assert only_fault(daemon)["counts"]["messages"] == adapters["VM-02"]["paths"]["local"]["messages"]


def test_everything_lost_ends_a_connection_and_no_other(daemon: Daemon) -> None:
    assert daemon.ctl("fault", "add", "--adapter", "VM-01", "--drop", "1").returncode == 0
    done = run(RC_CHECKER, "--a", str(daemon.folder / "vm-01.sock"), "--b", str(daemon.folder / "vm-02.sock"),
               "--timeout", "8", "--rounds", "1")
    assert done.returncode != 0
    assert daemon.ctl("fault", "remove", "--adapter", "VM-01").returncode == 0
    done = run(RC_CHECKER, "--a", str(daemon.folder / "vm-01.sock"), "--b", str(daemon.folder / "vm-02.sock"), "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_adapter_has_one_fault(daemon: Daemon) -> None:
    assert daemon.ctl("fault", "add", "--adapter", "VM-01", "--drop", "0.5").returncode == 0
    assert daemon.ctl("fault", "add", "--adapter", "VM-02", "--corrupt", "0.5", "--late-ms", "30").returncode == 0
    done = daemon.ctl("fault", "add", "--adapter", "VM-01", "--drop", "0.1")
    assert (done.returncode, done.stderr) == (1, "pvrdmactl: adapter VM-01 has fault 1 already: remove it first\n")
    one, two = daemon.ctl_json("fault", "list")  # type: ignore[misc]
    assert (one["id"], one["adapter"], one["drop"], one["late_ms"]) == (1, "VM-01", 0.5, 1)
    assert (two["adapter"], two["drop"], two["corrupt"], two["late_ms"]) == ("VM-02", 0, 0.5, 30)
    assert daemon.ctl_json("fault", "list", "--adapter", "VM-02") == [two]
    assert daemon.ctl("fault", "remove", "--all").returncode == 0
    assert daemon.ctl_json("fault", "list") == []
    done = daemon.ctl("fault", "remove", "1")
    assert (done.returncode, done.stderr) == (1, 'pvrdmactl: there is no fault "1": pvrdmactl fault list shows them\n')


def test_mistakes_are_one_sentence(daemon: Daemon) -> None:
    for value in ("2", "nan", "-1"):
        done = daemon.ctl("fault", "add", "--adapter", "VM-01", f"--drop={value}")
        assert done.returncode == 2
        assert "is not a probability: it takes 0 to 1" in done.stderr
    done = daemon.ctl("fault", "add", "--adapter", "VM-09", "--drop", "0.1")
    assert (done.returncode, done.stderr) == (1, 'pvrdmactl: there is no adapter "VM-09": pvrdmactl adapter list shows them\n')
    done = daemon.ctl("fault", "add", "--adapter", "VM-01")
    assert done.returncode == 1
    assert "this fault does nothing: give a probability" in done.stderr
    assert daemon.ctl_json("fault", "list") == []


def test_faults_are_off_by_default(tmp_path: Path) -> None:
    with running_daemon(tmp_path, adapter(tmp_path, 1)) as daemon:
        done = daemon.ctl("fault", "add", "--adapter", "VM-01", "--drop", "0.1")
        assert (done.returncode, done.stderr) == (1, OFF)
        assert daemon.ctl_json("fault", "list") == []
    done = run(*pvrdmad(tmp_path, "--fault-injection", "--config", str(tmp_path / "pvrdmad.toml"), "--check"))
    assert done.returncode == 0, done.stderr
