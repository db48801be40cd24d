"""The traffic of programs: perftest, MPI and NVMe-oF, each as a closed loop between VMs. When each program begins, and which VM of
a pair writes, is drawn from a seed.

A pattern says which VMs speak with each other (`groups`), how large a VM's buffers are, and starts its programs.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from scaling.figures import Costs
from scaling.machine import Guest, Timeline
from scaling.shards import Adapter, Event, Flow, Kind

COMMAND_BYTES = 64
ANSWER_BYTES = 16


@dataclass
class Vm:
    """A VM with its adapter."""

    guest: Guest
    adapter: Adapter


class Cluster:
    """What a pattern needs of the host: its VMs, the costs, and a count of what was done in the measured time."""

    def __init__(self, vms: list[Vm], costs: Costs, seed: int, timeline: Timeline) -> None:
        self.vms = vms
        self.costs = costs
        self.done = 0
        self.flows: list[Flow] = []
        self.stopped = False
        self.random = random.Random(seed)
        self._timeline = timeline

    def flow(self, source: int, target: int, kind: Kind, size: int, on_completion: Event,
             on_arrival: Event = lambda now, count: None) -> Flow:
        """One direction of a connection between two VMs."""
        made = Flow(self.vms[source].adapter, self.vms[target].adapter, kind, size, on_completion, on_arrival)
        self.flows.append(made)
        return made

    def begin(self, vm: int, cost: float, then: Callable[[float], None]) -> None:
        """Starts a program in the first 20 microseconds."""
        self.vms[vm].guest.work(self.random.uniform(0, 20), cost, then)

    def count(self, now: float, operations: int) -> None:
        """Something was done."""
        if self._timeline.begins <= now < self._timeline.ends:
            self.done += operations


def nothing(now: float, count: int) -> None:
    """A completion that nobody waits for."""


class Pattern(ABC):
    """`payload`: bytes of one operation; `buffers`: bytes of one VM. The measured time follows `warm_up_us`."""

    name: str
    payload: int
    buffers: int
    warm_up_us: float = 1000
    measured_us: float = 4000

    def vcpus(self, vm: int) -> int:
        """How many processors that VM has."""
        return 1

    @abstractmethod
    def groups(self, vms: int, shards: int) -> list[list[int]]:
        """The VMs that speak with each other. Each group goes to one shard."""

    @abstractmethod
    def start(self, cluster: Cluster) -> None:
        """Starts the programs."""


class Perftest(Pattern):
    """Pairs; one VM of each writes to the other, or reads, with `depth` requests under way."""

    def __init__(self, name: str, payload: int, kind: Kind = Kind.WRITE, depth: int = 128) -> None:
        self.name = name
        self.payload = payload
        self.buffers = payload
        self.warm_up_us, self.measured_us = 500, 1500
        self._kind = kind
        self._depth = depth

    def groups(self, vms: int, shards: int) -> list[list[int]]:
        return [[i, i + 1] for i in range(0, vms, 2)]

    def start(self, cluster: Cluster) -> None:
        for i in range(0, len(cluster.vms), 2):
            self._start_pair(cluster, *cluster.random.sample((i, i + 1), 2))

    def _start_pair(self, cluster: Cluster, vm: int, peer: int) -> None:
        cost = cluster.costs.guest_perftest

        def completed(now: float, count: int) -> None:
            cluster.count(now, count)
            if not cluster.stopped:
                cluster.vms[vm].guest.work(now, cost * count, lambda later: flow.post(later, count))

        flow = cluster.flow(vm, peer, self._kind, self.payload, completed)
        cluster.begin(vm, cost, lambda now: flow.post(now, self._depth))


class AllToAll(Pattern):
    """Each rank sends a small message to each other rank, and begins again when it has one of each."""

    name = "MPI all-to-all, 64 B"
    payload = 64
    buffers = 100 * 2 * 64

    def groups(self, vms: int, shards: int) -> list[list[int]]:
        return _strips(vms, shards)

    def start(self, cluster: Cluster) -> None:
        ranks = range(len(cluster.vms))
        came: Counter[int] = Counter()
        rounds: Counter[int] = Counter()
        cost = cluster.costs.guest_mpi

        def arrived(rank: int) -> Event:
            def event(now: float, count: int) -> None:
                cluster.count(now, count)
                came[rank] += count
                if came[rank] >= rounds[rank] * (len(ranks) - 1):
                    next_round(rank, now)
            return event

        flows = {rank: [cluster.flow(rank, peer, Kind.WRITE, self.payload, nothing, arrived(peer))
                        for peer in (*ranks[rank + 1:], *ranks[:rank])] for rank in ranks}

        def next_round(rank: int, now: float) -> None:
            if cluster.stopped:
                return
            rounds[rank] += 1
            for flow in flows[rank]:  # a message is received and another one sent
                cluster.vms[rank].guest.work(now, 2 * cost, lambda later, flow=flow: flow.post(later, 1))

        for rank in ranks:
            rounds[rank] = 1
            for flow in flows[rank]:
                cluster.begin(rank, cost, lambda now, flow=flow: flow.post(now, 1))


class Halo(Pattern):
    """Ranks on a torus of ten columns exchange borders with four neighbours by rendezvous: the sender says that it is ready, the
    receiver reads and says that it is done. A rank's next step begins when all eight are done."""

    name = "MPI halo, 256 KiB"
    payload = 256 << 10
    buffers = 8 * payload
    warm_up_us, measured_us = 4000, 16_000
    _COLUMNS = 10

    def groups(self, vms: int, shards: int) -> list[list[int]]:
        return _strips(vms, shards)

    def start(self, cluster: Cluster) -> None:
        ranks = len(cluster.vms)
        done: Counter[int] = Counter()
        steps: Counter[int] = Counter()
        cost = cluster.costs.guest_mpi
        begins: dict[int, list[Flow]] = {}

        def finished(rank: int, now: float) -> None:
            done[rank] += 1
            if done[rank] >= 8 * steps[rank]:
                step(rank, now)

        def step(rank: int, now: float) -> None:
            if cluster.stopped:
                return
            steps[rank] += 1
            for flow in begins[rank]:
                cluster.vms[rank].guest.work(now, cost, lambda later, flow=flow: flow.post(later, 1), self.payload)

        def border(sender: int, receiver: int) -> Flow:
            guest = cluster.vms[receiver].guest

            def have_read(now: float, count: int) -> None:
                cluster.count(now, count)
                guest.work(now, cost, lambda later: done_flow.post(later, 1), self.payload)
                finished(receiver, now)

            done_flow = cluster.flow(receiver, sender, Kind.WRITE, COMMAND_BYTES, nothing,
                                     lambda now, count: finished(sender, now))
            reads = cluster.flow(receiver, sender, Kind.READ, self.payload, have_read)
            return cluster.flow(sender, receiver, Kind.WRITE, COMMAND_BYTES, nothing,
                                lambda now, count: guest.work(now, cost, lambda later: reads.post(later, 1)))

        for rank in range(ranks):
            row = rank - rank % self._COLUMNS
            neighbours = ((rank + self._COLUMNS) % ranks, (rank - self._COLUMNS) % ranks,
                          row + (rank + 1) % self._COLUMNS, row + (rank - 1) % self._COLUMNS)
            begins[rank] = [border(rank, peer) for peer in neighbours]
        for rank in range(ranks):
            cluster.begin(rank, cost, lambda now, rank=rank: step(rank, now))


