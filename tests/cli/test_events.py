"""pvrdmactl events and GET /v1/events, against a real daemon that is confined as always.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_events.py
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from streams import only_host, pvrdmactl
from test_cli import GUARD_S, Daemon, got


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """The cluster's only host."""
    with only_host("fault_injection = true\n") as running:
        yield running


def of_type(daemon: Daemon, kind: str) -> list[dict[str, Any]]:
    """The events of a type, oldest first."""
    return [event for event in daemon.ctl_json("events")["events"] if event["type"] == kind]


def test_the_daemon_tells_what_happened_and_who_did_it(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "down").returncode == 0
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "up").returncode == 0
    assert daemon.ctl("dvs", "create", "DSwitch").returncode == 0
    assert daemon.ctl("fault", "add", "--adapter", "VM-01", "--drop", "0.5").returncode == 0
    assert daemon.ctl("fault", "remove", "all").returncode == 0
    links = of_type(daemon, "link")
    assert [(event["text"], event["kind"], event["object"]) for event in links] == [
        ("adapter VM-01: link down", "vm", "VM-01"), ("adapter VM-01: link up", "vm", "VM-01")]
    [edit] = [event for event in of_type(daemon, "edit") if event["kind"] == "dvs"]
    assert (edit["object"], edit["initiator"], edit["text"]) == ("DSwitch", f"uid {os.getuid()}", f"dvs DSwitch: added by uid {os.getuid()}")
    assert [event["text"] for event in of_type(daemon, "fault")][1:] == ["adapter VM-01: fault 1 is removed"]
    assert of_type(daemon, "store")[0]["text"].endswith(": reached")
    code, log = daemon.stop()
    assert code == 0
    for event in (*links, edit):
        assert event["text"] in log, "the log has the same sentence"


def test_without_a_number_the_newest_events_come(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "down").returncode == 0
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "up").returncode == 0
    page = json.loads(got(daemon, "/v1/events?limit=2"))
    assert page["events"][1]["sequence"] == page["last"]
    earlier = [event for event in daemon.ctl_json("events")["events"] if event["sequence"] <= page["last"]]
    assert len(earlier) > 2, "pvrdmactl shows all"
    assert page["events"] == earlier[-2:]


def test_the_table_names_the_object(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "down").returncode == 0
    heading, _, *rows = daemon.ctl("events").stdout.splitlines()
    assert heading.split() == ["Number", "Time", "Level", "Type", "Target", "Initiator", "Description"]
    [link] = [row.split() for row in rows if " link down" in row]
    assert link[2:] == ["info", "link", "vm", "VM-01", "-", "adapter", "VM-01:", "link", "down"]
    number = daemon.ctl_json("events")["last"]
    later = daemon.ctl_json("events", "--after", str(number))["events"]
    assert [event for event in later if event["type"] == "link"] == []


def test_followers_get_the_earlier_events_and_the_next(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "set", "VM-01", "--link", "down").returncode == 0
    with pvrdmactl(daemon, "events", "--follow") as text, pvrdmactl(daemon, "--json", "events", "--follow") as objects:
        assert text.stdout is not None and objects.stdout is not None
        for line in text.stdout:
            if line.endswith(" info adapter VM-01: link down\n"):
                break
        assert daemon.ctl("adapter", "set", "VM-01", "--link", "up").returncode == 0
        for line in text.stdout:
            if line.endswith(" info adapter VM-01: link up\n"):
                break
        else:
            pytest.fail("the follower ended before the link was up")
        numbers = []
        for line in objects.stdout:
            numbers.append(json.loads(line)["sequence"])
            if json.loads(line)["text"] == "adapter VM-01: link up":
                break
        assert numbers == list(range(1, len(numbers) + 1))
        text.send_signal(signal.SIGINT)
        assert text.wait(GUARD_S) == 0
