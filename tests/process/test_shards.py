"""Stock programs between two adapters that two threads of one daemon serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import BUILD, Machine, address_of, until

PERFTESTS = [
    "ib_write_bw", "ib_write_bw -a -n 5", "ib_write_bw -b", "ib_write_bw -q 8", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat",
    "ib_read_lat", "ib_send_lat", "ib_send_lat -e", "ib_send_lat -c UD", "ib_send_bw -c UD -n 5000",
]


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
    yield machine
    machine.close()


def _list(machine: Machine, *arguments: str) -> str:
    """What pvrdmactl says."""
    done = machine.run_plainly(str(BUILD / "src/pvrdmactl/pvrdmactl"), "--api", str(machine.api), *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


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
