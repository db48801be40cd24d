"""The ring from one shard to another: slots, lent bytes, shares of adapters, and who waits for room (docs/adr/0028).

The reader frees slots at times that the writer's thread may not have reached yet. So what is freed has a time, and the writer
finds it when it looks later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaling import figures

if TYPE_CHECKING:
    from scaling.shards import Flow


@dataclass
class Share:
    """What one adapter has in a ring of requests."""

    slots: int = 0
    lent: int = 0


@dataclass
class Messages:
    """Some messages of one flow that lie in a ring together."""

    visible_at: float
    flow: Flow
    count: int
    lent: int  # bytes of each message that are lent
    share: Share


@dataclass
class Ring:
    """One writer, one reader. `wake_writer` is called with the time at which there is room for a writer that waits."""

    wake_writer: Callable[[float], None]
    queue: deque[Messages] = field(default_factory=deque)
    slots: int = 0
    lent: int = 0
    lent_messages: int = 0
    slots_most: int = 0
    lent_most: int = 0
    waits_since: float | None = None
    waits: list[tuple[float, float]] = field(default_factory=list)
    _freed: deque[tuple[float, Messages]] = field(default_factory=deque)

    def reclaim(self, now: float) -> None:
        """Takes back what the reader had read by then."""
        while self._freed and self._freed[0][0] <= now:
            read = self._freed.popleft()[1]
            self.slots -= read.count
            self.lent -= read.count * read.lent
            self.lent_messages -= read.count if read.lent else 0
            read.share.slots -= read.count
            read.share.lent -= read.count * read.lent

    def room(self, share: Share, wanted: int, lent: int, now: float) -> int:
        """How many requests of that adapter, each of which lends `lent` bytes, may be sent now."""
        self.reclaim(now)
        count = min(wanted, figures.SLOTS - 1 - self.slots, figures.SLOTS // 2 - share.slots)
        if lent:  # one message may exceed the bound
            count = min(count, -((self.lent - figures.LENT_BYTES_MAX) // lent),
                        -((share.lent - figures.LENT_BYTES_MAX // 2) // lent))
        return self._granted(count, now)

    def room_for_answers(self, wanted: int, now: float) -> int:
        """How many requests may be answered now."""
        self.reclaim(now)
        return self._granted(min(wanted, figures.SLOTS + 1 - figures.ANSWER_SLOTS - self.slots,
                                 figures.LENT_ANSWERS_MAX - self.lent_messages), now)

    def _granted(self, count: int, now: float) -> int:
        if count > 0:
            if self.waits_since is not None:
                self.waits.append((self.waits_since, now))
                self.waits_since = None
            return count
        if self.waits_since is None:
            self.waits_since = now
        if self._freed:  # read already, by a thread that is ahead of this one
            self.wake_writer(self._freed[0][0])
        return 0

    def put(self, messages: Messages) -> None:
        """There was room."""
        self.queue.append(messages)
        self.slots += messages.count
        self.lent += messages.count * messages.lent
        self.lent_messages += messages.count if messages.lent else 0
        messages.share.slots += messages.count
        messages.share.lent += messages.count * messages.lent
        self.slots_most = max(self.slots_most, self.slots)
        self.lent_most = max(self.lent_most, self.lent)

    def take(self, count: int, now: float) -> Messages | None:
        """At most that many messages of the first group that are visible now. free() follows."""
        if not self.queue or self.queue[0].visible_at > now:
            return None
        first = self.queue[0]
        if first.count <= count:
            return self.queue.popleft()
        first.count -= count
        return Messages(first.visible_at, first.flow, count, first.lent, first.share)

    def free(self, read: Messages, now: float) -> None:
        """The reader has read them."""
        self._freed.append((now, read))
        if self.waits_since is not None:
            self.wake_writer(now)
