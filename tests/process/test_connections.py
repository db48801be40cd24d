"""Stock programs that use librdmacm: connections through the stand-ins' connection manager."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import PATIENCE_S, Machine, address_of, is_refusal, until
from test_programs import both_ways

_PROGRAMS = Path(__file__).parent / "programs"


@both_ways
def test_rping(shared_machine: Machine, port: str, nodes: tuple[int, int]) -> None:
    address = address_of(nodes[0])
    server = ["rping", "-s", "-v", "-C", "10", "-p", port, "-a", address]
    output, client = shared_machine.connect(server, ["rping", "-c", "-v", "-C", "10", "-p", port, "-a", address], nodes)
    assert len(re.findall(r"server ping data: rdma-ping-\d", output)) == 10, output
    assert len(re.findall(r"ping data: rdma-ping-\d", client)) == 10, client


@both_ways
def test_rping_over_ipv6(machine: Machine, nodes: tuple[int, int]) -> None:
    for node in (0, 1):
        machine.run("--start", "--node", str(node), "--address", address_of(node), "--address", f"fd00:99::{node + 1}", node=None)
    address = f"fd00:99::{nodes[0] + 1}"
    output, client = machine.connect(["rping", "-s", "-V", "-C", "10", "-a", address],
                                     ["rping", "-c", "-v", "-V", "-C", "10", "-a", address], nodes)
    assert len(re.findall(r"ping data: rdma-ping-\d", client)) == 10 and "DISCONNECT EVENT" in output, (output, client)


@both_ways
def test_link_local_addresses(shared_machine: Machine, port: str, nodes: tuple[int, int]) -> None:
    """The scope id, which programs must give, may be of any interface: a device has one link."""
    gid = shared_machine.run("cat", "/sys/class/infiniband/vmw_pvrdma0/ports/1/gids/0", node=nodes[0]).stdout.strip()
    address = f"{ipaddress.IPv6Address(gid)}%lo"
    _, client = shared_machine.connect(["rping", "-s", "-V", "-C", "10", "-p", port, "-a", address],
                                       ["rping", "-c", "-v", "-V", "-C", "10", "-p", port, "-a", address], nodes)
    assert len(re.findall(r"ping data: rdma-ping-\d", client)) == 10, client
    server, client = (["udaddy", flag, address, "-c", "1", "-C", "50", "-S", "500"] for flag in ("-b", "-s"))
    outputs = shared_machine.connect(server, client, nodes)
    assert all("return status 0" in each for each in outputs), outputs


def test_link_local_address_without_scope(shared_machine: Machine, port: str) -> None:
    """As a kernel says it."""
    done = shared_machine.run("rping", "-s", "-p", port, "-a", "fe80::1")
    assert done.returncode != 0 and "Invalid argument" in done.stdout, done.stdout


@both_ways
def test_udaddy(shared_machine: Machine, nodes: tuple[int, int]) -> None:
    """Datagrams: the client asks for the server's QP."""
    server, client = (["udaddy", flag, address_of(nodes[0]), "-c", "1", "-C", "50", "-S", "500"] for flag in ("-b", "-s"))
    outputs = shared_machine.connect(server, client, nodes)
    assert all("return status 0" in each for each in outputs), outputs


def test_nobody_listens_for_datagrams(shared_machine: Machine) -> None:
    """As a kernel says it: unreachable, with the status "unsupported"."""
    done = shared_machine.run("udaddy", "-c", "1", "-s", address_of(1))
    assert done.returncode != 0 and "RDMA_CM_EVENT_UNREACHABLE, error: 1\n" in done.stdout, done.stdout


def test_multicast_is_refused(shared_machine: Machine) -> None:
    done = shared_machine.run("mckey", "-b", address_of(0), "-m", "239.1.1.1")
    assert done.returncode != 0 and "Operation not supported" in done.stdout, done.stdout


@both_ways
def test_ucmatose(shared_machine: Machine, port: str, nodes: tuple[int, int]) -> None:
    common = ["-p", port, "-c", "5", "-C", "10", "-S", "1000"]
    output, client = shared_machine.connect(["ucmatose", *common], ["ucmatose", *common, "-s", address_of(nodes[0])], nodes)
    assert "return status 0" in output and "return status 0" in client, (output, client)


_PERFTEST_ROW = re.compile(r"^ *\d+ +\d+(\s+[\d.]+){3}", re.MULTILINE)


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_send_bw", "ib_read_lat"])
def test_perftest_by_connections(shared_machine: Machine, port: str, program: str) -> None:
    """Its server closes its listener and listens again. A request that comes in between waits (`cm/parked_requests.h`)."""
    command = [program, "-R", "-F", "-p", port, "-n", "200"]
    _, output = shared_machine.connect(command, [*command, address_of(0)], (0, 1))
    assert _PERFTEST_ROW.search(output), output


def test_perftest_by_datagrams(shared_machine: Machine, port: str) -> None:
    """A request for datagrams does not wait for the server's second listener, so the client does (programs/listens_again.c)."""
    library = shared_machine.folder / "listens_again.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, _PROGRAMS / "listens_again.c"], check=True)
    told = shared_machine.own_folder(f"listens-again-{port}")
    environment = {"LISTENS_AGAIN": str(told), "LD_PRELOAD": str(library)}
    command = ["ib_send_bw", "-c", "UD", "-R", "-F", "-p", port, "-n", "200"]
    _, output = shared_machine.pair(command, [*command, address_of(0)], (0, 1), (told / "listening-1").exists, **environment)
    shutil.rmtree(told)
    assert _PERFTEST_ROW.search(output), output


