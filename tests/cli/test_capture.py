"""pvrdmactl capture: real daemon, real traffic of the user-space driver, and independent decoders for the captured files.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... RC_CHECKER=... /usr/bin/python3 -m pytest tests/cli/test_capture.py
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from test_cli import GUARD_S, PVRDMACTL, Daemon, adapter, run, running_daemon
from traffic import RC_CHECKER, until

CAPTURES_MAX = 4
SECTION, INTERFACE, STATISTICS, FRAME = 0x0A0D0D0A, 1, 5, 6


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Two adapters of a daemon that is ready."""
    with running_daemon(tmp_path, adapter(tmp_path, 1) + adapter(tmp_path, 2)) as running:
        yield running


def traffic(daemon: Daemon, *options: str) -> None:
    """Writes, reads, atomics and sends from VM-01 to VM-02; each one is checked."""
    done = run(RC_CHECKER, "--a", str(daemon.folder / "vm-01.sock"), "--b", str(daemon.folder / "vm-02.sock"), *options)
    assert done.returncode == 0, done.stdout + done.stderr


def blocks(data: bytes, growing: bool = False) -> Iterator[tuple[int, bytes]]:
    """The blocks of a pcapng file, each with type and body. The last block must be complete, unless the file is
    still written."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data.ljust(at + 8, b"\0"), at)
        if growing and (length == 0 or at + length > len(data)):
            return
        assert struct.unpack_from("<I", data, at + length - 4) == (length,), "a file ends with a whole block"
        yield kind, data[at + 8:at + length - 4]
        at += length


def frames(data: bytes) -> list[bytes]:
    """The captured part of each frame."""
    return [body[20:20 + struct.unpack_from("<I", body, 12)[0]] for kind, body in blocks(data) if kind == FRAME]


def statistics_time(data: bytes) -> int:
    """The end of the last statistics block's interval, in ns; 0: there is no such block."""
    times = [struct.unpack_from("<II", body, 4) for kind, body in blocks(data, growing=True) if kind == STATISTICS]
    return times[-1][0] << 32 | times[-1][1] if times else 0


class Capture:
    """A running pvrdmactl capture, as a child process."""

    def __init__(self, daemon: Daemon, name: str, file: Path, *options: str) -> None:
        self.file = file
        self.process = subprocess.Popen([PVRDMACTL, "--api", str(daemon.api), "capture", name, "-w", str(file), *options],
                                        stderr=subprocess.PIPE, text=True)
        until("the capture begins", lambda: file.exists() and file.stat().st_size > 0 or self.process.poll() is not None)

    def data(self) -> bytes:
        return self.file.read_bytes()

    def await_all_until_now(self) -> None:
        now = time.time_ns()
        until("the daemon has sent everything", lambda: statistics_time(self.data()) > now)

    def end(self) -> str:
        """Interrupts it and returns its output."""
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> str:
        """Waits until it ends by itself and returns its output."""
        said = self.process.communicate(timeout=GUARD_S)[1]
        assert self.process.returncode == 0, said
        return said


@contextmanager
def capturing(daemon: Daemon, name: str, *options: str) -> Iterator[Capture]:
    """A capture that is killed at the end if it still runs."""
    capture = Capture(daemon, name, daemon.folder / f"{name}-{time.monotonic_ns()}.pcapng", *options)
    try:
        yield capture
    finally:
        capture.process.kill()
        capture.process.communicate()


