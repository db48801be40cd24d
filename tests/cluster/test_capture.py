"""A capture on each host of two hosts' messages over TCP, and of an adapter that disappears."""

from __future__ import annotations

import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet.fleet import Fleet
from fleet.host import Host
from fleet.until import until
from harness import process
from harness.daemon import binary

_WRITE, _READ, _ANSWERS = {6, 7, 8}, {12, 13, 14, 15}, {17, 18}
_SEND, _ATOMIC = {4}, {20}
# tshark guesses the protocol of a send's payload from its first bytes, and is sometimes wrong.
_MALFORMED = "(_ws.malformed or _ws.expert.severity >= 6291456) and not infiniband.bth.opcode == 4"
_STATISTICS = 5
_GUARD_S = 30.0


@contextmanager
def _capture(host: Host, vm: str, folder: Path, *options: str) -> Iterator[Path]:
    """Runs pvrdmactl capture. The file is complete at the end of the `with` block."""
    file, log = folder / f"{vm}.pcapng", folder / f"capture-{vm}.log"
    file.unlink(missing_ok=True)
    running = process.start([str(binary("pvrdmactl")), "--api", str(host.api), "capture", vm, "-w", str(file), *options], log)
    try:
        until("the capture begins", lambda: file.exists() and file.stat().st_size > 0)
        yield file
    finally:
        assert process.stop(running, _GUARD_S) == 0, process.tail(log)


def _tshark(file: Path, *arguments: str) -> list[str]:
    """The lines of tshark's output for the file."""
    done = subprocess.run(["tshark", "-n", "-r", str(file), *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _statistics_ns(file: Path) -> int:
    """The end of the file's last statistics interval. All messages captured by then come before it."""
    data, at, time_ns = file.read_bytes(), 0, 0
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == _STATISTICS and at + length <= len(data):
            high, low = struct.unpack_from("<II", data, at + 12)
            time_ns = high << 32 | low
        at += length
    return time_ns


def test_both_hosts_capture_the_same(shared_fleet: Fleet) -> None:
    """Everything that one host's adapter sends over TCP reaches the other's: packet for packet, with the same
    PSNs."""
    fleet = shared_fleet
    with fleet.checker("VM-01", "VM-02", "--rounds", "1") as checker:  # afterwards the hosts know the path to each other
        checker.finish()
    with _capture(fleet[1], "VM-01", fleet.logs) as one, _capture(fleet[2], "VM-02", fleet.logs) as two:
        # So few messages that a capture holds all of them, however late it is read.
        with fleet.checker("VM-01", "VM-02", "--connections", "2", "--block", "50000", "--rounds", "10") as checker:
            checker.finish()
        end = time.time_ns()
        until("both have everything", lambda: min(_statistics_ns(one), _statistics_ns(two)) > end)
    fields = ("-T", "fields", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn")
    for file, vm in ((one, "VM-01"), (two, "VM-02")):
        assert _tshark(file, "-Y", _MALFORMED) == []
        assert _tshark(file, "-Y", f'frame.interface_name == "{vm} local"') == []
    # Messages that a guest sends before its host knows where the peer is are dropped and repeated.
    sent, got = (Counter(_tshark(file, "-Y", f'frame.interface_name == "{vm} tcp"', *fields))
                 for file, vm in ((one, "VM-01"), (two, "VM-02")))
    assert {int(line.split()[1]) for line in sent} >= _WRITE | _READ | _ANSWERS | _SEND | _ATOMIC
    # Each host answers the other's requests, so each sees both, and TCP loses nothing. But a host drops messages
    # until it knows the sender's host, and asks for them afterwards.
    assert got - sent == Counter()
    assert sent.keys() - got.keys() == set()


def test_an_adapter_that_goes_ends_its_capture(shared_fleet: Fleet) -> None:
    fleet = shared_fleet
    fleet.define_vm("VM-09", 1)
    try:
        until("esx-01 serves it", lambda: any(each["name"] == "VM-09" for each in fleet[1].ctl("adapter", "list")))
        file, log = fleet.logs / "gone.pcapng", fleet.logs / "gone.log"
        running = process.start([str(binary("pvrdmactl")), "--api", str(fleet[1].api), "capture", "VM-09", "-w", str(file)], log)
        until("the capture begins", lambda: file.exists() and file.stat().st_size > 0)
    finally:
        fleet[1].ctl("vm", "delete", "VM-09")
    assert running.wait(_GUARD_S) == 0, process.tail(log)
    assert log.read_text(encoding="utf-8") == "0 frames captured, 0 dropped\n"
