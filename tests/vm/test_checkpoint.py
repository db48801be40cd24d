"""VMs are written to files and continue from there while their connections are busy (`pvrdmactl vm checkpoint`,
`vm restore`)."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import cases
from harness.cluster import Cluster
from harness.programs import exactly_once_load, rping_load
from harness.rdma import DEVICE, wait_active
from harness.under_way import wait_until_it_flows
from harness.vm import Vm

_ROUNDS = 3
_STATE_END = -60  # in a checkpoint file, from its end

_PINGPONG = cases.Case("pingpong", server=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0",
                       client=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0 {{server}}", expect=(r"^\d+ bytes in",))


def _checkpoint(cluster: Cluster, vm: Vm, folder: Path) -> Path:
    """Writes `vm` to a file. Checks that the daemon's report is plausible and that the VM's QEMU has ended."""
    file = folder / f"{vm.name}.checkpoint"
    vm.outlive_qemu()
    report = cluster.daemon.ctl("vm", "checkpoint", vm.name, str(file))
    assert report["vm"] == vm.name and report["state_bytes"] > 0 and report["ram_bytes"] >= vm.spec.memory_mib << 20, report
    vm.wait_ended()
    return file


def _restore(cluster: Cluster, vm: Vm, file: Path) -> None:
    pid = vm.start_waiting()
    report = cluster.daemon.ctl("vm", "restore", vm.name, str(file))
    assert report["qemu"]["pid"] == pid, report


@pytest.mark.parametrize("case", [exactly_once_load(), pytest.param(rping_load(), marks=pytest.mark.full)], ids=cases.name)
def test_load_goes_on(pair: Cluster, case: cases.Case, tmp_path: Path) -> None:
    server, client = pair.vms
    with cases.under_way(case, server, client) as load:
        for number in range(_ROUNDS):
            wait_until_it_flows(pair, client, load)
            vm = pair.vms[number % 2]
            _restore(pair, vm, _checkpoint(pair, vm, tmp_path))
        wait_until_it_flows(pair, client, load)


def test_both_ends_and_the_daemon_end_and_go_on(pair: Cluster, tmp_path: Path) -> None:
    server, client = pair.vms
    with cases.under_way(exactly_once_load(), server, client) as load, ThreadPoolExecutor(2) as pool:
        wait_until_it_flows(pair, client, load)
        files = [pool.submit(_checkpoint, pair, vm, tmp_path) for vm in pair.vms]
        written = [file.result() for file in files]
        assert pair.daemon.stop() == 0
        pair.daemon.start()
        for vm, file in zip(pair.vms, written):
            _restore(pair, vm, file)
        wait_until_it_flows(pair, client, load)


@pytest.mark.full
def test_everything_else_goes_on(pair: Cluster, tmp_path: Path) -> None:
    first, second = pair.vms
    file = _checkpoint(pair, first, tmp_path)
    _restore(pair, first, file)
    cases.run(_PINGPONG, first, second)
    first.check("rmmod vmw_pvrdma")
    file = _checkpoint(pair, first, tmp_path)
    _restore(pair, first, file)
    first.check("modprobe vmw_pvrdma")
    wait_active(first)
    cases.run(_PINGPONG, second, first)
    first.start_successor()
    first.outlive_qemu()
    pair.daemon.ctl("vm", "upgrade-vmm", first.name)
    first.follow_successor()
    cases.run(_PINGPONG, second, first)
    first.reboot()
    wait_active(first)
    cases.run(_PINGPONG, first, second)


def _state_of(checkpoint: bytes) -> bytes:
    """The adapter's state: its length follows it, then a checksum of 32 bytes and a text of 20."""
    length = int.from_bytes(checkpoint[_STATE_END:_STATE_END + 8], "little")
    return checkpoint[_STATE_END - length:_STATE_END]


def _answer_to_restore(cluster: Cluster, vm: str, file: Path, state: bytes) -> str:
    """What the daemon says to a client that verifies no checksum."""
    connection = http.client.HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection.sock:
        connection.sock.connect(str(cluster.daemon.api))
        connection.request("POST", f"/v1/adapters/{vm}/restore", json.dumps({"file": str(file)}).encode() + b"\n" + state,
                           {"Content-Type": "application/octet-stream"})
        return connection.getresponse().read().decode()


def _refused(cluster: Cluster, *arguments: str) -> str:
    with pytest.raises(RuntimeError) as refused:
        cluster.daemon.ctl(*arguments)
    return str(refused.value)


def test_what_is_refused_changes_nothing(pair: Cluster, tmp_path: Path) -> None:
    first, second = pair.vms
    missing = tmp_path / "missing" / "VM-01"
    answer = _refused(pair, "vm", "checkpoint", "VM-01", str(missing))
    assert "QEMU does not write" in answer or "QEMU refuses migrate" in answer, answer
    assert "the VM goes on" in answer, answer
    cases.run(_PINGPONG, first, second)
    file = _checkpoint(pair, first, tmp_path)
    assert "cannot be reached" in _refused(pair, "vm", "restore", "VM-01", str(file))
    assert "does not wait for a VM" in _refused(pair, "vm", "restore", "VM-02", str(file))
    first.start_waiting()
    cut = tmp_path / "cut"
    cut.write_bytes(file.read_bytes()[:-1])
    assert "is not a checkpoint" in _refused(pair, "vm", "restore", "VM-01", str(cut))
    other = _checkpoint(pair, second, tmp_path)
    assert "name" in _refused(pair, "vm", "restore", "VM-01", str(other))
    flipped = bytearray(file.read_bytes())
    flipped[_STATE_END - 40] ^= 1
    cut.write_bytes(flipped)
    assert "is damaged" in _refused(pair, "vm", "restore", "VM-01", str(cut))
    state = _state_of(bytes(flipped))
    assert "cannot go on from this state" in _answer_to_restore(pair, "VM-01", file, state)
    pair.daemon.ctl("vm", "restore", "VM-01", str(file))
    _restore(pair, second, other)
    cases.run(_PINGPONG, first, second)
