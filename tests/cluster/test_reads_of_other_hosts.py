"""Reads of another host through a daemon: what they answer, and what happens when the other daemon is silent or dead,
or when the hosts have no certificates."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import make_fleet
from fleet.fleet import Fleet
from fleet.until import until

_OF_HOST_MAX = 3  # api::HostReads::kOfHostMax
_WAITING_MAX = 2  # api::HostReads::kWaitingMax
_GUARD_S = 60.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with certificates, configured by the guide, with their VMs off."""
    with make_fleet("reads", tmp_path_factory.mktemp("ca"), tls=True) as made:
        _follow_the_guide(made)
        yield made


def _follow_the_guide(fleet: Fleet) -> None:
    """Afterwards each host has the adapter of its VM."""
    fleet.follow_the_guide()
    until("the adapters", lambda: [len(host.ctl("adapter", "list")) for host in fleet.hosts.values()],
          accept=lambda counts: counts == [1, 1])


def _adapters(fleet: Fleet, number: int, *options: str) -> list[str]:
    return [adapter["name"] for adapter in fleet[number].ctl("adapter", "list", *options)]


def test_another_host_answers(fleet: Fleet) -> None:
    assert _adapters(fleet, 1, "--host", "esx-02") == _adapters(fleet, 2) == ["VM-02"]
    assert _adapters(fleet, 2, "--host", "esx-01") == _adapters(fleet, 1, "--host", "self") == ["VM-01"]
    assert fleet[1].ctl("adapter", "get", "VM-02", "--host", "esx-02")["name"] == "VM-02"
    assert fleet[1].ctl("cluster", "get", "--host", "esx-02")["host"] == "esx-02"
    far, near = (fleet[number].ctl("events", *options)["boot"] for number, options in ((1, ("--host", "esx-02")), (1, ())))
    assert far == fleet[2].ctl("events")["boot"] != near
    assert "host esx-02: there is no adapter \"VM-01\"" in fleet[1].refusal("adapter", "get", "VM-01", "--host", "esx-02")
    assert "there is no host \"esx-09\"" in fleet[1].refusal("adapter", "list", "--host", "esx-09")


def _begin(fleet: Fleet, path: str) -> socket.socket:
    """A connection to esx-01's API that has sent a GET and waits for the answer."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_GUARD_S)
    connection.connect(str(fleet[1].api))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def _answer(connection: socket.socket) -> str:
    text = b""
    while piece := connection.recv(65536):
        text += piece
    return text.decode()


def test_reads_are_counted_by_both_hosts(fleet: Fleet) -> None:
    def counted(metric: str) -> int:
        return next(int(line.split()[-1]) for line in _answer(_begin(fleet, "/metrics")).splitlines() if line.startswith(metric))

    answered, served = 'pvrdma_host_reads_total{outcome="answered"}', "pvrdma_host_reads_served_total"
    before = counted(answered), counted(served)
    assert _adapters(fleet, 1, "--host", "esx-02") == ["VM-02"]
    assert (counted(answered), counted(served)) == (before[0] + 1, before[1])
    assert _adapters(fleet, 2, "--host", "esx-01") == ["VM-01"]
    assert (counted(answered), counted(served)) == (before[0] + 1, before[1] + 1)


def test_a_silent_host_holds_up_only_its_own_readers(fleet: Fleet) -> None:
    fleet[2].pause()
    try:
        reads = [_begin(fleet, "/v1/hosts/esx-02/adapters") for _ in range(_OF_HOST_MAX + _WAITING_MAX + 1)]
        first = [_answer(select.select(reads, [], [])[0][0])]
        assert "host esx-02 is not asked, because too many reads of other hosts wait" in first[0], "that one finds no place to wait"
        assert "VM-01" in _answer(_begin(fleet, "/v1/adapters"))
        waiting = select.select(reads, [], [], 0)[0]
        assert len(waiting) < len(reads), "some waited while another request was answered"
        answers = first + [text for text in map(_answer, reads) if text]
        refused = [text for text in answers if "host esx-02 is not asked, because too many reads of other hosts wait" in text]
        silent = [text for text in answers if "host esx-02" in text and ("no answer in time" in text or "did not answer" in text)]
        # Those that wait may still find a place.
        assert len(silent) >= _OF_HOST_MAX and len(refused) + len(silent) == len(reads), answers
    finally:
        fleet[2].resume()
    until("it answers again", lambda: fleet[1].ctl_outcome("adapter", "list", "--host", "esx-02")[0], accept=lambda code: code == 0)


def test_a_dead_host_is_named(fleet: Fleet) -> None:
    fleet[2].kill()
    sentence = fleet[1].refusal("adapter", "list", "--host", "esx-02")
    assert "host esx-02 at " in sentence and "cannot be called" in sentence
    until("its lease ends", lambda: fleet[1].refusal("adapter", "list", "--host", "esx-02"),
          accept=lambda text: "host esx-02 is not asked, because it is not alive" in text)
    assert _adapters(fleet, 1) == ["VM-01"]
    fleet[2].start()
    until("it answers again", lambda: fleet[1].ctl_outcome("adapter", "list", "--host", "esx-02")[0], accept=lambda code: code == 0)


def test_hosts_without_certificates_relay_nothing(tmp_path: Path) -> None:
    with make_fleet("reads-plain", tmp_path) as plain:
        _follow_the_guide(plain)
        sentence = plain[1].refusal("adapter", "list", "--host", "esx-02")
        assert "give each host certificates in [tcp], see docs/cluster/setup.md" in sentence
        assert len(plain[1].ctl("adapter", "list", "--host", "self")) == 1
