"""bench/neighbour_bench: it measures, attacks, and reports the effect. The figures are not judged here."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

BENCH = os.environ["NEIGHBOUR_BENCH"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the bench."""
    return subprocess.run([BENCH, *map(str, arguments)], text=True, capture_output=True, timeout=120, check=False)


def measure(folder: Path, *names: str) -> dict[str, dict[str, object]]:
    """Runs some scenarios for a moment. Returns the entries of the JSON, by name."""
    target = folder / "neighbour_bench.json"
    scenarios = [argument for name in names for argument in ("--scenario", name)]
    done = run(*scenarios, "--seconds", "0.3", "--json", target, "--logs", folder / "logs")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == list(names)
    return {entry["name"]: entry for entry in json.loads(target.read_text())["benchmarks"]}


def test_every_scenario_is_listed_once() -> None:
    names = [line.split()[0] for line in run("--list").stdout.splitlines()]
    assert len(names) == len(set(names)) and {"idle", "vm-dies", "hundred-vmms", "overflowed-cq", "mapped-crowd", "mad-frames"} <= set(names)


def test_an_idle_neighbour_is_served(tmp_path: Path) -> None:
    entries = measure(tmp_path, "idle")
    assert set(entries) == {"Neighbour/idle/read", "Neighbour/idle/write"}
    for entry in entries.values():
        assert "error_occurred" not in entry, entry
        assert 0 < entry["p50_us"] <= entry["p999_us"] <= entry["worst_us"]
        assert entry["remark"] == "nobody did anything"


def test_attacks_get_through_to_the_daemon(tmp_path: Path) -> None:
    """Attacks on the session, in a cluster, through memory and from an Ethernet. Their output and the daemon's
    log show that they reached it."""
    entries = measure(tmp_path, "connect-loop", "gids-in-a-loop", "mapped-doorbells", "mad-frames", "watchers")
    assert "connections" in str(entries["Neighbour/connect-loop/read"]["remark"])
    assert "GIDs bound and unbound" in str(entries["Neighbour/gids-in-a-loop/read"]["remark"])
    assert "doorbells in 500 contexts" in str(entries["Neighbour/mapped-doorbells/read"]["remark"])
    assert "frames of 322 bytes" in str(entries["Neighbour/mad-frames/read"]["remark"])
    assert "watchers read" in str(entries["Neighbour/watchers/read"]["remark"])
    assert "A0.sock" in (tmp_path / "logs" / "connect-loop.log").read_text()


def test_attacks_that_cost_the_kernel_long_get_through(tmp_path: Path) -> None:
    """In the last one the neighbour connects to a native endpoint, too, and must not be refused. Not saved-regions: on a slow machine
    the neighbour waits for it so long that the bench ends it."""
    entries = measure(tmp_path, "punched-memory", "saved-qps", "watched-eventfd", "watched-socket", "native-connections")
    assert "holes of 1 GiB" in str(entries["Neighbour/punched-memory/read"]["remark"])
    assert "KiB saved and loaded" in str(entries["Neighbour/saved-qps/read"]["remark"])
    assert "watches, " in str(entries["Neighbour/watched-eventfd/read"]["remark"])
    assert "watches, " in str(entries["Neighbour/watched-socket/read"]["remark"])
    assert "connections of 4 VMs" in str(entries["Neighbour/native-connections/read"]["remark"])
    assert "error_occurred" not in entries["Neighbour/native-connections/read"]


def test_an_attacker_comes_into_the_ward(tmp_path: Path) -> None:
    """The daemon finds out whose memory makes it sleep, and moves that adapter only, although the neighbour's turns are long, too."""
    done = run("--scenario", "punched-memory", "--seconds", "4", "--attackers", "earned", "--logs", tmp_path)
    assert done.returncode == 0 and "holes of 1 GiB" in done.stdout, done.stdout + done.stderr
    log = (tmp_path / "punched-memory.log").read_text()
    moved = re.findall(r"adapter (\w+): moved from shard 0 to shard 1, in \d+ us: that is the ward: twice within a minute it kept", log)
    assert moved == ["A0"], log


def test_huge_pages_are_cleared_or_their_lack_is_said(tmp_path: Path) -> None:
    done = run("--scenario", "huge-pages", "--seconds", "0.3", "--logs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert " cleared, " in done.stdout or "skipped: this machine has no free huge page" in done.stdout


def test_an_unknown_scenario_is_refused_with_a_sentence() -> None:
    done = run("--scenario", "nonsense")
    assert done.returncode == 1
    assert done.stderr == "neighbour_bench: there is no scenario 'nonsense'; --list shows those there are\n"
