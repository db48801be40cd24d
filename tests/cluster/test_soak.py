"""A short soak (tests/soak/soak.py), to check that it works before it is needed for hours, and that it finds
losses at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.daemon import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "soak"))

from soak import Plan, Soak  # noqa: E402  (the path above comes first)


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=pytest.mark.full)], ids=["plain", "tls"])
def test_nothing_is_left_of_guests_that_come_and_go(tls: bool) -> None:
    folder = Path(REPOSITORY / "build" / "cluster-logs" / f"soak-{'tls' if tls else 'plain'}")
    assert not Soak(Plan(seconds=20, seed=1, tls=tls, folder=folder)).run()
