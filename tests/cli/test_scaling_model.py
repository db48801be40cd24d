"""bench/scaling_model: what a mistake in it would mislead about. It loses and doubles no bytes, its shards, rings and buses carry no
more than they can, and it gives the figures that siblings_bench measured."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "bench"))

from scaling import figures  # noqa: E402  (the path above comes first)
from scaling.figures import FAR, HOSTS, NEAR, Costs, Host  # noqa: E402
from scaling.machine import Memory, Timeline, Vcpus  # noqa: E402
from scaling.patterns import PATTERNS, Cluster, Pattern, Perftest  # noqa: E402
from scaling.rings import Messages, Ring, Share  # noqa: E402
from scaling.shards import Kind  # noqa: E402
from scaling.simulation import Case, Outcome, Placing, Simulation  # noqa: E402

_LARGE = HOSTS[-1]


class Batches(Pattern):
    """The loop of siblings_bench: a batch with one doorbell, and the next one when all of it has completed."""

    name = "batches"

    def __init__(self, kind: Kind, payload: int, batch: int) -> None:
        self.payload = self.buffers = payload
        self._kind = kind
        self._batch = batch

    def groups(self, vms: int, shards: int) -> list[list[int]]:
        return [list(range(vms))]

    def start(self, cluster: Cluster) -> None:
        left = 0

        def post(now: float) -> None:
            nonlocal left
            left = self._batch
            flow.post(now, self._batch)

        def completed(now: float, count: int) -> None:
            nonlocal left
            cluster.count(now, count)
            left -= count
            if left == 0:
                post(now)

        flow = cluster.flow(0, 1, self._kind, self.payload, completed)
        cluster.begin(0, 0, post)


def _short(pattern: Pattern) -> Pattern:
    short = copy.copy(pattern)
    short.warm_up_us, short.measured_us = 300, 500
    return short


def _us(kind: Kind, payload: int, batch: int, shards: int, costs: Costs) -> float:
    """For one operation of a pair, on one shard or across two."""
    return 1 / Simulation(Case(Batches(kind, payload, batch), _LARGE, Placing.IN_TURN, shards, costs, vms=2)).run().rate


# docs/performance.md, "Several shards".
@pytest.mark.parametrize(("kind", "payload", "batch", "shards", "costs", "measured"), [
    (Kind.READ, 8, 64, 1, NEAR, 0.120), (Kind.READ, 4 << 10, 16, 1, NEAR, 0.163), (Kind.READ, 64 << 10, 8, 1, NEAR, 1.68),
    (Kind.READ, 8, 1, 2, NEAR, 0.88), (Kind.READ, 8, 64, 2, NEAR, 0.283), (Kind.READ, 4 << 10, 16, 2, NEAR, 0.321),
    (Kind.READ, 64 << 10, 8, 2, NEAR, 1.83), (Kind.WRITE, 8, 1, 2, FAR, 1.69), (Kind.WRITE, 8, 64, 2, FAR, 0.53)])
def test_the_figures_of_siblings_bench(kind: Kind, payload: int, batch: int, shards: int, costs: Costs, measured: float) -> None:
    assert _us(kind, payload, batch, shards, costs) == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(("kind", "unanswered"), [(Kind.READ, 16), (Kind.WRITE, 64)])
def test_what_a_qp_has_unanswered(kind: Kind, unanswered: int) -> None:
    assert _us(kind, 8, 64, 2, Costs(line=100)) == pytest.approx(200 / unanswered, rel=0.1)


def test_pairs_that_sit_together_scale_with_the_shards() -> None:
    one, eight = (Simulation(Case(PATTERNS[0], _LARGE, Placing.TOGETHER, shards)).run() for shards in (1, 8))
    assert eight.rate == pytest.approx(8 * one.rate, rel=0.05)


@pytest.mark.parametrize("placing", Placing)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_every_byte_arrives_once_and_no_part_does_more_than_it_can(pattern: Pattern, placing: Placing) -> None:
    simulation = Simulation(Case(_short(pattern), _LARGE, placing, 8, FAR))
    outcome = simulation.run()
    assert all(share <= 1 for share in (*outcome.shards, outcome.vcpus, outcome.memory, outcome.ring_waits)), outcome
    assert outcome.slots_most <= figures.SLOTS
    assert outcome.lent_most < max(figures.LENT_BYTES_MAX, figures.LENT_ANSWERS_MAX * pattern.payload) + pattern.payload
    simulation.drain()
    flows = simulation.cluster.flows
    assert sum(flow.bytes_placed for flow in flows) > 0
    assert [flow.bytes_placed for flow in flows] == [flow.bytes_posted for flow in flows]
    assert not any(flow.unanswered for flow in flows)
    for shard in simulation.shards:
        for ring in shard.rings():
            ring.reclaim(float("inf"))
            assert (ring.slots, ring.lent, ring.lent_messages, len(ring.queue)) == (0, 0, 0, 0)


def test_a_seed_gives_the_same_outcome() -> None:
    def run(seed: int) -> Outcome:
        return Simulation(Case(pattern, HOSTS[1], Placing.IN_TURN, 4, FAR, seed=seed)).run()

    pattern = _short(PATTERNS[1])
    assert run(1)[1:] == run(1)[1:] and run(1)[1:] != run(2)[1:]


def _messages(share: Share, count: int, lent: int) -> Messages:
    simulation = Simulation(Case(PATTERNS[0], HOSTS[0], Placing.IN_TURN, 1, vms=2))
    flow = simulation.cluster.flow(0, 1, Kind.WRITE, lent, lambda now, done: None)
    return Messages(0, flow, count, lent, share)


@pytest.mark.parametrize(("lent", "one", "two"), [(0, 128, 127), (64 << 10, 8, 8), (200 << 10, 3, 3)])
def test_an_adapter_has_half_of_a_ring(lent: int, one: int, two: int) -> None:
    ring = Ring(lambda now: None)
    shares = Share(), Share()
    for share, granted in zip(shares, (one, two), strict=True):
        assert ring.room(share, 1000, lent, 0) == granted
        ring.put(_messages(share, granted, lent))
        assert ring.room(share, 1, lent, 0) == 0
    assert ring.room(Share(), 1, lent, 0) == 0


def test_room_comes_when_the_reader_has_read_and_not_before() -> None:
    woken: list[float] = []
    ring = Ring(woken.append)
    share = Share()
    ring.put(_messages(share, 128, 0))
    assert ring.room(share, 1, 0, 5) == 0
    read = ring.take(28, 6)
    assert read is not None and read.count == 28
    ring.free(read, 9)
    assert woken == [9] and ring.room(share, 100, 0, 8) == 0 and ring.room(share, 100, 0, 9) == 28


def test_at_most_16_answers_are_lent() -> None:
    ring = Ring(lambda now: None)
    ring.put(_messages(Share(), 14, 4096))
    assert ring.room_for_answers(100, 0) == 2


def test_the_bus_of_the_memory() -> None:
    memory = Memory(Timeline(0, 100), gb_s=30)
    ends = [memory.carry(0, 100_000, speed=10_000, passes=3) for _ in range(3)]
    assert ends[0] == pytest.approx(10), "a copy alone runs at its own speed, and fills the bus"
    assert ends == sorted(ends) and 20 <= ends[1] <= 25 and 30 <= ends[2] <= 35
    assert memory.busy() == pytest.approx(0.3)


def test_vcpus_wait_for_processors() -> None:
    vcpus = Vcpus(Timeline(0, 10), 2)
    assert [vcpus.take(0, lambda start: start + 4) for _ in range(3)] == [4, 4, 8]
    assert vcpus.busy() == pytest.approx(0.6)


@pytest.mark.parametrize(("pattern", "case", "named"), [
    (PATTERNS[0], {"host": HOSTS[0]}, "the shard: engines "),
    (PATTERNS[0], {"placing": Placing.IN_TURN, "shards": 4, "costs": FAR}, "all shards: rings "),
    (PATTERNS[1], {"host": Host(8, 10)}, "memory"),
    (Perftest("lone writes", 8, depth=1), {"host": HOSTS[0], "costs": Costs(guest_perftest=50)}, "vCPUs"),
    (Perftest("lone writes", 8, depth=1), {"placing": Placing.IN_TURN, "shards": 2, "vms": 2}, "round trips"),
    (Perftest("reads that go far", 4096, Kind.READ), {"placing": Placing.IN_TURN, "shards": 2, "costs": Costs(line=100)}, "rings")])
def test_what_is_full_is_named(pattern: Pattern, case: dict[str, Any], named: str) -> None:
    arguments = {"host": _LARGE, "placing": Placing.TOGETHER, "shards": 1, **case}
    assert Simulation(Case(_short(pattern), **arguments)).run().bottleneck.startswith(named)


def _program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([_ROOT / "bench" / "scaling_model", *arguments], text=True, capture_output=True, timeout=60, check=False)


def test_the_program_prints_a_table() -> None:
    done = _program("--cores", "8", "--pattern", "64 KiB", "--set", "copy_memory=20")
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| perftest")]
    assert len(rows) == 1 and float(rows[0][3]) > 15, "twice as fast as with the cost of the table"


@pytest.mark.parametrize(("arguments", "text"), [
    (("--set", "fly=1"), "no cost 'fly'"), (("--set", "line=x"), "'x' is no number"),
    (("--cores", "8", "--shards", "8"), "8 shards leave no core of 8 to the VMs")])
def test_wrong_arguments(arguments: tuple[str, ...], text: str) -> None:
    done = _program(*arguments)
    assert done.returncode == 2 and text in done.stderr
