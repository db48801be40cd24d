"""Where the tests of the packages find the tools, and the helpers of tests/cli and tests/vm."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "cli"), str(_TESTS / "vm"), str(_TESTS.parent / "tools")]
