"""What an operator sees of programs' messages, and does to them, as for a VM's adapter: capture, counters, faults."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from machine import BUILD, PATIENCE_S, Machine, address_of, listens, until

_PVRDMACTL = str(BUILD / "src/pvrdmactl/pvrdmactl")
_MESSAGES = 200
_WRITE_ONLY, _ACKNOWLEDGE = "10", "17"


def _ctl(machine: Machine, *words: str) -> str:
    done = machine.run_plainly(_PVRDMACTL, "--api", str(machine.api), *words)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(name="faulty")
def _faulty(shared_machine: Machine) -> Iterator[Machine]:
    """Faults of node 1 last as long as the test."""
    yield shared_machine
    _ctl(shared_machine, "fault", "remove", "--adapter", "node1")


def _fault(machine: Machine) -> dict:
    (fault,) = json.loads(_ctl(machine, "--json", "fault", "list"))
    return fault


def _qpns(output: str) -> list[str]:
    """The numbers of the program's QP and its peer's, as perftest and tshark write them."""
    return [f"0x{int(number, 16):06x}" for number in re.findall(r"address: LID \w+ QPN (\w+)", output)]


def test_capture(shared_machine: Machine, port: str) -> None:
    """tshark finds the program's packets, with its address and QP numbers."""
    file = shared_machine.folder / "node0.pcapng"
    capture = shared_machine.start(
        _PVRDMACTL, "--api", str(shared_machine.api), "capture", "node0", "-w", str(file), "-f", "op write", "-c", str(_MESSAGES))
    until(lambda: file.exists() and file.stat().st_size > 0, "the capture begins")
    command = ["ib_write_bw", "-F", "-s", "512", "-p", port, "-n", str(_MESSAGES)]
    server, _ = shared_machine.pair(command, [*command, "127.0.0.1"], (0, 1))
    assert f"{_MESSAGES} frames captured, 0 dropped\n" in capture.communicate(timeout=PATIENCE_S)[0]
    fields = [word for name in ("ip.dst", "infiniband.bth.opcode", "infiniband.bth.destqp") for word in ("-e", name)]
    packets = subprocess.run(["tshark", "-n", "-r", str(file), "-T", "fields", *fields], capture_output=True, text=True, check=True)
    lines = [tuple(line.split("\t")) for line in packets.stdout.splitlines()]
    here, there = _qpns(server)
    assert len(lines) == _MESSAGES
    assert set(lines) == {(address_of(0), _WRITE_ONLY, here), (address_of(1), _ACKNOWLEDGE, there)}


def test_counters(shared_machine: Machine, port: str) -> None:
    """Each message of a pingpong is counted, by the API and by pvrdmactl."""
    names = ("tx_messages", "tx_bytes", "rx_messages", "rx_bytes")

    def counted() -> list[int]:
        adapter = shared_machine.ask("adapters/node1")
        return [adapter[name] for name in names]

    before = counted()
    command = ["ibv_rc_pingpong", "-g", "0", "-p", port, "-s", "1000", "-n", str(_MESSAGES)]
    shared_machine.pair(command, [*command, "127.0.0.1"], (0, 1))
    after = counted()
    assert [end - start for start, end in zip(before, after)] == 2 * [_MESSAGES, 1000 * _MESSAGES]
    shown = _ctl(shared_machine, "stats", "--adapter", "node1")
    for name, value in zip(names, after):
        assert re.search(rf"^node1 +verbs +{name} +{value}$", shown, re.MULTILINE), shown


def test_some_messages_are_lost(faulty: Machine, port: str) -> None:
    """They are sent again, and the program does not notice."""
    _ctl(faulty, "fault", "add", "--adapter", "node1", "--drop", "0.05", "--seed", "7")
    command = ["ib_send_bw", "-F", "-s", "512", "-p", port, "-n", "1000"]
    _, output = faulty.pair(command, [*command, "127.0.0.1"], (0, 1))
    assert re.search(r"^ *512 +1000 ", output, re.MULTILINE), output
    counts = _fault(faulty)["counts"]
    assert counts["dropped"] >= 3 and counts["messages"] >= 1000 + counts["dropped"], counts


def test_all_messages_are_lost(faulty: Machine, port: str) -> None:
    """The program hears that its peer does not answer. Programs of other nodes still exchange messages."""
    _ctl(faulty, "fault", "add", "--adapter", "node1", "--drop", "1")
    command = ["ib_send_bw", "-F", "-p", port, "-n", "100"]
    server = faulty.popen(*command)
    until(lambda: listens(int(port)) or server.poll() is not None, "the server listens")
    client = faulty.run(*command, "127.0.0.1", node=1)
    assert client.returncode != 0 and "Failed status 12" in client.stdout, client.stdout  # IBV_WC_RETRY_EXC_ERR
    counts = _fault(faulty)["counts"]
    assert counts["dropped"] == counts["messages"] > 0, counts
    assert server.poll() is None  # it waits for the first message
    server.kill()
    server.wait()
    faulty.pair(command, [*command, "127.0.0.1"], (0, 2))
