"""Stock programs without a VM (`pvrdma-run`) on two hosts, with each other and with a guest of the other host.

Each node's programs run in the network namespace of their host, as an ordinary user. Its IPv4 address is on an interface
there, so one address does for TCP and for rdma_cm.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from conftest import make_fleet
from fleet.fleet import PORTGROUP, Fleet
from fleet.until import until
from harness import node_cases
from harness.cases import Case, name
from harness.daemon import Adapter
from harness.process_node import ProcessNode
from harness.programs import RDMA_CLIENT, RPING_PEER_ENDED, perftest, pingpong, rping, rstream, ucmatose, udaddy
from harness.vm import Vm

_GUARD_S = 60
_IPV4 = 1  # the GID's index


@dataclass(frozen=True)
class Nodes:
    """A node on esx-01, and a node and VM-02 on esx-02."""

    fleet: Fleet
    a: ProcessNode
    b: ProcessNode
    vm: Vm


def _node(fleet: Fleet, number: int) -> ProcessNode:
    """NODE-0n on esx-0n with 192.168.11.8n."""
    node, host, last = f"NODE-0{number}", fleet[number], 80 + number
    shown = fleet[1].ctl("vm", "create", node, "--host", host.name, "--hw", "14", "--memory", "512", "--reserve", "all",
                         "--portgroup", PORTGROUP, "--doorbells", "mapped")
    inside = fleet.network.inside(host.name)
    subprocess.run([*inside, "ip", "address", "add", f"192.168.11.{last}/24", "dev", "eth1"], check=True)
    adapter = Adapter(node, fleet.socket_of(node), shown["adapter"]["mac"], 14)
    return ProcessNode(host.api, adapter, f"192.168.11.{last}", f"fd00:11::{last}", fleet.make_folder(node), inside, "eth1")


@contextmanager
def _nodes(fleet: Fleet) -> Iterator[Nodes]:
    fleet.follow_the_guide()
    fleet.folder.chmod(0o755)  # the programs' user passes through
    (vm,) = fleet.boot("VM-02")
    nodes = [_node(fleet, number) for number in (1, 2)]
    try:
        for node in nodes:  # their addresses are not on the VMs' Ethernet
            for address in (node.address, node.address6, node.link_local):
                vm.check(f"ip neighbour replace {address} lladdr {node.mac} dev eth0 nud permanent")
        yield Nodes(fleet, *nodes, vm)
    finally:
        for node in nodes:
            node.close()


@pytest.fixture(scope="module", params=[1, 2], ids=["one-shard", "two-shards"])
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """With two shards, the VM of a host is on the first and its node on the second. A test must leave daemons, VM and
    stand-ins running or startable."""
    with make_fleet(f"process-hosts-{request.param}", tmp_path_factory.mktemp("hosts"), shards=request.param) as fleet, _nodes(fleet) as made:
        yield made


_CASES = [
    pingpong("rc", "-c -n 200", _IPV4),
    pingpong("srq", "-c -n 200 -e", _IPV4),
    pingpong("ud", "-n 200", _IPV4),
    pingpong("rc", "-c -n 200 -e", 2),  # IPv6
    perftest("ib_write_bw", "-n 500", (65536,), _IPV4),
    perftest("ib_read_lat", "-n 200", (2,), _IPV4),
    perftest("ib_send_lat", "-e -n 200", (2,), _IPV4),
    perftest("ib_atomic_bw", "-n 200", (8,), _IPV4),
    perftest("ib_send_lat", "-c UD -n 200", (2,), _IPV4),
    perftest("ib_send_bw", "-c UD -n 5000", (1024,), _IPV4),  # its server waits for each datagram
    perftest("ib_write_bw", "-R -n 500", (65536,)),
    rping(100),
    rping(50, "{server6}"),
    rping(50, "{local6}%{nic}"),
    ucmatose("-c 5 -C 10 -S 4000"),
    udaddy("-c 1 -C 50 -S 500"),
    rstream(4096, "-C 50 -T v"),
]


def _ucx(transport: str, test: str) -> Case:
    command = f"env UCX_TLS={transport} UCX_NET_DEVICES={{device}}:1 UCX_IB_GID_INDEX={_IPV4} ucx_perftest -p 18540"
    return Case(f"ucx_perftest {transport} {test}", server=command, client=f"{command} -t {test} -n 1000 {{server}}",
                expect=(r"^Final: +1000 ",), port=18540)


def _libfabric(provider: str, endpoint: str) -> Case:
    command = f"fi_pingpong -p '{provider}' -e {endpoint} -I 50 -c"
    row = r"^1m +50 +=50 "
    return Case(f"fi_pingpong {endpoint}", server=command, client=f"{command} {{server}}", expect=(row,), expect_server=(row,), port=47592)


_LONG = [
    *(perftest(f"ib_{verb}_bw", "-q 8 -b -n 200", (65536,), _IPV4) for verb in ("write", "read", "send")),
    *(perftest(f"ib_{verb}_bw", "-e -n 200", (65536,), _IPV4) for verb in ("read", "send")),  # perftest has no -e for writes
    *(perftest(f"ib_{verb}_bw", "-a -n 30", (2, 4096, 65536, 1 << 20, 8 << 20), _IPV4) for verb in ("write", "read", "send")),
    *(perftest(f"ib_{verb}_lat", f"{arguments} -n 200", (2,), _IPV4) for verb in ("write", "read", "send") for arguments in ("", "-R")),
    perftest("ib_send_bw", "--use-srq -q 4 -n 200", (65536,), _IPV4),
    *(perftest(f"ib_{verb}_bw", "-R -n 500 -q 8", (65536,)) for verb in ("write", "read", "send")),
    rping(500, arguments="-V -S 60000"),
    ucmatose("-c 200 -C 50"),
    rstream(1 << 20, "-C 50 -T v"),
    RDMA_CLIENT,
    *(_ucx(*each) for each in (("ud_verbs", "tag_lat"), ("rc", "tag_lat"), ("rc", "tag_bw"))),
    _libfabric("verbs", "msg"),
    _libfabric("verbs;ofi_rxm", "rdm"),
]


def test_each_adapter_has_a_shard_of_its_own(nodes: Nodes) -> None:
    shards = [each["adapters"] for each in nodes.fleet[2].ctl("system", "shard", "list")["shards"]]
    assert shards == ([["VM-02", "NODE-02"], []] if nodes.fleet.shards == 1 else [["VM-02"], ["NODE-02"], []]), "the ward is the last"


@pytest.mark.parametrize("case", [*_CASES, *(pytest.param(case, marks=pytest.mark.full) for case in _LONG)], ids=name)
def test_between_hosts(nodes: Nodes, case: Case) -> None:
    node_cases.run(case, nodes.a, nodes.b)


def test_the_other_way_round(nodes: Nodes) -> None:
    node_cases.run(perftest("ib_write_bw", "-n 500", (65536,), _IPV4), nodes.b, nodes.a)


_WITH_VM = [
    rping(50),
    perftest("ib_write_bw", "-R -n 500", (65536,)),
    *(pytest.param(case, marks=pytest.mark.full) for case in (
        rping(50, "{server6}"), ucmatose("-c 10 -C 10 -S 4000"), udaddy("-c 1 -C 50 -S 500"), rstream(4096, "-C 50 -T v"), RDMA_CLIENT,
        perftest("ib_send_lat", "-R -e -n 200", (2,)), perftest("ib_read_bw", "-R -n 500 -q 8", (65536,)))),
]


@pytest.mark.parametrize("case", _WITH_VM, ids=name)
@pytest.mark.parametrize("serves", ["vm", "node"])
def test_with_a_vm_of_the_other_host(nodes: Nodes, case: Case, serves: str) -> None:
    node_cases.run(case, *((nodes.vm, nodes.a) if serves == "vm" else (nodes.a, nodes.vm)))


def test_the_path_is_tcp(nodes: Nodes) -> None:
    serving, calling = node_cases.start_rping(nodes.a, nodes.b)
    try:
        until("the paths", nodes.fleet.paths, accept=lambda paths: paths == {"NODE-01": {"tcp"}, "NODE-02": {"tcp"}})
    finally:
        calling.kill()
        serving.wait()


@pytest.mark.parametrize(("program", "answer"), [
    ("rping -c -C 1 -p 7999 -a {address}", "REJECTED, error 8$"),
    ("ucmatose -p 7999 -s {address}", "REJECTED, error: 8$"),
    ("udaddy -c 1 -s {address}", "UNREACHABLE, error: 1$")])
def test_nobody_listens(nodes: Nodes, program: str, answer: str) -> None:
    refused = nodes.b.run(program.format(address=nodes.a.address))
    assert re.search(answer, refused.output, re.MULTILINE), refused.output


@pytest.mark.parametrize("dying", ["server", "client"])
def test_program_that_is_killed(nodes: Nodes, dying: str) -> None:
    """Its stand-in tells the other host's."""
    serving, calling = node_cases.start_rping(nodes.a, nodes.b)
    killed, hearing = (serving, calling) if dying == "server" else (calling, serving)
    killed.kill()
    heard = hearing.wait(_GUARD_S)
    assert RPING_PEER_ENDED.search(heard.output), heard.output[-2000:]