def tshark(file: Path, *arguments: str) -> list[str]:
    """The lines of tshark's output for the file."""
    done = run("tshark", "-n", "-r", str(file), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def opcodes(data: bytes) -> set[int]:
    """The opcodes of the frames, which are Ethernet, IPv4, UDP, and then the opcode."""
    return {frame[42] for frame in frames(data)}


# tshark guesses the protocol of a send's payload from its first bytes, and is sometimes wrong.
MALFORMED = "(_ws.malformed or _ws.expert.severity >= 6291456) and not infiniband.bth.opcode == 4"
ALL_OPCODES = {6, 7, 8, 12, 13, 14, 15, 4, 17, 18, 20}  # write, read and its data, send, ACK, atomic and its answer


@pytest.mark.parametrize("name", ["VM-01", "VM-02"])
def test_others_understand_what_either_end_captures(daemon: Daemon, name: str) -> None:
    with capturing(daemon, name) as capture:
        traffic(daemon, "--rounds", "10", "--connections", "2", "--block", "10000")
        capture.await_all_until_now()
        said = capture.end()
    found = frames(capture.data())
    assert said == f"{len(found)} frames captured, 0 dropped\n"
    # Each round has ten packets of the write and of the read's data, the read's request, two sends, an atomic, and
    # four answers.
    assert tshark(capture.file, "-Y", MALFORMED) == []
    seen = tshark(capture.file, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.interface_name")
    assert set(seen) == {f"{opcode}\t{name} local" for opcode in ALL_OPCODES}
    rounds = seen.count(f"4\t{name} local") // 2
    assert rounds >= 10 and len(seen) == len(found) == rounds * (10 + 10 + 1 + 2 + 1 + 4)


def test_scapy_computes_the_same_icrc(daemon: Daemon) -> None:
    roce = pytest.importorskip("scapy.contrib.roce", reason="needs python3-scapy")
    from scapy.layers.l2 import Ether  # pylint: disable=import-outside-toplevel
    with capturing(daemon, "VM-01") as capture:
        traffic(daemon, "--rounds", "5", "--connections", "1", "--block", "5000")
        capture.await_all_until_now()
        capture.end()
    found = frames(capture.data())
    assert len(found) > 50
    for frame in found:
        packet = Ether(frame)
        assert packet.haslayer(roce.BTH)
        del packet[roce.BTH].icrc
        assert bytes(packet) == frame


def test_captures_at_once_have_each_their_filter(daemon: Daemon) -> None:
    with ExitStack() as stack:
        filters = ["op write and out", "answer and not op read", "op atomic or op send", "peer fd00::1"]
        captures = [stack.enter_context(capturing(daemon, "VM-01", "--filter", text)) for text in filters]
        refused = daemon.ctl("capture", "VM-02", "-w", str(daemon.folder / "refused"))
        assert (refused.returncode, refused.stderr) == (1, "pvrdmactl: there are 4 captures already: end one of them\n")
        traffic(daemon, "--rounds", "3", "--connections", "1", "--block", "3000")
        for capture in captures:
            capture.await_all_until_now()
            capture.end()
        assert [opcodes(capture.data()) for capture in captures] == [{6, 7, 8}, {17, 18}, {4, 17, 18, 20}, set()]
    assert not (daemon.folder / "refused").exists()


def test_it_ends_by_itself(daemon: Daemon) -> None:
    with capturing(daemon, "VM-01", "-c", "7") as capture:
        traffic(daemon, "--rounds", "2", "--connections", "1")
        assert capture.wait().startswith("7 frames captured")
    assert len(frames(capture.data())) == 7
    with capturing(daemon, "VM-01", "--duration", "1") as capture:
        assert capture.wait() == "0 frames captured, 0 dropped\n"


def test_it_keeps_as_much_of_a_frame_as_is_wanted(daemon: Daemon) -> None:
    with capturing(daemon, "VM-01", "-s", "80") as capture:
        traffic(daemon, "--rounds", "2", "--connections", "1", "--block", "3000")
        capture.await_all_until_now()
        capture.end()
    assert max(len(frame) for frame in frames(capture.data())) == 80
    lengths = {int(line) for line in tshark(capture.file, "-T", "fields", "-e", "frame.len")}
    assert max(lengths) > 1024


def test_standard_output_is_a_file_too(daemon: Daemon) -> None:
    with subprocess.Popen([PVRDMACTL, "--api", str(daemon.api), "capture", "VM-01", "-w", "-", "-c", "3"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as capture:
        begun = capture.stdout.read(4)
        assert struct.unpack("<I", begun) == (SECTION,)
        traffic(daemon, "--rounds", "2", "--connections", "1")
        assert len(frames(begun + capture.stdout.read())) == 3
    assert capture.returncode == 0


def test_a_file_says_that_its_frames_are_synthesised(daemon: Daemon) -> None:
    with capturing(daemon, "VM-01", "--duration", "1") as capture:
        capture.wait()
    kinds = [kind for kind, _ in blocks(capture.data())]
    assert kinds[:4] == [SECTION, INTERFACE, INTERFACE, INTERFACE]
    assert b"synthesised by pvrdmad" in capture.data()


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["VM-09"], 'there is no adapter "VM-09": pvrdmactl adapter list shows them'),
    (["VM-01", "--filter", "qp 17 and"], "the filter, character 10: it ends here, expected a condition: qp, peer, op, path, "
                                         'in, out, request, answer, error, not or "("'),
    (["VM-01", "-s", "0"], "snaplen"),
])
def test_a_mistake_is_one_sentence_and_leaves_no_file(daemon: Daemon, arguments: list[str], sentence: str) -> None:
    done = daemon.ctl("capture", *arguments, "-w", str(daemon.folder / "none"))
    assert done.returncode == 1
    assert sentence in done.stderr and done.stderr.count("\n") == 1
    assert not (daemon.folder / "none").exists()


def begin_raw(daemon: Daemon) -> socket.socket:
    """A capture of VM-01 whose client reads the first bytes of the answer and no more."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(GUARD_S)
    client.connect(str(daemon.api))
    client.sendall(b"POST /v1/adapters/VM-01/capture HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   b"Content-Length: 2\r\n\r\n{}")
    assert client.recv(12) == b"HTTP/1.1 200"
    return client


def await_free_places(daemon: Daemon) -> None:
    """Waits until the maximum number of captures can begin at once."""
    def all_begin() -> bool:
        begun = [subprocess.Popen([PVRDMACTL, "--api", str(daemon.api), "capture", "VM-01", "-w", "/dev/null", "--duration",
                                   "1"], stderr=subprocess.DEVNULL) for _ in range(CAPTURES_MAX)]
        return [one.wait(GUARD_S) for one in begun] == [0] * CAPTURES_MAX
    until("there is a place for each capture", all_begin)


def test_who_does_not_read_loses_the_capture_and_slows_nobody(daemon: Daemon) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(begin_raw(daemon)) for _ in range(CAPTURES_MAX)]
        traffic(daemon, "--rounds", "200", "--connections", "4", "--block", "65536")
        assert daemon.ctl_json("version")["api"] == "v1"
        await_free_places(daemon)
        for client in clients:  # the rest of the data, and the end of the connection
            while client.recv(1 << 20):
                pass
    traffic(daemon, "--rounds", "2")


def test_who_vanishes_leaves_the_place_to_others(daemon: Daemon) -> None:
    for _ in range(CAPTURES_MAX):
        begin_raw(daemon).close()
    await_free_places(daemon)


def test_a_guest_that_leaves_ends_no_capture(daemon: Daemon) -> None:
    with capturing(daemon, "VM-01") as capture:
        for _ in range(2):
            traffic(daemon, "--rounds", "2", "--connections", "1")
        capture.await_all_until_now()
        said = capture.end()
    assert int(said.split()[0]) == len(frames(capture.data())) > 0


def test_a_daemon_that_stops_leaves_a_whole_file(daemon: Daemon) -> None:
    with capturing(daemon, "VM-01") as capture:
        traffic(daemon, "--rounds", "2", "--connections", "1")
        capture.await_all_until_now()
        assert daemon.stop()[0] == 0
        capture.process.communicate(timeout=GUARD_S)
    assert len(frames(capture.data())) > 0


def test_the_api_describes_it(daemon: Daemon) -> None:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with client:
        client.settimeout(GUARD_S)
        client.connect(str(daemon.api))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    described = json.loads(answer.split(b"\r\n\r\n", 1)[1])["paths"]["/v1/adapters/{adapter}/capture"]["post"]
    assert set(described["responses"]["200"]["content"]) == {"application/x-pcapng"}
