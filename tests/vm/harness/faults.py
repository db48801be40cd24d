"""Faults of frames in the hub: lost, doubled, overtaken or damaged. They apply to chosen frames, or to a share chosen by a
seed.

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
    """The effect of a fault on a frame."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # the next frame of the same direction overtakes it
    CORRUPT = "corrupt"  # changes one bit after the BTH, which only the ICRC reveals


def nth(*ordinals: int) -> Callable[[], bool]:
    """Chooses frames by their ordinals, from 1, among those that a fault is about."""
    count = 0

    def choose() -> bool:
        nonlocal count
        count += 1
        return count in ordinals

    return choose


def share(fraction: float, seed: int) -> Callable[[], bool]:
    """Chooses this share of the frames; for a seed always the same ones."""
    generator = random.Random(seed)
    return lambda: generator.random() < fraction


def always() -> bool:
    """Chooses every frame."""
    return True


@dataclass
class Fault:
    """`choose` is called for each frame for which `about` is true. `hits` counts the chosen frames. Owned by its
    Faults."""

    action: Action
    choose: Callable[[], bool] = always
    about: Callable[[bytes], bool] = frames.is_rc
    hits: int = 0


def cable_out(mac: str) -> Fault:
    """No frame from or to that address gets through. RoCE frames to all stations do not reach it either."""
    address = frames.mac_bytes(mac)
    return Fault(Action.DROP, about=lambda frame: address in (frames.source(frame), frames.destination(frame)))


class Faults:
    """Applies each of `faults` in order. Thread: the hub's; `hits` may be read by any."""

    def __init__(self, *faults: Fault, seed: int = 1) -> None:
        self.faults = faults
        self._generator = random.Random(seed)
        self._waiting: dict[bytes, list[bytes]] = {}  # frames of each direction, by both addresses

    @property
    def hits(self) -> int:
        """The number of chosen frames of all faults."""
        return sum(fault.hits for fault in self.faults)

    def apply(self, frame: bytes) -> list[bytes]:
        """The frames that are to be delivered now in place of `frame`."""
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
