"""Guests and VMMs that change all the time, and hosts that write false records: the effect on the store and on
other hosts. The hosts are real, the guests are gid_binder's."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import make_fleet
from fleet.binder import Binder
from fleet.fleet import Fleet
from fleet.until import until
from harness.daemon import REPOSITORY

_QUOTA = 16 * 1024 * 1024
_VMS = {"VM-01": 1, "VM-03": 1, "VM-02": 2, "VM-04": 2, "VM-05": 3, "VM-06": 3}


@pytest.fixture
def churn_fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Three hosts with two VMs each, and an etcd with a small quota that keeps every revision."""
    with make_fleet("churn", tmp_path, host_count=3, etcd_options=[f"--quota-backend-bytes={_QUOTA}"]) as fleet:
        fleet.follow_the_guide()
        fleet[1].ctl_text("dvs", "add-host", "DSwitch", "esx-03")
        for name, number in _VMS.items():
            if name not in ("VM-01", "VM-02"):
                fleet.define_vm(name, number)
        yield fleet


def _binder(fleet: Fleet, vm: str, *options: str) -> Binder:
    return Binder(fleet.socket_of(vm), fleet.logs / f"binder-{vm}.log", *options)


def _gid_holders(fleet: Fleet, address: str) -> list[str]:
    """The store's record of the holder of ::ffff:ADDRESS."""
    digits = "00000000000000000000ffff" + "".join(f"{int(part):02x}" for part in address.split("."))
    return [value for key, value in fleet.etcd.records("/pvrdma/v1/live/gid/") if key.endswith(digits)]


def test_gids_and_power_that_flap_cost_the_store_little(churn_fleet: Fleet) -> None:
    """Row 10: bounded writes, no alarm, and the store ends with the last state."""
    fleet = churn_fleet
    with ExitStack() as guests:
        for index, vm in enumerate(_VMS):
            option = "--power" if vm in ("VM-03", "VM-04") else "--flap"
            guests.enter_context(_binder(fleet, vm, "--address", f"10.9.{index}.1", option))
        time.sleep(2)
        before, begin = fleet.etcd.revision(), time.monotonic()
        time.sleep(15)
        written, elapsed = fleet.etcd.revision() - before, time.monotonic() - begin
    # For each VM a burst, which may not be used up yet, and four changes a second; for power, one a second and key.
    bound = len(_VMS) * (160 + 4 * elapsed) * 1.1
    print(f"{written} revisions in {elapsed:.1f} s, {bound:.0f} allowed")
    assert written <= bound
    assert "NOSPACE" not in fleet.etcd.ctl("alarm", "list")
    until("nothing is held any more", lambda: not fleet.etcd.records("/pvrdma/v1/live/gid/"), guard_s=60)
    until("nothing is on any more", lambda: not fleet.etcd.records("/pvrdma/v1/live/power/"), guard_s=60)
    for host in fleet.hosts.values():
        store = host.ctl("cluster", "get")["store"]
        assert store["connected"] and store["alarms"] == ""
        until("the caretaker is known", lambda host=host: host.ctl("cluster", "get")["store"]["caretaker"] == "esx-01")
    assert fleet[1].ctl("cluster", "get")["store"]["size_bytes"] < _QUOTA


def test_of_two_hosts_that_bind_a_gid_at_once_one_loses_it(churn_fleet: Fleet) -> None:
    """Row 6: while the store cannot be reached, both may bind the GID. Then one of them holds it, all hosts agree
    which one, and the other gets it when it is free."""
    fleet = churn_fleet
    address = "10.9.9.9"
    gid = f"::ffff:{address}"
    with ExitStack() as guests:
        fleet.etcd.pause()
        try:
            one = guests.enter_context(_binder(fleet, "VM-01", "--address", address))
            two = guests.enter_context(_binder(fleet, "VM-02", "--address", address))
            assert one.said() == two.said() == "bound", "neither host can know of the other"
        finally:
            fleet.etcd.resume()

        def lost_to(number: int, vm: str) -> list[str]:
            return [each["lost_to"] for each in fleet[number].ctl("adapter", "get", vm)["gids"] if each["gid"] == gid]

        until("one has lost it", lambda: sorted(lost_to(1, "VM-01") + lost_to(2, "VM-02")) in (["", "esx-01"], ["", "esx-02"]),
              guard_s=60)
        assert len(_gid_holders(fleet, address)) == 1
        loser, winner = (1, 2) if lost_to(1, "VM-01") == ["esx-02"] else (2, 1)
        assert fleet[loser].ctl("stats")["host"]["switch"]["gids_lost"] == 1
        assert "has lost GID" in fleet[loser].logged()
        assert fleet[winner].ctl("stats")["host"]["switch"]["gids_lost"] == 0
        (one if winner == 1 else two).stop()
        until("the other has it", lambda: lost_to(loser, f"VM-{loser:02}") == [""], guard_s=60)
        until("the store says so", lambda: f"esx-{loser:02}" in "".join(_gid_holders(fleet, address)), guard_s=60)


