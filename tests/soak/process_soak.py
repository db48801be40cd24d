#!/usr/bin/python3
"""Soak of process mode: programs, stand-ins and the daemon are killed at random under traffic, and nothing may be left.

    tests/soak/process_soak.py --time 10m [--seed N]

Stock programs exchange messages without end on two adapters of one user. By a seed, which it prints, one of them, a stand-in
or the daemon gets SIGKILL. Whoever always sends to a killed program must hear of it, and the next programs must connect. From time
to time all programs leave. Then the adapters have no object of theirs, and the daemon and the stand-ins as many descriptors,
threads and mappings of memory files as before the first program. At the end no process, socket or memory file is left.
Exit code 0: no error; 1: an error, reported as a sentence. Needs root. PVRDMA_BUILD names the build, instead of build/release.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), *(str(_HERE.parent / name) for name in ("cluster", "vm", "process")), str(_HERE.parents[1] / "tools")]

from machine import PATIENCE_S, STANDIN_OBJECTS, Machine, is_alive, listens, until  # noqa: E402  (the path above comes first)
from soak import seconds_of  # noqa: E402
from soaking.gauge import usage_of  # noqa: E402
from soaking.outcome import outcome_of  # noqa: E402

_NODES = (0, 1)
_PAIRS = 3
_FIRST_PORT = 21000
_PERIOD_S = 15  # of traffic, until all programs leave
_GRACE_S = 2    # for programs that may hear of an end


@dataclass(frozen=True)
class Kind:
    """A server and a client that run without end. A program that waits for a message does not hear of its peer's end."""

    server: str
    client: str
    server_hears: bool
    client_hears: bool


_PERFTEST = " -F -D 100000 -p {port}"
_KINDS = [
    Kind("ib_write_bw" + _PERFTEST, "ib_write_bw" + _PERFTEST + " 127.0.0.1", True, True),
    Kind("ib_read_bw" + _PERFTEST, "ib_read_bw" + _PERFTEST + " 127.0.0.1", True, True),
    Kind("ib_send_bw" + _PERFTEST, "ib_send_bw" + _PERFTEST + " 127.0.0.1", False, True),
    Kind("ib_send_lat -e -F -n 100000000 -p {port}", "ib_send_lat -e -F -n 100000000 -p {port} 127.0.0.1", False, False),
    Kind("ibv_rc_pingpong -g 0 -n 100000000 -p {port}", "ibv_rc_pingpong -g 0 -n 100000000 -p {port} 127.0.0.1", False, False),
    Kind("rping -s -a {address} -p {port}", "rping -c -a {address} -p {port}", True, True),
]


@dataclass
class Pair:
    """A running server and its client, with their nodes."""

    kind: Kind
    server: subprocess.Popen[str]
    client: subprocess.Popen[str]
    nodes: tuple[int, int]


@dataclass(frozen=True)
class Held:
    """What the daemon or a stand-in has."""

    descriptors: dict[str, int]
    threads: int
    memory_files: int  # mappings of programs' memory


