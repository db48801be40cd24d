"""Stock programs between two adapters that two threads of one daemon serve."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from machine import BUILD, REPOSITORY, Machine, address_of, listens, until

PERFTESTS = [
    "ib_write_bw", "ib_write_bw -a -n 5", "ib_write_bw -b", "ib_write_bw -q 8", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat",
    "ib_read_lat", "ib_send_lat", "ib_send_lat -e", "ib_send_lat -c UD", "ib_send_bw -c UD -n 5000",
]

# Programs that run while their adapters move. Each runs for some seconds.
MOVING = ["ib_write_bw -D 3", "ib_write_bw -D 3 -q 8 -s 512", "ib_read_bw -D 3", "ib_send_bw -D 3", "ib_atomic_bw -D 3", "ib_send_lat -n 500",
          "ib_send_lat -e -n 500"]
# Both adapters, to the same shard and to different ones, forth and back. At the end each is where it was.
PLACES = [("node0", 1), ("node1", 0), ("node0", 0), ("node1", 1)]
# Into the ward, which is shard 1 beside one shard, and out of it: one adapter, the other one, both.
WARD_PLACES = [("node1", 1), ("node0", 1), ("node1", 0), ("node0", 0)]
# Of exactly_once. It takes no other port.
EXACTLY_ONCE_PORT = 18515


def _names(process: int) -> set[str]:
    """The names of its threads."""
    return {(each / "comm").read_text().strip() for each in Path(f"/proc/{process}/task").iterdir()}


@pytest.fixture(scope="module", name="shards")
def _shards() -> Iterator[Machine]:
    """Node 0 is on the first shard, node 1 on the second."""
    machine = Machine()
    daemon = machine.start_daemon("--shards", "2")
    until(lambda: _names(daemon.pid) >= {"shard-0", "shard-1"} or daemon.poll() is not None, "the daemon serves on two shards")
    assert daemon.poll() is None, daemon.communicate()[0]
    until(machine.api.exists, "the daemon serves")
    for node in range(2):
        machine.run("--start", node=node)
    yield machine
    machine.close()


@pytest.fixture(name="warded")
def _warded() -> Iterator[Machine]:
    """Both nodes are on the only shard, beside the ward."""
    machine = Machine()
    machine.start_daemon("--ward")
    until(machine.api.exists, "the daemon serves")
    for node in range(2):
        machine.run("--start", node=node)
    yield machine
    machine.close()


def _ctl(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUILD / "src/pvrdmactl/pvrdmactl", "--api", machine.api, *arguments], capture_output=True, text=True, check=False)


def _list(machine: Machine, *arguments: str) -> str:
    """What pvrdmactl says."""
    done = _ctl(machine, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _places(machine: Machine) -> list[list[str]]:
    """The adapters of each shard."""
    return [each["adapters"] for each in json.loads(_list(machine, "--json", "system", "shard", "list"))["shards"]]


@contextmanager
def _adapters_move(machine: Machine, places: list[tuple[str, int]] = PLACES, rounds_least: int = 2) -> Iterator[list[int]]:
    """Moves the adapters, again and again, and yields the list of their pauses in us. Each move must succeed."""
    before = [sorted(each) for each in _places(machine)]
    pauses: list[int] = []
    failed: list[str] = []
    rounds = 0
    ends = threading.Event()

    def move() -> None:
        nonlocal rounds
        while not ends.is_set() or rounds < rounds_least:
            for adapter, shard in places:
                done = _ctl(machine, "--json", "adapter", "shard", "set", adapter, "--shard", str(shard))
                if done.returncode != 0:
                    failed.append(done.stderr)
                    return
                answer = json.loads(done.stdout)
                assert answer["from"] != answer["to"] == shard
                pauses.append(answer["pause_us"])
            rounds += 1

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield pauses
    finally:
        ends.set()
        mover.join()
    assert not failed, failed
    assert rounds >= rounds_least
    assert [sorted(each) for each in _places(machine)] == before
    print(f"{len(pauses)} moves, pauses in us: median {sorted(pauses)[len(pauses) // 2]}, longest {max(pauses)}")


def test_each_shard_is_listed_with_its_adapter(shards: Machine) -> None:
    answer = json.loads(_list(shards, "--json", "system", "shard", "list"))
    assert answer["why_one"] == ""
    assert [(each["number"], each["adapters"]) for each in answer["shards"]] == [(0, ["node0"]), (1, ["node1"])]
    for shard in answer["shards"]:
        assert shard["cpu_us"] > 0 and shard["counters"]["shard"]["turns"] > 0
        assert set(shard["counters"]["rings"]) == {"revoked", "revoke_waits", "lost"}
    rows = _list(shards, "system", "shard", "list").splitlines()
    assert [[row.split()[0], row.split()[-1]] for row in rows[2:]] == [["0", "node0"], ["1", "node1"]]


@pytest.mark.parametrize("command", PERFTESTS)
def test_perftest(shards: Machine, port: str, command: str) -> None:
    program = [*command.split(), "-F", "-p", port]
    if "-n" not in program:
        program += ["-n", "200"]
    _, output = shards.pair(program, [*program, "127.0.0.1"], (0, 1))
    assert re.search(r"^ *\d+ +\d+(\s+[\d.]+){3}", output, re.MULTILINE), output


def test_rping(shards: Machine, port: str) -> None:
    server, client = shards.connect(["rping", "-s", "-v", "-C", "10", "-p", port, "-a", address_of(0)],
                                    ["rping", "-c", "-v", "-C", "10", "-p", port, "-a", address_of(0)], (0, 1))
    assert len(re.findall(r"server ping data: rdma-ping-\d", server)) == 10, server
    assert len(re.findall(r"ping data: rdma-ping-\d", client)) == 10, client


@pytest.mark.parametrize("command", MOVING)
def test_perftest_goes_on_while_its_adapters_move(shards: Machine, port: str, command: str) -> None:
    program = [*command.split(), "-F", "-p", port]
    with _adapters_move(shards):
        _, output = shards.pair(program, [*program, "127.0.0.1"], (0, 1))
    assert re.search(r"^ *\d+ +\d+(\s+[\d.]+){3}", output, re.MULTILINE), output


def _execute_each_once(machine: Machine, kinds: str, places: list[tuple[str, int]]) -> None:
    """Both ends check all data."""
    program = machine.folder / "exactly_once"
    if not program.exists():
        subprocess.run(["gcc", "-O1", "-o", program, REPOSITORY / "tests/vm/programs/exactly_once.c", "-libverbs"], check=True)
    command = [str(program), "vmw_pvrdma0", "0", "-n", "12000", "-k", kinds, "-s", "7"]
    with _adapters_move(machine, places):
        server = machine.popen(*command, node=0)
        outputs = machine.meet(server, lambda: listens(EXACTLY_ONCE_PORT), lambda: machine.run(*command, "127.0.0.1", node=1))
    assert all("each exactly once" in output for output in outputs), outputs


@pytest.mark.parametrize("kinds", ["siwobrfc", "s", "b", "r"])
def test_each_request_is_executed_once_while_its_adapters_move(shards: Machine, kinds: str) -> None:
    _execute_each_once(shards, kinds, PLACES)


def test_each_request_is_executed_once_while_adapters_enter_and_leave_the_ward(warded: Machine) -> None:
    listed = json.loads(_list(warded, "--json", "system", "shard", "list"))["shards"]
    assert [(each["number"], each["is_ward"]) for each in listed] == [(0, False), (1, True)]
    _execute_each_once(warded, "siwobrfc", WARD_PLACES)


def test_an_adapter_stays_where_it_is_with_the_reason(shards: Machine) -> None:
    def refusal(*arguments: str) -> str:
        done = _ctl(shards, *arguments)
        assert done.returncode != 0, done.stdout
        assert _places(shards) == [["node0"], ["node1"]]
        return done.stderr

    assert "there is no shard 2: this host has 0 to 1" in refusal("adapter", "shard", "set", "node0", "--shard", "2")
    assert 'there is no adapter "node7"' in refusal("adapter", "shard", "set", "node7", "--shard", "0")
    assert _list(shards, "adapter", "shard", "set", "node0", "--shard", "0") == "It is on shard 0 already.\n"
