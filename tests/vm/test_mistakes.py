"""The results of an application's mistakes with the stock provider. programs/bad_requests.c makes the mistakes."""

from __future__ import annotations

import pytest

from harness.cluster import Cluster
from harness.rdma import DEVICE

_OUTCOMES = {
    "ud": {
        "datagram: sender": "success",
        "datagram: receiver": "success",
        "wrong Q_Key: sender": "success",
        "wrong Q_Key: receiver": "none",
        "unknown queue pair: sender": "success",
        "unknown GID index": "refused by the provider",
        "longer than the MTU: sender": "local length error",
        "longer than the MTU: receiver": "none",
        "RDMA write on UD: sender": "local QP operation error",
    },
    "rc": {
        "write": "success",
        "stale local key": "local protection error",
        "stale remote key": "remote access error",
        "remote key of another PD": "remote access error",
        "local key of another PD": "local protection error",
        "no right to write": "remote access error",
        "beyond the region": "remote access error",
        "address wraps": "remote access error",
        "send without a receive": "RNR retry counter exceeded",
        "send longer than the receive: sender": "remote invalid request error",
        "send longer than the receive: receiver": "local length error",
        "kernel-only opcode": "local QP operation error",
    },
    "srq": {
        "QP with an SRQ of another PD": "made",
        "receive key of another PD than the SRQ's: receiver": "local protection error",
    },
    "overflow": {
        "CQ overflow: event": "CQ error",
        "CQ overflow: queue pair in error": "yes",
    },
}


@pytest.mark.parametrize("mode", _OUTCOMES)
def test_outcome(pair: Cluster, mode: str) -> None:
    if mode == "srq" and pair.setup.hardware_version < 14:
        pytest.skip("SRQ is there from VM hardware version 14 on")
    printed = pair.vms[0].check(f"bad_requests {DEVICE} 1 {mode}", 120).splitlines()
    assert printed == [*(f"{mistake}: {outcome}" for mistake, outcome in _OUTCOMES[mode].items()), "done"]


def test_mistakes_are_counted(pair: Cluster) -> None:
    vm = pair.vms[1]

    def counted() -> dict[str, int]:
        return next(entry["verbs"] for entry in pair.daemon.ctl("stats")["adapters"] if entry["name"] == vm.name)

    before = counted()
    for mode in ("ud", "rc", "overflow"):
        vm.check(f"bad_requests {DEVICE} 1 {mode}", 120)
    after = counted()
    for name in ("ud_dropped_qkey", "dropped_unknown_qp", "local_errors", "remote_errors", "access_errors",
                 "cq_overflows"):
        assert after[name] > before[name], f"{name} did not move: {before} -> {after}"