class ProcessSoak:
    """One run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._machine = Machine()
        self._pairs: list[Pair] = []
        self._port = _FIRST_PORT
        self._fresh: dict[str, Held] = {}
        self.killed: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """AssertionError: what was wrong."""
        try:
            self._quiet()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self._work(min(end, time.monotonic() + _PERIOD_S))
                self._quiet()
            self._stop()
        finally:
            self._machine.close()

    def _work(self, end: float) -> None:
        while time.monotonic() < end:
            while len(self._pairs) < _PAIRS:
                self._start_pair()
            time.sleep(self._random.uniform(0, 1))
            victim = self._random.choices(["program", "stand-in", "daemon"], [12, 2, 1])[0]
            self.killed[victim] += 1
            if victim == "program":
                self._kill_program()
            else:
                self._kill_service(self._random.choice(_NODES) if victim == "stand-in" else None)

    def _start_pair(self) -> None:
        kind = self._random.choice(_KINDS)
        nodes = (self._random.choice(_NODES), self._random.choice(_NODES))
        self._port += 1
        words = {"port": self._port, "address": f"10.99.0.{nodes[0] + 1}"}
        until(lambda: self._connected() == self._ends(), "the adapters have the running pairs' queue pairs only")
        if "{address}" in kind.server:  # an address that no node has yet would not be refused
            started = self._machine.run("--start", node=nodes[0])
            assert started.returncode == 0, started.stdout
        server = self._machine.popen(*kind.server.format(**words).split(), node=nodes[0])
        if "{address}" not in kind.server:
            until(lambda: listens(self._port) or server.poll() is not None, f"{kind.server} listens")
        for _ in range(50):
            client = self._machine.popen(*kind.client.format(**words).split(), node=nodes[1])
            until(lambda client=client: self._connected() >= self._ends() + Counter(nodes) or any(
                each.poll() is not None for each in (server, client)), f"{kind.client} is connected to {kind.server}")
            assert server.poll() is None, f"{kind.server} has ended: {server.communicate()[0]}"
            if client.poll() is None:
                self._pairs.append(Pair(kind, server, client, nodes))
                return
            assert "{address}" in kind.server, f"{kind.client} has ended: {client.communicate()[0]}{self._machine.logs()}"
        raise AssertionError(f"{kind.client} does not connect: {client.communicate()[0]}{self._machine.logs()}")

    def _ends(self) -> Counter[int]:
        """How many programs of the running pairs each node has."""
        return Counter(node for pair in self._pairs for node in pair.nodes)

    def _connected(self) -> Counter[int]:
        """How many queue pairs of each node have a peer. Each program has one; perftest's receivers leave it in RTR."""
        qps = self._machine.ask("qps") or []
        return Counter(int(qp["adapter"].removeprefix("node")) for qp in qps if qp["type"] == "RC" and qp["state"] in ("RTR", "RTS"))

    def _kill_program(self) -> None:
        pair = self._pairs.pop(self._random.randrange(len(self._pairs)))
        victim, other, hears = self._random.choice(
            [(pair.server, pair.client, pair.kind.client_hears), (pair.client, pair.server, pair.kind.server_hears)])
        victim.kill()
        _end(victim, PATIENCE_S)
        if not _end(other, PATIENCE_S if hears else _GRACE_S):
            assert not hears, f"{other.args} has not heard that {victim.args} was killed\n{self._machine.logs()}"
            other.terminate()
            assert _end(other, PATIENCE_S), f"{other.args} cannot be ended"

    def _kill_service(self, node: int | None) -> None:
        """The node's stand-in, or the daemon (None)."""
        name = "pvrdmad" if node is None else f"node{node}"
        running = self._machine.processes()
        if name not in running:
            return
        os.kill(running[name], signal.SIGKILL)
        until(lambda: not is_alive(running[name]), f"{name} has ended")
        self._end_pairs([pair for pair in self._pairs if node is None or node in pair.nodes], signal.SIGTERM)
        if node is None:
            until(lambda: self._machine.processes() == {}, "the stand-ins have ended, too")

    def _end_pairs(self, pairs: list[Pair], number: int) -> None:
        """Programs whose device is gone may poll it for ever, as on hardware, so they are asked to end."""
        deadline = time.monotonic() + _GRACE_S
        programs = [each for pair in pairs for each in (pair.server, pair.client)]
        for each in programs:
            if number == signal.SIGKILL or not _end(each, max(0, deadline - time.monotonic())):
                each.send_signal(number)
            assert _end(each, PATIENCE_S), f"{each.args} cannot be ended\n{self._machine.logs()}"
        self._pairs = [pair for pair in self._pairs if pair not in pairs]

    def _quiet(self) -> None:
        """No program runs. Everything must be as before the first one."""
        self._end_pairs(self._pairs, signal.SIGKILL)
        self._machine.started.clear()  # all have ended
        for node in _NODES:
            started = self._machine.run("--start", node=node)
            assert started.returncode == 0, started.stdout
        for node in _NODES:
            until(lambda node=node: self._objects(node) == STANDIN_OBJECTS, f"node{node} has no objects of programs")
        if not self._fresh:
            self._fresh = self._settled()
        try:
            until(lambda: self._held() == self._fresh, "daemon and stand-ins hold as much as at the beginning")
        except AssertionError as error:
            raise AssertionError(f"{error}\nthen {self._fresh}\nnow {self._held()}") from error

    def _settled(self) -> dict[str, Held]:
        """What daemon and stand-ins hold when they have come to rest: three looks are equal."""
        looks: list[dict[str, Held]] = []
        for _ in range(2 * PATIENCE_S):
            looks.append(self._held())
            if looks[-3:] == 3 * looks[-1:]:
                return looks[-1]
            time.sleep(0.5)
        raise AssertionError(f"what daemon and stand-ins hold goes on changing: {looks[-3:]}")

    def _held(self) -> dict[str, Held]:
        return {name: _held_by(pid) for name, pid in self._machine.processes().items()}

    def _objects(self, node: int) -> dict[str, int]:
        adapter = self._machine.ask(f"adapters/node{node}") or {}
        return adapter.get("objects", {})

    def _stop(self) -> None:
        stopped = self._machine.run("--stop", node=None)
        assert stopped.returncode == 0, stopped.stdout
        folder = str(self._machine.folder)
        sockets = [str(path) for path in self._machine.runtime.rglob("*.sock")]
        bound = [line for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines() if folder in line]
        processes = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if folder.encode() in _read(path)]
        assert not sockets + bound + processes, f"left: sockets {sockets}, bound {bound}, processes {processes}"


def _held_by(pid: int) -> Held:
    usage = usage_of(pid)
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    return Held(usage.descriptors, usage.threads, maps.count("/memfd:pvrdma "))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it has ended, or is another user's


def _end(process: subprocess.Popen[str], patience_s: float) -> bool:
    try:
        process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def main() -> int:
    """Parses the command line and runs the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=seconds_of, default=seconds_of("10m"), help="default: 10m")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="of all choices; default: another each time")
    options = parser.parse_args()
    soak = ProcessSoak(options.seed)
    return outcome_of("process soak", options.time, options.seed, soak.run, soak.killed)


if __name__ == "__main__":
    sys.exit(main())
