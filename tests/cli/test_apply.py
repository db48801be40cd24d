"""pvrdmactl apply: all edits of a file or none, against a real daemon on a real store.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_apply.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from test_cli import Daemon, running_daemon
from test_doctor import member

SETUP = [
    {"method": "POST", "path": "/v1/dvs", "body": {"name": "DSwitch", "uplinks": 1}},
    {"method": "PUT", "path": "/v1/dvs/DSwitch/hosts/self"},
    {"method": "PUT", "path": "/v1/dvs/DSwitch/portgroups/DPortGroup", "body": {"vlan": 5}},
    {"method": "POST", "path": "/v1/vms", "body": {"name": "VM-01", "hardware_version": 14, "memory_mib": 512, "memory_reserved_mib": 512,
                                                   "adapter": {"portgroup": "DPortGroup"}}},
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def edits(folder: Path, wanted: list[dict[str, Any]]) -> str:
    """A file with these edits."""
    file = folder / "edits.json"
    file.write_text(json.dumps({"edits": wanted}), encoding="utf-8")
    return str(file)


def everything(daemon: Daemon) -> list[Any]:
    """What the cluster has."""
    return [daemon.ctl_json(*words) for words in (("dvs", "list"), ("vm", "list"), ("host", "list"))]


def test_a_dry_run_prints_the_difference_and_changes_nothing(folder: Path) -> None:
    with running_daemon(folder, member(folder)) as daemon:
        before = everything(daemon)
        dry = daemon.ctl("apply", edits(folder, SETUP), "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert "dvs DSwitch: added\n" in dry.stdout and "  portgroups/DPortGroup/vlan: 5\n" in dry.stdout
        assert "vm VM-01: added\n" in dry.stdout and dry.stdout.endswith("Nothing was changed: this was a dry run.\n")
        assert everything(daemon) == before

        done = daemon.ctl("apply", edits(folder, SETUP))
        assert done.returncode == 0, done.stderr
        [made] = daemon.ctl_json("dvs", "list")
        assert ([each["host"] for each in made["members"]], [each["vlan"] for each in made["portgroups"]]) == (["esx-01"], [5])
        [vm] = daemon.ctl_json("vm", "list")
        assert (vm["adapter"]["portgroup"], vm["power_on_refusal"]) == ("DPortGroup", "")
        # The MAC is made of the cluster's id, which a cluster without any edit does not have yet.
        assert [line for line in dry.stdout.splitlines()[:-1] if "mac" not in line] == [line for line in done.stdout.splitlines() if "mac" not in line]


def test_a_refused_edit_undoes_all(folder: Path) -> None:
    with running_daemon(folder, member(folder)) as daemon:
        before = everything(daemon)
        for wrong, sentence in (
            ({"method": "PUT", "path": "/v1/dvs/Other/hosts/self"}, "edit 4, PUT /v1/dvs/Other/hosts/self: there is no distributed switch"),
            ({"method": "POST", "path": "/v1/dvs", "body": {"name": "x", "uplinks": 33}}, "edit 4, POST /v1/dvs: the body's \"uplinks\" must be"),
            ({"method": "POST", "path": "/v1/adapters/VM-01/capture"}, "edit 4, POST /v1/adapters/VM-01/capture: this is no edit of"),
        ):
            for more in ((), ("--dry-run",)):
                refused = daemon.ctl("apply", edits(folder, [*SETUP, wrong]), *more)
                assert refused.returncode == 1 and refused.stdout == ""
                assert sentence in refused.stderr, refused.stderr
        assert everything(daemon) == before


def test_json_has_the_answers_of_the_edits(folder: Path) -> None:
    with running_daemon(folder, member(folder)) as daemon:
        answer = daemon.ctl_json("apply", edits(folder, SETUP))
        assert [each.get("name") for each in answer["answers"]] == ["DSwitch"] * 3 + ["VM-01"]
        assert answer["dry_run"] is False
        again = daemon.ctl("apply", edits(folder, [{"method": "PATCH", "path": "/v1/vms/VM-01", "body": {"memory_mib": 512}}]))
        assert again.stdout == "Nothing changes: the configuration is like that already.\n"
