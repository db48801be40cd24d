"""What may happen to frames on their way through the hub: lost, doubled, overtaken, damaged; chosen ones, or a share by a seed.

    faults = Faults(Fault(Action.DROP, nth(3), lambda frame: opcode(frame) == WRITE_MIDDLE))
    faults = Faults(Fault(Action.CORRUPT, share(0.01, seed=7)))
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass

from harness import frame as frames

_BTH_BYTES = 12


class Action(enum.Enum):
    """What happens to a frame."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # the next frame of the same direction overtakes it
    CORRUPT = "corrupt"  # one bit behind the BTH changes: only the ICRC tells


def nth(*ordinals: int) -> Callable[[], bool]:
    """Chooses the frames with these ordinals, from 1, of those that a fault is about."""
    count = 0

    def choose() -> bool:
        nonlocal count
        count += 1
        return count in ordinals

    return choose


def share(fraction: float, seed: int) -> Callable[[], bool]:
    """Chooses so large a share of the frames, always the same ones for a seed."""
    generator = random.Random(seed)
    return lambda: generator.random() < fraction


def always() -> bool:
    """Chooses each frame."""
    return True


@dataclass
class Fault:
    """`choose` is asked for each frame that `about` is true of. `hits` counts what it was done to. Owned by its Faults."""

    action: Action
    choose: Callable[[], bool] = always
    about: Callable[[bytes], bool] = frames.is_rc
    hits: int = 0


def cable_out(mac: str) -> Fault:
    """Nothing from and to that address gets through; what goes to all does not reach it either, if it is RoCE's."""
    address = frames.mac_bytes(mac)
    return Fault(Action.DROP, about=lambda frame: address in (frames.source(frame), frames.destination(frame)))


class Faults:
    """Applies each of `faults` in order. Thread: the hub's; `hits` may be read from any."""

    def __init__(self, *faults: Fault, seed: int = 1) -> None:
        self.faults = faults
        self._generator = random.Random(seed)
        self._waiting: dict[bytes, list[bytes]] = {}  # frames of each direction, by both addresses

    @property
    def hits(self) -> int:
        """How many frames something was done to."""
        return sum(fault.hits for fault in self.faults)

    def apply(self, frame: bytes) -> list[bytes]:
        """What is to be delivered now in place of `frame`."""
        direction = frame[:12]
        passing = [frame]
        for fault in self.faults:
            if not fault.about(frame) or not fault.choose():
                continue
            fault.hits += 1
            if fault.action is Action.DROP:
                return []
            if fault.action is Action.REORDER:
                self._waiting.setdefault(direction, []).append(frame)
                return []
            passing = passing * 2 if fault.action is Action.DUPLICATE else [self._damaged(item) for item in passing]
        return [*passing, *self._waiting.pop(direction, [])]

    def _damaged(self, frame: bytes) -> bytes:
        at = frames.bth_offset(frame)
        first = at + _BTH_BYTES if at is not None else 12
        changed = bytearray(frame)
        changed[self._generator.randrange(first, len(frame))] ^= 1 << self._generator.randrange(8)
        return bytes(changed)
