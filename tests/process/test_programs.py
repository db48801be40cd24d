"""Stock programs between two adapters, and between two processes of one adapter."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from machine import PATIENT_UCX, Machine

NODES = {"two adapters": (0, 1), "one adapter": (0, 0)}
both_ways = pytest.mark.parametrize("nodes", NODES.values(), ids=NODES.keys())

PINGPONGS = ["ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_srq_pingpong", "ibv_srq_pingpong -e", "ibv_ud_pingpong -e"]
PERFTESTS = [
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat",
    "ib_send_lat -e", "ib_send_bw -e", "ib_send_bw -c UD", "ib_send_bw --use-srq", "ib_write_bw -b", "ib_write_bw -q 8",
]


def test_devices(shared_machine: Machine) -> None:
    listed = shared_machine.run("ibv_devices")
    assert listed.returncode == 0, listed.stdout
    assert re.search(r"vmw_pvrdma0\s+505400fffec10000", listed.stdout), listed.stdout
    details = shared_machine.run("ibv_devinfo", "-v", node=1)
    assert details.returncode == 0, details.stdout
    for wanted in ("PORT_ACTIVE", "Ethernet", "fe80::5054:ff:fec1:1, RoCE v2", "::ffff:10.99.0.2, RoCE v2"):
        assert wanted in details.stdout, details.stdout


@both_ways
@pytest.mark.parametrize("program", PINGPONGS)
def test_pingpong(shared_machine: Machine, port: str, program: str, nodes: tuple[int, int]) -> None:
    command = [*program.split(), "-g", "0", "-p", port, "-n", "200"]
    outputs = shared_machine.pair(command, [*command, "127.0.0.1"], nodes)
    assert all("200 iters" in output for output in outputs), outputs


@both_ways
@pytest.mark.parametrize("program", PERFTESTS)
def test_perftest(shared_machine: Machine, port: str, program: str, nodes: tuple[int, int]) -> None:
    command = [*program.split(), "-F", "-p", port, "-n", "500"]
    _, output = shared_machine.pair(command, [*command, "127.0.0.1"], nodes)
    # The line of results: bytes, iterations, figures.
    assert re.search(r"^ *\d+ +\d+(\s+[\d.]+){3}", output, re.MULTILINE), output


def test_all_sizes(shared_machine: Machine, port: str) -> None:
    command = ["ib_write_bw", "-F", "-a", "-p", port, "-n", "5"]
    _, output = shared_machine.pair(command, [*command, "127.0.0.1"], (0, 1))
    assert re.search(r"^ *8388608 +5 ", output, re.MULTILINE), output


def test_addresses(shared_machine: Machine, port: str) -> None:
    """By IPv4 GIDs instead of link-local ones."""
    command = ["ibv_rc_pingpong", "-g", "1", "-p", port, "-n", "100"]
    outputs = shared_machine.pair(command, [*command, "127.0.0.1"], (0, 1))
    assert "::ffff:10.99.0.2" in outputs[0], outputs


@pytest.mark.parametrize("transport, test", [("ud_verbs", "tag_lat"), ("rc", "tag_lat"), ("rc", "tag_bw")])
def test_ucx(shared_machine: Machine, port: str, transport: str, test: str) -> None:
    environment = PATIENT_UCX | {"UCX_TLS": transport, "UCX_NET_DEVICES": "vmw_pvrdma0:1", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    command = ["ucx_perftest", "-p", port]
    _, output = shared_machine.pair(command, [*command, "-t", test, "-n", "2000", "127.0.0.1"], (0, 1), **environment)
    assert re.search(r"^Final: +2000 ", output, re.MULTILINE), output


def _events_under_load(machine: Machine, port: int, rounds: int, load: int) -> None:
    """Programs that wait for one event per completion hang if an event is lost."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(load)]
    try:
        for _ in range(rounds):
            command = ["ib_send_lat", "-F", "-e", "-p", str(port), "-n", "200"]
            machine.pair(command, [*command, "127.0.0.1"], (0, 1))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_events_under_load(shared_machine: Machine, port: str) -> None:
    _events_under_load(shared_machine, int(port), rounds=3, load=os.cpu_count() or 1)


@pytest.mark.full
def test_many_events_under_load(shared_machine: Machine, port: str) -> None:
    _events_under_load(shared_machine, int(port), rounds=50, load=4 * (os.cpu_count() or 1))
