"""pvrdmactl fault on the way to native endpoints: faults apply to frames, and everything is executed exactly
once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.daemon import Daemon
from harness.native_daemons import native_daemons


def _fault(daemon: Daemon) -> Any:
    (fault,) = daemon.ctl("fault", "list")
    return fault


@pytest.mark.parametrize(("option", "count"), [("drop", "dropped"), ("duplicate", "duplicated"), ("delay", "delayed"),
                                               ("reorder", "reordered"), ("corrupt", "corrupted")])
def test_frames_meet_faults(logs: Path, option: str, count: str) -> None:
    with native_daemons(logs / f"native-fault-{option}", fault_injection=True) as pair:
        faulty, other = pair.daemons
        faulty.ctl_text("fault", "add", "--adapter", "VM-a", f"--{option}", "0.02", "--seed", "7")
        pair.check("--rounds", "20", "--connections", "2", "--block", "50000")
        counts = _fault(faulty)["counts"]
        assert counts[count] > 0
        assert counts["messages"] > 1000  # frames, of 48 packets a block
        if option == "corrupt":
            assert other.ctl("stats")["host"]["roce_dropped"]["icrc"] == counts[count]
        faulty.ctl_text("fault", "remove", "--all")
        assert faulty.ctl("fault", "list") == []
        pair.check("--rounds", "1", "--block", "50000")