@both_ways
def test_rstream(shared_machine: Machine, port: str, nodes: tuple[int, int]) -> None:
    """Sockets over RDMA: connections without an event channel, whose ids move to one of their own (MIGRATE_ID)."""
    common = ["-p", port, "-S", "4096", "-C", "50", "-T", "b"]
    _, client = shared_machine.connect(["rstream", *common, "-b", address_of(nodes[0])], ["rstream", *common, "-s", address_of(nodes[0])], nodes)
    assert re.search(r"4k", client), client


@both_ways
def test_connections_without_event_channel(shared_machine: Machine, port: str, nodes: tuple[int, int]) -> None:
    """librdmacm's examples of rdma_create_ep and rdma_get_request: each id has a channel of its own, to which it moves."""
    address = address_of(nodes[0])
    outputs = shared_machine.connect(["rdma_server", "-s", address, "-p", port], ["rdma_client", "-s", address, "-p", port], nodes)
    assert "rdma_server: end 0\n" in outputs[0] and "rdma_client: end 0\n" in outputs[1], outputs


@pytest.fixture(scope="module", name="migrate_id")
def _migrate_id(shared_machine: Machine) -> Iterator[Path]:
    program = shared_machine.folder / "migrate_id"
    subprocess.run(["gcc", "-O1", "-g", "-o", program, _PROGRAMS / "migrate_id.c", "-lrdmacm", "-libverbs", "-pthread"], check=True)
    yield program
    program.unlink()


@pytest.mark.parametrize("case", ["accepted", "connecting", "queued"])
def test_ids_that_change_their_channel(shared_machine: Machine, migrate_id: Path, port: str, case: str) -> None:
    done = shared_machine.run(str(migrate_id), case, address_of(0), port)
    assert done.returncode == 0 and done.stdout == "passed\n", done.stdout


def test_cmtime(shared_machine: Machine, port: str) -> None:
    """Many connections at once. Its server runs until it is killed."""
    common = ["-p", port, "-c", "50"]
    while True:
        server = shared_machine.popen("cmtime", *common, "-b", address_of(0))
        client = shared_machine.run("cmtime", *common, "-s", address_of(0), node=1)
        os.kill(server.pid, signal.SIGKILL)
        server.communicate(timeout=PATIENCE_S)
        if client.returncode == 0 or not is_refusal(client.stdout):
            break
    assert client.returncode == 0 and re.search(r"^disconnect +: +[\d.]+", client.stdout, re.MULTILINE), client.stdout


def test_nobody_listens(shared_machine: Machine, port: str) -> None:
    """As a kernel says it: rejected, with the reason "invalid service id"."""
    done = shared_machine.run("rping", "-c", "-C", "1", "-p", port, "-a", address_of(1))
    assert done.returncode != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in done.stdout, done.stdout


@pytest.mark.parametrize("killed", ["server", "client"])
def test_peer_that_is_killed(shared_machine: Machine, port: str, killed: str) -> None:
    """Its stand-in tells the other end."""
    server = shared_machine.popen("rping", "-s", "-v", "-p", port, "-a", address_of(0))
    while True:
        client = shared_machine.popen("rping", "-c", "-v", "-p", port, "-a", address_of(0), node=1)
        assert client.stdout is not None
        line = client.stdout.readline()
        if line.startswith("ping data"):
            break
        rest, _ = client.communicate(timeout=PATIENCE_S)
        assert is_refusal(line + rest), line + rest
    dying, hearing = (server, client) if killed == "server" else (client, server)
    os.kill(dying.pid, signal.SIGKILL)
    output, _ = hearing.communicate(timeout=PATIENCE_S)
    # A request that is under way when the memory of the killed program goes fails with a remote access error.
    assert re.search("DISCONNECT EVENT|cq completion failed status 10$", output, re.MULTILINE), output


def test_standin_that_is_killed(machine: Machine, port: str) -> None:
    """A program that waits for an event of a connection ends with an error."""
    server = machine.popen("rping", "-s", "-C", "1", "-p", port, "-a", address_of(0))
    # Two cannot listen: when the second has ended, one of them waits.
    second = machine.popen("rping", "-s", "-C", "1", "-p", port, "-a", address_of(0))
    until(lambda: server.poll() is not None or second.poll() is not None, "one of two servers has ended")
    waiting = server if server.poll() is None else second
    os.kill(machine.processes()["node0"], signal.SIGKILL)
    output, _ = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode != 0 and "Input/output error" in output, output


def test_ports(shared_machine: Machine, port: str) -> None:
    """A port has one listener, and is free again when that has gone."""
    server = ["rping", "-s", "-C", "1", "-p", port, "-a", address_of(0)]
    client = ["rping", "-c", "-C", "1", "-p", port, "-a", address_of(0)]
    both = [shared_machine.popen(*server), shared_machine.popen(*server)]
    until(lambda: any(each.poll() is not None for each in both), "one of two servers has ended")
    loser, winner = both if both[0].poll() is not None else reversed(both)
    assert "Address already in use" in loser.communicate(timeout=PATIENCE_S)[0]
    until(lambda: shared_machine.run(*client, node=1).returncode == 0, "the other one listens and takes a client")
    assert winner.wait(timeout=PATIENCE_S) == 0
    shared_machine.connect(server, client, (0, 1))


@pytest.mark.parametrize(
    ("case", "result"),
    [
        ("dup", "the waiting thread has the event"),
        ("again", "each file has its event"),
        ("move", "ids move as in a kernel"),
        ("fault", "the other thread goes on"),
    ])
def test_files(shared_machine: Machine, case: str, result: str) -> None:
    done = shared_machine.run("/usr/bin/python3", str(_PROGRAMS / "connection_files.py"), case)
    assert done.returncode == 0 and done.stdout.strip() == result, done.stdout
