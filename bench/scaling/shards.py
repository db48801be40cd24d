"""The shards of a host, with their adapters and the rings between them, turn by turn as the daemon's shards run.

A turn reads the answers and then the requests of each sibling, and then lets each adapter send, each within its bounds
(src/transport/siblings/siblings.cc, src/verbs/requester.cc). While one shard is in a turn the others are, too: what they do has
times, and a turn sees only what is earlier than the place that it has reached.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from scaling import figures
from scaling.figures import GROUP, Costs
from scaling.machine import Memory, Timeline
from scaling.rings import Messages, Ring, Share


class Part(Enum):
    """What a shard spends its time on."""

    ENGINE = "engines"
    DOORBELLS = "doorbells"
    RINGS = "rings"
    COPIES = "copies"
    MEMORY = "waiting for memory"


class Kind(Enum):
    """What a request does. A write also stands for a send."""

    WRITE = 1
    READ = 2


Event = Callable[[float, int], None]  # time, how many


@dataclass
class Posted:
    """Work requests that a guest has posted together."""

    at: float
    count: int
    doorbells: float  # what the shard spends to notice them


@dataclass(eq=False)
class Flow:
    """One direction of a connection. `on_arrival`: writes were executed at the peer; `on_completion`: the poster may know of it."""

    source: Adapter
    target: Adapter
    kind: Kind
    size: int
    on_completion: Event
    on_arrival: Event = lambda now, count: None
    posted: deque[Posted] = field(default_factory=deque)
    unanswered: int = 0
    # Bytes, for the check that none is lost.
    bytes_posted: int = 0
    bytes_placed: int = 0

    def post(self, now: float, count: int, doorbells: float | None = None) -> None:
        """`doorbells`: what the shard spends to notice them; a mapped doorbell by default."""
        self.posted.append(Posted(now, count, self.source.shard.costs.doorbell if doorbells is None else doorbells))
        self.bytes_posted += count * self.size
        self.source.shard.has_work(self, now)

    @property
    def lent(self) -> int:
        """Bytes that one message lends, if its payload travels with it."""
        return self.size if self.size > figures.BESIDE_BYTES_MAX else 0


class Adapter:
    """An adapter, which belongs to a shard."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.flows: deque[Flow] = deque()  # with work, in the order of their turns
        self.shares: dict[Shard, Share] = {}

    def share(self, sibling: Shard) -> Share:
        """What it has in the ring to that shard."""
        return self.shares.setdefault(sibling, Share())


