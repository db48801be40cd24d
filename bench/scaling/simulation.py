"""One run: a host, its shards, 100 VMs that are placed on them, and a pattern. Says what was carried, and which part was full."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from scaling.figures import NEAR, Costs, Host
from scaling.machine import Guest, Memory, Timeline, Vcpus
from scaling.patterns import Cluster, Pattern, Vm
from scaling.rings import Ring
from scaling.shards import Adapter, Part, Shard

FULL = 0.95


class Placing(Enum):
    """Which shard a VM's adapter is on."""

    IN_TURN = "in turn"  # what the daemon does with the adapters of its configuration
    TOGETHER = "together"  # what an operator reaches who moves those that speak with each other


@dataclass(frozen=True)
class Case:
    """What to run."""

    pattern: Pattern
    host: Host
    placing: Placing
    shards: int
    costs: Costs = NEAR
    vms: int = 100
    seed: int = 1

    def places(self) -> list[int]:
        """The shard of each VM."""
        if self.placing is Placing.IN_TURN:
            return [vm % self.shards for vm in range(self.vms)]
        groups = self.pattern.groups(self.vms, self.shards)
        place = {vm: i % self.shards for i, group in enumerate(groups) for vm in group}
        return [place[vm] for vm in range(self.vms)]


class Outcome(NamedTuple):
    """`rate`: million operations a second. Shares are of the measured time."""

    case: Case
    rate: float
    shards: list[float]
    spent: dict[Part, float]  # of what all shards together spent
    vcpus: float
    memory: float
    ring_waits: float  # of the ring whose writer waited longest
    slots_most: int
    lent_most: int

    @property
    def gb_s(self) -> float:
        """Payload."""
        return self.rate * self.case.pattern.payload / 1e3

    @property
    def bottleneck(self) -> str:
        """The part that is full. A shard that waits for memory is not what is full."""
        if self.memory >= FULL:
            return "memory"
        busy = sum(share >= FULL for share in self.shards)
        if busy:
            name = "the shard" if len(self.shards) == 1 else "all shards" if busy == len(self.shards) else (
                f"{busy} of {len(self.shards)} shards")
            part, share = next(iter(self.spent.items()))
            return f"{name}: {part.value} {share:.0%}"
        if self.vcpus >= FULL:
            return "vCPUs"
        return "rings" if self.ring_waits >= 0.5 else "round trips"


class Simulation:
    """A host that runs a pattern."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._timeline = Timeline(case.pattern.warm_up_us, case.pattern.warm_up_us + case.pattern.measured_us)
        self.memory = Memory(self._timeline, case.host.memory_gb_s)
        self.vcpus = Vcpus(self._timeline, case.host.cores - case.shards)
        costs = case.costs
        places = case.places()
        self.shards = []
        for shard in range(case.shards):
            working_set = places.count(shard) * case.pattern.buffers
            passes = 0 if costs.is_cached(working_set) else costs.copy_passes
            self.shards.append(Shard(self._timeline, self.memory, costs, costs.copy_speed(working_set), passes))
        for one in self.shards:
            for other in self.shards:
                if one is not other:
                    one.meet(other)
        vms = [Vm(Guest(self._timeline, self.vcpus, self.memory, costs.guest_memory * 1e3, case.pattern.vcpus(vm)),
                  Adapter(self.shards[shard])) for vm, shard in enumerate(places)]
        self.cluster = Cluster(vms, costs, case.seed, self._timeline)

    def run(self) -> Outcome:
        """To the end of the measured time."""
        self._case.pattern.start(self.cluster)
        self._timeline.run(self._timeline.ends)
        rings = [ring for shard in self.shards for ring in shard.rings()]
        spent: Counter[Part] = sum((shard.spent for shard in self.shards), Counter())
        return Outcome(self._case, self.cluster.done / self._case.pattern.measured_us, [shard.busy() for shard in self.shards],
                       {part: time / spent.total() for part, time in spent.most_common()},
                       self.vcpus.busy(), self.memory.busy(), max(map(self._waited, rings), default=0.0),
                       max((ring.slots_most for ring in rings), default=0), max((ring.lent_most for ring in rings), default=0))

    def drain(self) -> None:
        """Lets everything that was posted end; programs post no more."""
        self.cluster.stopped = True
        self._timeline.run(float("inf"))

    def _waited(self, ring: Ring) -> float:
        """The share of the measured time in which the ring's writer waited for room."""
        waits = [*ring.waits, *([(ring.waits_since, self._timeline.ends)] if ring.waits_since is not None else [])]
        return sum(self._timeline.measured(*wait) for wait in waits) / self._case.pattern.measured_us
