"""The parts of a host that shards and guests share: time, memory and the processors of the vCPUs.

Everything that happens is an event with a time. A part counts as busy only between `begins` and `ends` of the measured time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable


class Timeline:
    """Runs events in the order of their times. Events of equal times run in the order in which they were added."""

    def __init__(self, begins: float, ends: float) -> None:
        self.begins = begins
        self.ends = ends
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._added = 0

    def at(self, time: float, event: Callable[[float], None]) -> None:
        """`event` is called with the time."""
        heapq.heappush(self._events, (time, self._added, event))
        self._added += 1

    def run(self, until: float) -> None:
        """Runs all events before that time, and those that they add."""
        while self._events and self._events[0][0] < until:
            time, _, event = heapq.heappop(self._events)
            event(time)

    def measured(self, start: float, end: float) -> float:
        """How much of an interval is inside the measured time."""
        return max(0.0, min(end, self.ends) - max(start, self.begins))


class Memory:
    """The memory bus. Time is cut into slots, and no slot carries more bytes than the bus does."""

    _SLOT_US = 5.0

    def __init__(self, timeline: Timeline, gb_s: float) -> None:
        self._timeline = timeline
        self._slot_bytes = gb_s * 1e3 * self._SLOT_US
        self._carried: Counter[int] = Counter()

    def carry(self, start: float, copied: float, speed: float, passes: float) -> float:
        """When a copy ends that begins at `start` and would run at `speed`, bytes in a microsecond, on an idle bus."""
        now = start
        left = copied * passes
        slot = int(now / self._SLOT_US)
        while left > 1e-6:
            ends = (slot + 1) * self._SLOT_US
            taken = min(left, self._slot_bytes - self._carried[slot], max(0.0, ends - now) * speed * passes)
            self._carried[slot] += taken
            left -= taken
            now = ends if left > 1e-6 else now + taken / (speed * passes)
            slot += 1
        return now

    def busy(self) -> float:
        """The share of the bus that was used in the measured time."""
        first, last = int(self._timeline.begins / self._SLOT_US), int(self._timeline.ends / self._SLOT_US)
        return sum(self._carried[slot] for slot in range(first, last)) / ((last - first) * self._slot_bytes)


class Vcpus:
    """The processors that the shards leave to the guests. A vCPU gives its processor back when it has nothing to do."""

    def __init__(self, timeline: Timeline, cores: int) -> None:
        self._timeline = timeline
        self._cores = cores
        self._free_at = [0.0] * cores
        self._busy = 0.0

    def take(self, now: float, work: Callable[[float], float]) -> float:
        """Runs `work` on the processor that is free first; it is given the time at which it starts and returns when it ends."""
        start = max(now, heapq.heappop(self._free_at))
        end = work(start)
        heapq.heappush(self._free_at, end)
        self._busy += self._timeline.measured(start, end)
        return end

    def busy(self) -> float:
        """The share of these processors that worked in the measured time."""
        return self._busy / (self._cores * (self._timeline.ends - self._timeline.begins))


class Guest:
    """A VM. Its work waits in a queue, for one of its vCPUs and then for a processor."""

    _ITEMS_AT_ONCE = 16

    def __init__(self, timeline: Timeline, vcpus: Vcpus, memory: Memory, speed: float, count: int) -> None:
        self._timeline = timeline
        self._vcpus = vcpus
        self._memory = memory
        self._speed = speed
        self._idle = count
        self._waiting: list[tuple[float, float, Callable[[float], None]]] = []

    def work(self, now: float, cost: float, then: Callable[[float], None], touched: float = 0) -> None:
        """Calls `then` when a vCPU has worked for `cost` and has read or written `touched` bytes of memory."""
        self._waiting.append((cost, touched, then))
        self._wake(now)

    def _wake(self, now: float) -> None:
        if self._idle and self._waiting:
            self._idle -= 1
            self._timeline.at(now, self._run)

    def _run(self, now: float) -> None:
        items, self._waiting = self._waiting[:self._ITEMS_AT_ONCE], self._waiting[self._ITEMS_AT_ONCE:]

        def work(start: float) -> float:
            end = start + sum(cost for cost, _, _ in items)
            return self._memory.carry(end, sum(touched for _, touched, _ in items), self._speed, 1)

        self._timeline.at(self._vcpus.take(now, work), lambda end: self._finish(end, items))

    def _finish(self, now: float, items: list[tuple[float, float, Callable[[float], None]]]) -> None:
        for _, _, then in items:
            then(now)
        self._idle += 1
        self._wake(now)
