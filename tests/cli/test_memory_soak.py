"""Some seconds of the soak of guest memory (tests/soak/memory_soak.py): no VMM's changes of memory reach its neighbour."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "soak"), str(_TESTS / "cluster"), str(_TESTS / "vm"), str(_TESTS.parent / "tools")]

from memory_soak import MemorySoak  # noqa: E402  (the path above comes first)

_ACTS = {"plug", "unplug", "unplug_several", "cut", "punch", "punch_ram", "shrink", "log", "reset", "leave", "die", "write",
         "written", "refused", "neighbour_rounds"}


def test_memory_that_comes_and_goes_disturbs_no_neighbour(tmp_path: Path) -> None:
    soak = MemorySoak(seed=1, folder=tmp_path)
    soak.run(seconds=8)
    assert _ACTS <= {act for act, count in soak.done.items() if count > 0}, soak.done
