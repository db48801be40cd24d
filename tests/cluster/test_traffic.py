"""Stock programs between VMs on two hosts, over plain TCP and over TLS, while VMs of one host use memory copy."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.fleet import Fleet
from fleet.until import until
from harness import cases, nvme, programs, rdma
from harness.cases import Case
from harness.rdma import DEVICE

_ALL_SIZES = (2, 4096, 65536, 1 << 20, 8 << 20)
# Over TLS, in every run: all sizes, both both directions, one message at a time, data that is compared, datagrams, rdma_cm.
_TLS_CASES = [
    programs.perftest("ib_write_bw", "-a -n 30", _ALL_SIZES),
    programs.perftest("ib_read_bw", f"-n 30 -s {1 << 20}", (1 << 20,)),
    programs.perftest("ib_send_bw", "-q 4 -b -n 200", (65536,)),
    programs.perftest("ib_write_lat", "-n 200", (2,)),
    programs.pingpong("rc", "-c -n 300 -s 65536 -m 4096"),
    programs.pingpong("ud", "-n 300 -s 4096"),
    programs.rping(100),
]
_CASES = [
    programs.perftest("ib_send_bw", f"-n 30 -s {1 << 20}", (1 << 20,)),
    *(programs.perftest(f"ib_{verb}_bw", "-q 4 -b -n 200", (65536,)) for verb in ("write", "read")),
    programs.perftest("ib_atomic_bw", "-A FETCH_AND_ADD -n 300", (8,)),
    programs.perftest("ib_atomic_bw", "-A CMP_AND_SWAP -n 300", (8,)),
    programs.pingpong("rc", "-c -n 300 -s 65536 -m 1024"),
    programs.pingpong("rc", "-c -n 300 -e", gid_index=1),
    programs.pingpong("srq", "-c -n 300"),
    programs.pingpong("ud", "-n 300"),
    programs.ucmatose("-c 8 -C 20 -S 4096"),
    programs.udaddy("-c 4 -C 20 -S 512"),
]
# Before the first message, perftest fills its buffer byte by byte: 8 MiB, which takes seconds without KVM.
_LONG = [programs.perftest(f"ib_{verb}_bw", "-a -n 30", _ALL_SIZES) for verb in ("read", "send")]


@pytest.mark.parametrize("case", [*(pytest.param(case, marks=pytest.mark.tls) for case in _TLS_CASES), *_CASES,
                                  *(pytest.param(case, marks=pytest.mark.full) for case in _LONG)], ids=cases.name)
def test_between_hosts(vm_fleet: Fleet, case: Case) -> None:
    cases.run(case, vm_fleet.vms["VM-01"], vm_fleet.vms["VM-02"])


def test_guests_with_jumbo_frames(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    assert [rdma.active_mtu(vm) for vm in (one, two, three)] == [4096, 4096, 4096]
    with rdma.jumbo_frames(one, two, three):
        for peer in (two, three):
            cases.run(programs.rping(50), one, peer)


def test_the_other_way_round(vm_fleet: Fleet) -> None:
    cases.run(programs.perftest("ib_write_bw", "-n 300", (65536,)), vm_fleet.vms["VM-02"], vm_fleet.vms["VM-01"])


def test_one_host_copies_memory_while_two_use_tcp(vm_fleet: Fleet) -> None:
    """VM-01 talks to both at once. `path list` names the path of each connection and the reason."""
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    endless = f"ib_write_bw -x 0 -F -d {DEVICE} --run_infinitely -D 2"
    servers = [one.start_job(f"{endless} -p {port}") for port in (18701, 18702)]
    for port in (18701, 18702):
        one.check(f"await-listener tcp {port} 20", 30)
    clients = [vm.start_job(f"{endless} -p {port} {one.address}") for vm, port in ((two, 18701), (three, 18702))]
    try:
        expected = {"VM-01": {"tcp", "local"}, "VM-02": {"tcp"}, "VM-03": {"local"}}
        until(f"the paths {expected}", vm_fleet.paths, accept=lambda paths: paths == expected)
        shown = vm_fleet[2].ctl("path", "list")
        assert {path["peer_host"] for path in shown} == {"esx-01"}
        assert all("HCA" in path["reason"] for path in shown), shown
    finally:
        for job in (*clients, *servers):
            job.kill()


@pytest.mark.tls
def test_paths_carry_at_the_same_time(vm_fleet: Fleet) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    jobs = [(programs.pingpong("rc", "-c -n 400 -s 32768", port=18711), one, two),
            (programs.pingpong("rc", "-c -n 400 -s 32768", port=18712), one, three),
            (programs.perftest("ib_write_bw", "-n 300", (65536,), port=18713), two, three)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        for outcome in [pool.submit(cases.run, *job) for job in jobs]:
            outcome.result()


def test_nvme_over_fabrics(vm_fleet: Fleet) -> None:
    target, host = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-02"]
    nvme.export_disk(target)
    nvme.load_host(host)
    nvme.connect(host, target)
    nvme.write_files(host)
    nvme.disconnect(host)
    nvme.connect(host, target)
    nvme.verify_files(host)
    nvme.disconnect(host)
    target.check(nvme.WITHDRAW)


def test_doorbells_are_what_was_configured(vm_fleet: Fleet) -> None:
    modes = {adapter["name"]: adapter["doorbells"] for host in vm_fleet.hosts.values() for adapter in host.ctl("adapter", "list")}
    assert modes == dict.fromkeys(("VM-01", "VM-02", "VM-03"), os.environ.get("PVRDMA_DOORBELLS", "mapped"))


@pytest.mark.tls
def test_encryption_is_what_was_configured(vm_fleet: Fleet, request: pytest.FixtureRequest) -> None:
    shown = until("all lanes are up", lambda: vm_fleet[1].ctl("cluster", "get")["tcp"],
                  accept=lambda tcp: [min(peer["lanes_up"], peer["sessions_up"]) >= vm_fleet.lanes for peer in tcp["peers"]] == [True])
    assert shown["listening"] and not shown["trouble"]
    assert [peer["host"] for peer in shown["peers"]] == ["esx-02"]
    encrypted = "tls" in request.node.callspec.id
    assert ("TLS 1.3" in vm_fleet[1].logged()) == encrypted