class Shard:
    """A thread. `copy_speed` in bytes a microsecond; `passes` over the memory bus, 0 if the copies stay in the cache."""

    def __init__(self, timeline: Timeline, memory: Memory, costs: Costs, copy_speed: float, passes: float) -> None:
        self._timeline = timeline
        self._memory = memory
        self.costs = costs
        self._copy_speed = copy_speed
        self._passes = passes
        self._siblings: deque[Shard] = deque()
        self._requests: dict[Shard, Ring] = {}  # to each sibling
        self._answers: dict[Shard, Ring] = {}
        self._ready: deque[Adapter] = deque()
        self._next_turn: float | None = None
        self._free_at = 0.0
        self._busy = 0.0
        self.spent: Counter[Part] = Counter()
        self._now = 0.0  # the place that the turn has reached

    def meet(self, sibling: Shard) -> None:
        """Makes the rings to a sibling."""
        self._siblings.append(sibling)
        self._requests[sibling] = Ring(self._wake)
        self._answers[sibling] = Ring(self._wake)

    def rings(self) -> list[Ring]:
        """All that it writes to."""
        return [*self._requests.values(), *self._answers.values()]

    def busy(self) -> float:
        """The share of the measured time in which it did not look for work in vain."""
        return self._busy / (self._timeline.ends - self._timeline.begins)

    def has_work(self, flow: Flow, now: float) -> None:
        """A flow of one of its adapters has something to send."""
        if flow not in flow.source.flows:
            flow.source.flows.append(flow)
        if flow.source not in self._ready:
            self._ready.append(flow.source)
        self._wake(now)

    def _wake(self, now: float) -> None:
        at = max(now, self._free_at)
        if self._next_turn is not None and self._next_turn <= at:
            return
        self._next_turn = at
        self._timeline.at(at, self._turn)

    def _turn(self, now: float) -> None:
        if self._next_turn != now:
            return  # an earlier turn took its place
        self._next_turn = None
        if now < self._free_at:  # it was woken in the middle of a turn
            return self._wake(self._free_at)
        self._now = now + self.costs.idle_turn
        looked = self._now
        self._siblings.rotate(-1)
        for sibling in self._siblings:
            self._read(sibling._answers[self], self._take_answers)
            self._read(sibling._requests[self], self._take_requests)
        blocked = self._send()
        if self._now > looked:
            self._busy += self._timeline.measured(now, self._now)
        self._free_at = self._now
        for sibling in self._siblings:
            came = [sibling._answers[self].queue]
            if self._answers[sibling].waits_since is None:  # otherwise requests wait for room for their answers
                came.append(sibling._requests[self].queue)
            for queue in came:
                if queue:
                    self._wake(queue[0].visible_at)
        if any(adapter not in blocked for adapter in self._ready):
            self._wake(min(flow.posted[0].at for adapter in self._ready if adapter not in blocked for flow in adapter.flows))

    def _read(self, ring: Ring, take: Callable[[Ring, int], Messages | None]) -> None:
        messages, size = figures.MESSAGES_PER_TURN, figures.BYTES_PER_TURN
        while messages > 0 and size > 0:
            read = take(ring, min(messages, GROUP))
            if read is None:
                return
            messages -= read.count
            size -= read.count * read.lent

    def _take_answers(self, ring: Ring, count: int) -> Messages | None:
        read = ring.take(count, self._now)
        if read is None:
            return None
        flow = read.flow
        self._spend(Part.RINGS, read.count * self.costs.ring_end)
        self._spend(Part.ENGINE, read.count * self.costs.requester / 2)
        if flow.kind is Kind.READ:
            self._place(flow, read.count)
        ring.free(read, self._now)
        flow.unanswered -= read.count
        if flow.posted:
            self.has_work(flow, self._now)
        flow.on_completion(self._now, read.count)
        return read

    def _take_requests(self, ring: Ring, count: int) -> Messages | None:
        if not ring.queue or ring.queue[0].visible_at > self._now:
            return None
        answers = self._answers[ring.queue[0].flow.source.shard]
        granted = answers.room_for_answers(count, self._now)
        read = ring.take(granted, self._now) if granted else None
        if read is None:
            return None
        flow = read.flow
        self._spend(Part.RINGS, 2 * read.count * self.costs.ring_end)
        self._spend(Part.ENGINE, read.count * self.costs.responder)
        if flow.kind is Kind.WRITE:
            self._place(flow, read.count)
            flow.on_arrival(self._now, read.count)
        ring.free(read, self._now)
        answers.put(Messages(self._now + self.costs.line, flow, read.count,
                             flow.lent if flow.kind is Kind.READ else 0, Share()))
        flow.source.shard._wake(self._now + self.costs.line)
        return read

    def _send(self) -> set[Adapter]:
        """Lets each adapter send. Returns those that can send no more before something happens elsewhere."""
        blocked = set()
        for _ in range(len(self._ready)):
            adapter = self._ready.popleft()
            left = figures.BYTES_PER_TURN
            moved = False
            for _ in range(len(adapter.flows)):
                flow = adapter.flows.popleft()
                if left > 0:
                    spent = self._send_flow(flow)
                    moved = moved or spent > 0
                    left -= spent
                if flow.posted:
                    adapter.flows.append(flow)
            if adapter.flows:
                self._ready.append(adapter)
                if not moved and all(flow.posted[0].at <= self._now for flow in adapter.flows):
                    blocked.add(adapter)
        return blocked

    def _send_flow(self, flow: Flow) -> int:
        """Returns how much of the adapter's share it has used."""
        wqes = figures.WQES_PER_TURN
        spent = 0
        while wqes > 0 and spent < figures.BYTES_PER_TURN and flow.posted and flow.posted[0].at <= self._now:
            posted = flow.posted[0]
            self._spend(Part.DOORBELLS, posted.doorbells)
            posted.doorbells = 0
            sent = self._send_group(flow, posted, min(GROUP, wqes, posted.count))
            if sent == 0:
                break
            wqes -= sent
            spent += sent * (figures.BYTES_PER_WORK + flow.size)
            posted.count -= sent
            if posted.count == 0:
                flow.posted.popleft()
        return spent

    def _send_group(self, flow: Flow, posted: Posted, count: int) -> int:
        target = flow.target.shard
        if target is self:
            self._spend(Part.ENGINE, count * (self.costs.requester + self.costs.responder))
            self._place(flow, count)
            if flow.kind is Kind.WRITE:
                flow.on_arrival(self._now, count)
            flow.on_completion(self._now, count)
            return count
        if flow.kind is Kind.READ:
            count = min(count, figures.READS_MAX - flow.unanswered)
            if count == 0:
                return 0
        ring = self._requests[target]
        share = flow.source.share(target)
        lent = flow.lent if flow.kind is Kind.WRITE else 0
        count = ring.room(share, count, lent, self._now)
        if count == 0:
            return 0
        self._spend(Part.RINGS, count * self.costs.ring_end)
        self._spend(Part.ENGINE, count * self.costs.requester / 2)
        flow.unanswered += count
        ring.put(Messages(self._now + self.costs.line, flow, count, lent, share))
        target._wake(self._now + self.costs.line)
        return count

    def _place(self, flow: Flow, count: int) -> None:
        """Copies the payload."""
        size = count * flow.size
        flow.bytes_placed += size
        alone = size / self._copy_speed
        if self._passes:
            ends = self._memory.carry(self._now, size, self._copy_speed, self._passes)
            self._spend(Part.MEMORY, ends - self._now - alone)
        self._spend(Part.COPIES, alone)

    def _spend(self, part: Part, time: float) -> None:
        self.spent[part] += self._timeline.measured(self._now, self._now + time)
        self._now += time
