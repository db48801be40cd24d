"""A daemon that moves adapters between its threads by itself."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from machine import BUILD, Machine, until

# The nodes of even numbers are on the first shard. Node 0 serves the two others, so each of these has a quarter of the traffic.
CLIENTS = [2, 4]
NODES = 6
# Of the load. A daemon measures for a minute, and begins before the load does.
PATIENCE_S = 300
MOVED = (r"adapter node([24]): moved from shard 0 to shard 1, in \d+ us: "
         r"shard 0 was (\d+) % busy, (\d+) % with this adapter, and shard 1 was (\d+) % busy\n")


@contextmanager
def _balancing(nodes: int) -> Iterator[tuple[Machine, subprocess.Popen[str]]]:
    machine = Machine()
    daemon = machine.start_daemon("--shards", "2", "--shard-balancing", nodes=nodes)
    try:
        until(lambda: machine.api.exists() or daemon.poll() is not None, "the daemon serves")
        assert daemon.poll() is None, daemon.communicate()[0]
        yield machine, daemon
    finally:
        machine.close()


def _threads(process: int) -> set[str]:
    return {(each / "comm").read_text().strip() for each in Path(f"/proc/{process}/task").iterdir()}


def _moves(machine: Machine) -> dict[str, int]:
    return machine.ask("stats")["host"]["placement"]  # type: ignore[no-any-return]


def _shard_0(machine: Machine) -> list[str]:
    return machine.ask("shards")["shards"][0]["adapters"]  # type: ignore[no-any-return]


def test_an_idle_daemon_moves_nothing_and_ends_in_the_middle_of_a_minute() -> None:
    with _balancing(2) as (machine, daemon):
        until(lambda: "balancer" in _threads(daemon.pid), "the daemon balances")
        assert _moves(machine) == {"moves": 0, "own_moves": 0, "ward_moves": 0}
        subprocess.run([BUILD / "src/pvrdmactl/pvrdmactl", "--api", machine.api, "adapter", "shard", "set", "node0", "--shard", "1"], check=True)
        assert _moves(machine) == {"moves": 1, "own_moves": 0, "ward_moves": 0}
        daemon.send_signal(signal.SIGTERM)
        output = daemon.communicate(timeout=PATIENCE_S)[0]
        assert daemon.returncode == 0, output


@pytest.mark.full
def test_an_adapter_leaves_the_busy_shard_while_its_traffic_goes_on() -> None:
    with _balancing(NODES) as (machine, daemon):
        for node in [0, *CLIENTS]:
            machine.run("--start", node=node)
        until(lambda: _shard_0(machine) == ["node0", "node2", "node4"], "all adapters are there")
        deadline = time.monotonic() + PATIENCE_S

        def send(client: int) -> int:
            """Sends until an adapter has moved. Returns in how many runs."""
            runs = 0
            moved = False
            while not moved:
                assert time.monotonic() < deadline, "no adapter moves"
                moved = _moves(machine)["own_moves"] != 0  # one whole run follows the move
                # With events: the programs sleep while the shard copies.
                program = ["ib_send_bw", "-e", "-n", "20000", "-s", "1048576", "-F", "-p", str(18600 + client)]
                _, output = machine.pair(program, [*program, "127.0.0.1"], (0, client))
                assert re.search(r"^ *1048576 +\d+(\s+[\d.]+){3}", output, re.MULTILINE), output
                runs += 1
            return runs

        with ThreadPoolExecutor(len(CLIENTS)) as pool:
            runs = list(pool.map(send, CLIENTS))
        left = _shard_0(machine)
        assert left in (["node0", "node2"], ["node0", "node4"])
        assert _moves(machine) == {"moves": 1, "own_moves": 1, "ward_moves": 0}
        metrics = subprocess.run(["curl", "-s", "--unix-socket", machine.api, "http://localhost/metrics"], capture_output=True, text=True, check=True)
        assert "\npvrdma_placement_own_moves_total 1\n" in metrics.stdout
        daemon.send_signal(signal.SIGTERM)
        output = daemon.communicate(timeout=PATIENCE_S)[0]
        found = re.findall(MOVED, output)
        assert len(found) == 1, output
        adapter, busy, share, other = found[0]
        assert f"node{adapter}" not in left
        assert int(busy) > 80 and int(other) < 40 and 5 <= int(share) < (int(busy) - int(other)) / 2, found
        print(f"{runs} runs; the reason: {json.dumps(found[0])}")
