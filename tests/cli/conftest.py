"""Fixtures of several tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_api import Api

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "vm"))  # for harness.as_unit


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    server = Api(tmp_path / "api.sock")
    yield server
    server.shutdown()
    server.thread.join()
    server.server_close()
