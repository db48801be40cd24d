"""Independent programs check the daemon's frames: tshark, scapy, zlib's CRC. They check the frames on the Ethernet, not
those of a capture by the daemon.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import cases, judges, soft_roce
from harness import frame as frames
from harness.cluster import Cluster
from harness.hub import Hub
from harness.native_daemons import native_daemons
from harness.pcap import Pcap, read
from harness.programs import exactly_once, pingpong, rping, udaddy

_UD_SEND = 0x64
_REQ, _REP, _RTU, _DREQ, _DREP, _SIDR_REQ, _SIDR_REP = 0x10, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18
_RC = {*range(frames.SEND_FIRST, frames.ACKNOWLEDGE + 1), frames.ATOMIC_ACKNOWLEDGE, frames.COMPARE_AND_SWAP, frames.FETCH_AND_ADD}
# For connections, the GID index and rdma_cm's address; then the same for datagrams, as rdma-core finds no MAC for
# other IPv6 addresses.
_ADDRESSES = {4: ((1, "{server}"), (1, "{server}")), 6: ((2, "{server6}"), (0, "{local6}%eth0"))}

_DAEMONS_SAY = {frames.WRITE_FIRST, frames.WRITE_MIDDLE, frames.WRITE_LAST, frames.READ_REQUEST, frames.READ_FIRST, frames.READ_MIDDLE,
                frames.READ_LAST, frames.SEND_ONLY, frames.FETCH_AND_ADD, frames.ACKNOWLEDGE, frames.ATOMIC_ACKNOWLEDGE}
_ETHERTYPES = {"v1": 0x8915, "v2": 0x0800}


@contextmanager
def _recorded(hub: Hub, path: Path) -> Iterator[Path]:
    """Records the hub's frames during the block; afterwards they are in the file."""
    capture = Pcap(path)
    hub.set_capture(capture)
    try:
        yield path
    finally:
        hub.set_capture(None)
        capture.close()
    assert capture.left_out == 0


def _from(path: Path, mac: str) -> set[int | None]:
    """The opcodes sent from that address."""
    return {frames.opcode(frame) for frame in read(path) if frames.source(frame) == frames.mac_bytes(mac)} - {None}


@pytest.mark.parametrize("version", _ADDRESSES, ids=lambda version: f"ipv{version}")
def test_frames_of_a_guest_and_a_native_endpoint(natives: Cluster, version: int) -> None:
    guest, native = natives.vms
    (index, address), (ud_index, ud_address) = _ADDRESSES[version]
    made = (exactly_once(f"-n 100 -t 18 {soft_roce.NO_EMPTY}", gid_index=index), pingpong("ud", "-n 20 -s 999", ud_index),
            rping(3, address), udaddy("-c 1 -C 2", ud_address))
    with _recorded(natives.hub, natives.logs / f"frames-ipv{version}.pcap") as path:
        for server, client in ((native, guest), (guest, native)):
            for case in made:
                cases.run(case, server, client)
    opcodes = judges.expect_good_frames(path)
    assert opcodes.keys() >= _RC | {_UD_SEND}
    for mac in (guest.spec.mac, native.spec.mac):  # each was both client and server
        assert _from(path, mac) >= _RC | {_UD_SEND}
    assert judges.cm_messages(path) >= {_REQ, _REP, _RTU, _DREQ, _DREP, _SIDR_REQ, _SIDR_REP}
    path.unlink()


@pytest.mark.parametrize("version", _ETHERTYPES)
def test_frames_between_two_daemons(logs: Path, version: str) -> None:
    """Neither daemon knows that the other is one. Soft-RoCE does not speak v1."""
    folder = logs / f"frames-{version}"
    with native_daemons(folder, version) as pair, _recorded(pair.hub, folder / "frames.pcap") as path:
        pair.check("--rounds", "5", "--connections", "2", "--block", "8000")
    assert judges.expect_good_frames(path).keys() == _DAEMONS_SAY
    assert {int.from_bytes(frame[12:14], "big") for frame in read(path)} == {_ETHERTYPES[version]}
    path.unlink()