class Storage(Pattern):
    """NVMe-oF: four VMs are targets, the others initiators with 8 requests under way each. A request is a command, the data (the
    target writes what was read, and reads what is to be written) and an answer. `is_polled`: user-space programs with mapped
    doorbells; otherwise the guests' kernels, whose doorbells are trapped: one to post, and one for a receive."""

    _TARGETS = 4
    _DEPTH = 8
    _TARGET_VCPUS = 4

    def __init__(self, name: str, payload: int, is_write: bool, is_polled: bool) -> None:
        self.name = name
        self.payload = payload
        self.buffers = self._DEPTH * payload
        self._is_write = is_write
        self._is_polled = is_polled
        # A request takes as long as all that wait before it.
        self.warm_up_us = self.measured_us = 4000 if is_polled and not is_write else 60_000 if is_polled else 100_000

    def vcpus(self, vm: int) -> int:
        return self._TARGET_VCPUS if vm < self._TARGETS else 1

    def groups(self, vms: int, shards: int) -> list[list[int]]:
        return [[target, *(vm for vm in range(self._TARGETS, vms) if self._target_of(vm, vms) == target)]
                for target in range(self._TARGETS)]

    def start(self, cluster: Cluster) -> None:
        for vm in range(self._TARGETS, len(cluster.vms)):
            self._start_initiator(cluster, vm, self._target_of(vm, len(cluster.vms)))

    def _target_of(self, vm: int, vms: int) -> int:
        """Of an initiator; neighbours by number have the same."""
        return (vm - self._TARGETS) * self._TARGETS // (vms - self._TARGETS)

    def _start_initiator(self, cluster: Cluster, vm: int, target: int) -> None:
        costs = cluster.costs
        initiator, server = cluster.vms[vm].guest, cluster.vms[target].guest
        cost, trap, doorbell = costs.guest_nvme_polled, 0.0, costs.doorbell
        if not self._is_polled:
            cost, trap, doorbell = costs.guest_nvme, costs.trap_guest, costs.trap_shard

        def command(now: float) -> None:
            commands.post(now, 1, 2 * doorbell)

        def came(now: float, count: int) -> None:
            for _ in range(count):
                server.work(now, cost + 2 * trap, transfer, 0 if self._is_write else self.payload)

        def transfer(now: float) -> None:
            data.post(now, 1, 2 * doorbell)
            if not self._is_write:
                answers.post(now, 1, 0)  # in the same list

        def placed(now: float, count: int) -> None:
            if self._is_write:
                for _ in range(count):
                    server.work(now, cost + trap, lambda later: answers.post(later, 1, doorbell), self.payload)

        def answered(now: float, count: int) -> None:
            cluster.count(now, count)
            if cluster.stopped:
                return
            for _ in range(count):
                initiator.work(now, cost + 2 * trap, command, self.payload)

        commands = cluster.flow(vm, target, Kind.WRITE, COMMAND_BYTES, nothing, came)
        data = cluster.flow(target, vm, Kind.READ if self._is_write else Kind.WRITE, self.payload, placed)
        answers = cluster.flow(target, vm, Kind.WRITE, ANSWER_BYTES, nothing, answered)
        for _ in range(self._DEPTH):
            cluster.begin(vm, cost + 2 * trap, command)


def _strips(vms: int, shards: int) -> list[list[int]]:
    """Neighbours by number, a group for each shard."""
    return [list(range(vms * i // shards, vms * (i + 1) // shards)) for i in range(shards)]


PATTERNS: tuple[Pattern, ...] = (
    Perftest("perftest write, 8 B", 8),
    Perftest("perftest write, 64 KiB", 64 << 10),
    AllToAll(),
    Halo(),
    Storage("NVMe-oF 4 KiB reads, kernel", 4 << 10, is_write=False, is_polled=False),
    Storage("NVMe-oF 4 KiB reads, polled", 4 << 10, is_write=False, is_polled=True),
    Storage("NVMe-oF 128 KiB writes, kernel", 128 << 10, is_write=True, is_polled=False),
    Storage("NVMe-oF 128 KiB writes, polled", 128 << 10, is_write=True, is_polled=True),
)