def _standin(node: ProcessNode) -> int:
    """The id of its process."""
    listed = re.search(r"^\S+ +process (\d+)", node.pvrdma_run("--list").output, re.MULTILINE)
    assert listed
    return int(listed[1])


@pytest.mark.parametrize("dying", ["standin", "daemon"])
def test_host_whose_processes_are_killed(nodes: Nodes, dying: str) -> None:
    """A program of the other host hears of it when its retries are used up; as with hardware, one that only waits for messages
    would never hear of it. A program of this host gets an error at once. The next programs work."""
    endless = f"ib_write_bw -x {_IPV4} -F -p 18600 -D 600"
    writing_server = nodes.a.start_job(endless)
    until("ib_write_bw listens", lambda: writing_server.listens(18600))
    writing = nodes.b.start_job(f"{endless} {nodes.a.address}")
    serving, calling = node_cases.start_rping(nodes.a, nodes.b)
    until("the paths", lambda: len(nodes.fleet[2].ctl("path", "list")), accept=lambda count: count == 2)
    if dying == "daemon":
        nodes.fleet[1].kill()
    else:
        os.kill(_standin(nodes.a), signal.SIGKILL)
    try:
        written = writing.wait(_GUARD_S)
        assert written.exit_code != 0 and re.search("status 12|transport retry counter exceeded", written.output), written.output
        served = serving.wait(_GUARD_S)
        assert served.exit_code != 0, served.output[-2000:]
    finally:
        for job in (calling, writing_server):  # the server looks at its own completions only
            job.kill()
        if dying == "daemon":
            nodes.fleet[1].start()
    node_cases.run(rping(10), nodes.a, nodes.b)
