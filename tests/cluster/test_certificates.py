"""Mutual TLS between real daemons: without a valid certificate there is no connection, and both hosts' logs say
why."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import make_fleet
from fleet.certificates import Authority
from fleet.host import Certificates
from fleet.until import until

# The certificates of esx-02, and what the logs of esx-01 and esx-02 must say.
_CASES: dict[str, tuple[Callable[[Path, Authority], Certificates | None], str, str]] = {
    "expired": (lambda folder, authority: authority.issue("esx-02", days=-1), "expired", "expired"),
    "of-another-authority": (lambda folder, authority: Authority(folder / "other").issue("esx-02"),
                             "certificate", "certificate"),
    "of-another-host": (lambda folder, authority: authority.issue("esx-99", "esx-02"), "esx-99", "esx-99"),
    "none": (lambda folder, authority: None, "does not speak TLS", "no connection to host esx-01"),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_host_without_the_right_certificate(tmp_path: Path, case: str) -> None:
    issue, near, far = _CASES[case]
    authority = Authority(tmp_path / "ca")
    certificates = {"esx-01": authority.issue("esx-01")}
    if (other := issue(tmp_path, authority)) is not None:
        certificates["esx-02"] = other
    with make_fleet(f"certificate-{case}", tmp_path, certificates=certificates) as fleet:
        fleet.follow_the_guide()
        for host, reason in ((fleet[1], near), (fleet[2], far)):
            until(f"{host.name} says why", host.logged,
                  accept=lambda log, reason=reason: any("tcp:" in line and reason in line for line in log.splitlines()))
        until("esx-01 counts it", lambda: fleet[1].ctl("stats")["host"]["tcp"]["tls_failures"])
        for number in (1, 2):
            peer = fleet[number].ctl("cluster", "get")["tcp"]["peers"][0]
            assert (peer["lanes_up"], peer["sessions_up"]) == (0, 0), peer
            assert peer["trouble"]


def test_a_reload_takes_new_certificates_and_no_lane_notices(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    certificates = {name: authority.issue(name) for name in ("esx-01", "esx-02")}
    with make_fleet("certificate-reload", tmp_path, certificates=certificates) as fleet:
        fleet.follow_the_guide()

        def peers() -> list[dict[str, object]]:
            return [peer for number in (1, 2) for peer in fleet[number].ctl("cluster", "get")["tcp"]["peers"]]

        def are_up(found: list[dict[str, object]]) -> bool:
            return len(found) == 2 and all(min(peer["lanes_up"], peer["sessions_up"]) >= fleet.lanes for peer in found)

        def reload(number: int, says: str) -> None:
            before = fleet[number].logged().count(says)
            os.kill(fleet[number].pid, signal.SIGHUP)
            until(f"the log of {fleet[number].name}", fleet[number].logged, accept=lambda log: log.count(says) == before + 1)

        first = until("all lanes", peers, accept=are_up)
        for number, name in ((1, "esx-01"), (2, "esx-02")):
            new = authority.issue(name, f"{name}-new")
            shutil.copy(new.certificate, certificates[name].certificate)
            shutil.copy(new.key, certificates[name].key)
            reload(number, "reload: [tcp] uses the certificate in ")
        certificates["esx-01"].key.write_text("half a key")
        reload(1, "reload: [tcp] keeps its certificate, because the new files cannot be used: key ")
        assert peers() == first

        fleet[2].stop()
        until("the lines of doctor", lambda: fleet[1].ctl_outcome("doctor"),
              accept=lambda outcome: outcome[0] == 1 and "TROUBLE  peer esx-02: " in outcome[1])
        fleet[2].start()
        until("all lanes with the new certificates", peers, accept=are_up)
