"""What the stock driver and ibv_devinfo see of an adapter, and what pvrdmactl shows of it."""

from __future__ import annotations

import ipaddress
import re

import pytest

from harness import cases
from harness.cases import Case
from harness.cluster import Cluster
from harness.rdma import DEVICE

# Capabilities of a real ESXi adapter, which the daemon reports by default.
_CAPABILITIES = {"fw_ver": "3.0.000", "max_qp": "32768", "max_qp_wr": "1024", "max_sge": "16", "max_cq": "4096",
                 "max_cqe": "262144", "max_mr": "262144", "state": r"PORT_ACTIVE \(4\)", "link_layer": "Ethernet"}


def test_devinfo_shows_an_esxi_adapter(pair: Cluster) -> None:
    for vm in pair.vms:
        shown = vm.check(f"ibv_devinfo -v -d {DEVICE}")
        for key, value in _CAPABILITIES.items():
            assert re.search(rf"^\s*{key}:\s+{value}$", shown, re.MULTILINE), f"no {key} {value} in:\n{shown}"


def test_gids_follow_the_nics_addresses(pair: Cluster) -> None:
    for vm in pair.vms:
        shown = vm.check(f"ibv_devinfo -v -d {DEVICE}")
        gids = re.findall(r"^\s*GID\[ *\d+\]:\s+(\S+), RoCE v[12]$", shown, re.MULTILINE)
        addresses = [ipaddress.IPv6Address(gid) for gid in gids]  # devinfo writes v1 and v2 GIDs differently
        assert addresses == [ipaddress.IPv6Address(address)
                             for address in (vm.link_local, f"::ffff:{vm.address}", vm.address6)], shown


def test_srq_from_hardware_version_14_on(pair: Cluster) -> None:
    shown = pair.vms[0].check(f"ibv_devinfo -v -d {DEVICE}")
    max_srq = re.search(r"^\s*max_srq:\s+(\d+)$", shown, re.MULTILINE)
    assert max_srq, shown
    assert (int(max_srq[1]) > 0) == (pair.setup.hardware_version >= 14)


def test_pvrdmactl_lists_the_adapters(pair: Cluster) -> None:
    listed = pair.daemon.ctl("adapter", "list")
    assert {adapter["name"] for adapter in listed} == {vm.name for vm in pair.vms}
    for vm in pair.vms:
        assert pair.daemon.ctl("adapter", "get", vm.name)["mac"] == vm.spec.mac


@pytest.mark.parametrize("arguments", [("version",), ("stats",), ("qp", "list"), ("adapter", "list")], ids=" ".join)
def test_pvrdmactl_speaks_to_people_and_machines(pair: Cluster, arguments: tuple[str, ...]) -> None:
    assert pair.daemon.ctl(*arguments) is not None
    assert pair.daemon.ctl_text(*arguments).strip()


def test_a_link_that_goes_down_stops_traffic_and_comes_back(pair: Cluster) -> None:
    state = f"ibv_devinfo -d {DEVICE} | grep state:"
    server, client = pair.vms
    pingpong = Case("pingpong", server=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0",
                    client=f"ibv_rc_pingpong -c -e -d {DEVICE} -g 0 {{server}}", expect=(r"^\d+ bytes in",))
    pair.daemon.ctl("adapter", "set", server.name, "--link", "down")
    try:
        assert "PORT_DOWN" in server.check(state)
        assert "PORT_ACTIVE" in client.check(state)
        waiting = server.start_job(pingpong.server)
        refused = client.run(f"sleep 1; ibv_rc_pingpong -e -d {DEVICE} -g 0 {server.address}", timeout_s=60.0)
        assert refused.exit_code != 0, refused.output
        if not waiting.done:
            waiting.kill()
    finally:
        pair.daemon.ctl("adapter", "set", server.name, "--link", "up")
    assert "PORT_ACTIVE" in server.check(state)
    cases.run(pingpong, server, client)