def test_a_vm_has_the_addresses_that_the_configuration_gives_it(churn_fleet: Fleet) -> None:
    """Row 6: a VM cannot take another VM's GID, neither on its host nor on another."""
    fleet = churn_fleet
    fleet[1].ctl("vm", "set", "VM-01", "--addresses", "10.9.0.1,fd00::1")
    shown = fleet[1].ctl("vm", "get", "VM-01")["adapter"]["addresses"]
    assert shown == ["10.9.0.1", "fd00::1"]
    until("all hosts know", lambda: all(host.ctl("vm", "get", "VM-01")["adapter"]["addresses"] == shown
                                        for host in fleet.hosts.values()))
    time.sleep(0.5)  # from the inventory to the shard
    for vm, address, expected in (("VM-03", "10.9.0.1", "refused"), ("VM-02", "10.9.0.1", "refused"),
                                  ("VM-01", "10.9.0.2", "refused"), ("VM-01", "10.9.0.1", "bound"),
                                  ("VM-02", "10.9.0.2", "bound")):
        with _binder(fleet, vm, "--address", address) as guest:
            assert guest.said() == expected, (vm, address)
        until("it is off", lambda vm=vm: fleet[1].ctl("vm", "get", vm)["power"] == "off")
    assert "among the addresses" in fleet[2].logged()


def test_a_hosts_credentials_write_its_own_records_only(tmp_path: Path) -> None:
    """Row 17: examples/etcd_users.sh with a real etcd. The daemons work, and a host cannot pose as another."""
    folder = tmp_path / "passwords"

    def make_users(fleet: Fleet) -> dict[str, str]:
        environment = {**os.environ, "ETCDCTL": " ".join(fleet.etcd.etcdctl()), "EDITORS": "esx-01 esx-02"}
        subprocess.run([REPOSITORY / "examples" / "etcd_users.sh", folder, "esx-01", "esx-02"], env=environment, check=True)
        subprocess.run([REPOSITORY / "examples" / "etcd_users.sh", folder, "esx-03"], env=environment, check=True)
        for host in fleet.hosts.values():
            host.give(folder / f"{host.name}.password")
        return {host: f'user = "{host}"\npassword_file = "{folder / host}.password"' for host in fleet.hosts}

    with make_fleet("etcd-users", tmp_path, host_count=3, store_of=make_users) as fleet:
        fleet.follow_the_guide()
        until("esx-03 is known", lambda: fleet[1].ctl("host", "get", "esx-03")["alive"])
        with _binder(fleet, "VM-02", "--address", "10.9.0.2") as guest:
            assert guest.said() == "bound"
            until("esx-01 knows that it is on", lambda: fleet[1].ctl("vm", "get", "VM-02")["power"] == "on")
        password = (folder / "esx-03.password").read_text(encoding="ascii").strip()

        def try_put(key: str) -> str:
            return fleet.etcd.try_ctl("--user", f"esx-03:{password}", "put", f"/pvrdma/v1/{key}", "x")

        for key in ("live/host/esx-01", "live/host/esx-04", "config/dvs/DSwitch", "config/vm/VM-01", "config/host/esx-01", "elsewhere"):
            assert "permission denied" in try_put(key), key
        assert "permission denied" in fleet.etcd.try_ctl("--user", f"esx-03:{password}", "put", "/others", "x")
        assert "permission denied" in fleet[3].refusal("dvs", "create", "Mine")
        fleet[3].ctl_text("network", "firewall", "ruleset", "set", "-r", "pvrdma", "-e", "true")  # its own record
        assert fleet[1].ctl("cluster", "get")["store"]["caretaker"] in ("", "esx-01")
