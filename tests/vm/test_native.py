"""A guest and an independent endpoint, Linux's Soft-RoCE in its own VM, each as server and as client.

The full run also tests two such endpoints: an error that occurs there, too, is not the daemon's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from harness import cases, rdma, soft_roce
from harness import frame as frames
from harness.cases import Case
from harness.cluster import Cluster, Setup
from harness.faults import Action, Fault, Faults, cable_out, nth, share
from harness.pairing import Pairing
from harness.pcap import Pcap
from harness.programs import RDMA_CLIENT, exactly_once, perftest, pingpong, rping, rstream, ucmatose, udaddy
from harness.under_way import exactly_once_under_way
from harness.vm import Job, Vm

_LINK_LOCAL, _IPV4, _IPV6 = 0, 1, 2  # GID indices in each VM
_GUARD_S = 60
_NATIVE_SERVES, _NATIVE_CALLS = "native_serves", "native_calls"
_SECOND = "-u 18"  # Soft-RoCE's time until it retransmits, long enough for a slow machine
_READS = f"{_SECOND} -o 16"  # reads at once; perftest's default is the other device's maximum, 128
_VERBS = (("write", _SECOND), ("read", _READS), ("send", _SECOND))


_PAIRINGS = [
    Pairing(),
    *(pytest.param(pairing, marks=pytest.mark.full) for pairing in (
        Pairing(mtu=9000), Pairing(Setup(hardware_version=14)), Pairing(Setup(suite="bookworm")),
        Pairing(guest_count=0), Pairing(Setup(suite="bookworm"), guest_count=0))),
]


@dataclass(frozen=True)
class Ends:
    """The two VMs of a test in their roles."""

    cluster: Cluster
    server: Vm
    client: Vm

    @property
    def native(self) -> Vm:
        """The native endpoint, or one of the two."""
        return self.cluster.vms[-1]

    @property
    def native_calls(self) -> bool:
        """Whether a native endpoint sends the requests."""
        return self.client in self.cluster.natives


@pytest.fixture(scope="module", params=_PAIRINGS, ids=lambda pairing: pairing.id)
def pairing(request: pytest.FixtureRequest) -> Pairing:
    """The kind of the VMs behind `ends`."""
    return request.param


_ROLES = [_NATIVE_SERVES, _NATIVE_CALLS]


@pytest.fixture(params=_ROLES)
def ends(natives: Cluster, request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Both VMs. A test must leave them and the Ethernet as it found them. After a failure, a pcap file beside the
    logs has the Ethernet's frames."""
    cluster, (first, native) = natives, natives.vms
    lost = cluster.hub.lost_frames
    failed = request.session.testsfailed
    capture = Pcap(cluster.logs / f"{re.sub(r'[^a-z0-9_.]+', '-', request.node.name)}.pcap")
    cluster.hub.set_capture(capture)
    yield Ends(cluster, *((native, first) if request.param == _NATIVE_SERVES else (first, native)))
    cluster.hub.set_faults(None)
    cluster.hub.set_capture(None)
    capture.close()
    if request.session.testsfailed == failed:
        capture.path.unlink()
    assert cluster.hub.lost_frames == lost, "the hub had no room"


def test_the_gids_are_what_the_tests_assume(natives: Cluster) -> None:
    for vm in natives.vms:
        gids = vm.check(f"cd /sys/class/infiniband/{vm.rdma_device}/ports/1/gids && cat {_IPV4} {_IPV6}").split()
        assert gids[0].startswith("0000:0000:0000:0000:0000:ffff:") and gids[1].startswith("fd00:"), (vm.name, gids)


def _expect_no_gaps(case: Case, ends: Ends) -> None:
    """Runs the case; no packet to the native endpoint was missing.

    A receiver without receives refuses a packet, and the packets after it are then out of order. Sometimes packets of the
    native endpoint are lost in its VM before they reach the Ethernet, and its peer may report that.
    """
    before = soft_roce.counters(ends.native)
    cases.run(case, ends.server, ends.client)
    counted = soft_roce.counted(before, soft_roce.counters(ends.native))
    assert {"sent_pkts", "rcvd_pkts"} & counted.keys(), "the packets went another way"
    assert "send_err" not in counted, counted
    if "send_rnr_err" not in counted:
        assert "out_of_seq_request" not in counted, counted


# Each end in each role.
_TRAFFIC = [
    pingpong("rc", "-c -n 20 -s 65536 -m 1024", _IPV4),
    pingpong("rc", "-c -n 100 -e", _IPV6),
    pingpong("ud", "-n 100 -s 1000", _IPV4),
    *(perftest(f"ib_{verb}_bw", f"{options} -n 20", (65536,), _IPV4) for verb, options in _VERBS),
    *(perftest("ib_atomic_bw", f"{_READS} -A {operation} -n 100", (8,), _IPV4) for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD")),
    perftest("ib_send_lat", "-c UD -n 100 -s 1024", (1024,), _LINK_LOCAL),
]
# `make test` runs these with the native endpoint as server only.
_TRAFFIC_TO_IT = [
    pingpong("rc", "-c -n 100", _IPV4),
    pingpong("srq", "-c -n 100", _IPV4),
    perftest("ib_write_bw", f"{_SECOND} -q 8 -b -n 10", (65536,), _IPV6),
    *(perftest(f"ib_{verb}_lat", f"{options} -n 50", (2,), _IPV4) for verb, options in _VERBS),
    perftest("ib_send_bw", "-c UD -n 100", (1024,), _IPV4),
    pingpong("ud", "-n 100 -s 1000", _LINK_LOCAL),
]
_MORE_TRAFFIC = [
    *(pingpong("rc", f"-c -n 10 -s 1048576 -e -m {mtu}", _IPV4) for mtu in (256, 512, 1024)),
    pingpong("srq", "-c -q 16 -r 300 -n 500 -e", _IPV6),
    *(perftest(f"ib_{verb}_{kind}", f"{options} -a -n 5", (2, 4096, 65536, 1 << 20, 8 << 20), _IPV4)
      for verb, options in _VERBS for kind in ("bw", "lat")),
    *(perftest(f"ib_{verb}_bw", f"{options} {arguments} -n 20", (65536,), _IPV6)
      for verb, options in _VERBS for arguments in ("-q 8", "-b", "-q 8 -b")),
    *(perftest(f"ib_{verb}_bw", f"{options} -e -n 20", (65536,), _IPV6) for verb, options in _VERBS if verb != "write"),
    *(perftest(f"ib_atomic_{kind}", f"{_READS} -A {operation} -n 200 -q 4", (8,), _IPV6)
      for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD") for kind in ("bw",)),
    perftest("ib_send_bw", f"{_SECOND} --use-srq -q 4 -n 50", (65536,), _IPV4),
    *(perftest(f"ib_send_{kind}", "-c UD -a -n 100", (2, 256, 1024), _IPV4) for kind in ("bw", "lat")),
]


@pytest.mark.parametrize(
    ("ends", "case"),
    [*((role, case) for role in _ROLES for case in _TRAFFIC), *((_NATIVE_SERVES, case) for case in _TRAFFIC_TO_IT),
     *(pytest.param(_NATIVE_CALLS, case, marks=pytest.mark.full) for case in _TRAFFIC_TO_IT),
     *(pytest.param(role, case, marks=pytest.mark.full) for role in _ROLES for case in _MORE_TRAFFIC)],
    indirect=["ends"], ids=lambda value: value if isinstance(value, str) else cases.name(value))
def test_traffic(ends: Ends, case: Case) -> None:
    _expect_no_gaps(case, ends)


_CONNECTIONS = [
    rping(30),
    rping(20, "{server6}"),
    ucmatose("-c 5 -C 5 -S 4000"),
    udaddy("-c 4 -C 4 -S 500"),
    udaddy("-c 4 -C 4 -S 500", "{local6}%{nic}"),
    perftest("ib_write_bw", "-R -n 20", (65536,)),
]
_MORE_CONNECTIONS = [
    rping(20, "{local6}%{nic}"),
    rping(50, arguments="-V -S 60000"),
    ucmatose("-c 50 -C 20 -S 16000"),
    ucmatose("-c 4 -C 4", "{server6}"),
    udaddy("-c 20 -C 20"),
    RDMA_CLIENT,
    *(rstream(size, arguments) for size, arguments in ((64, "-C 50 -T v"), (65536, "-C 10 -T v"))),
    # With -R, Bookworm's server offers its own device's maximum, whatever was requested: more than the guest's device
    # accepts.
    perftest("ib_read_bw", f"{_READS} -R -n 20 -q 4", (65536,)),
    perftest("ib_send_bw", "-R -n 20 -q 4", (65536,)),
]


@pytest.mark.parametrize("case", [*_CONNECTIONS, *(pytest.param(case, marks=pytest.mark.full) for case in _MORE_CONNECTIONS)],
                         ids=cases.name)
def test_connection(ends: Ends, case: Case) -> None:
    _expect_no_gaps(case, ends)


def test_the_path_is_roce(natives: Cluster) -> None:
    if not natives.daemon.running:
        pytest.skip("nobody has an adapter")
    guest, native = natives.vms
    job = native.start_job("rping -s -C 1000000")
    native.check("await-listener rdma 20", 30)
    client = guest.start_job(f"rping -c -C 1000000 -a {native.address}")
    guest.check("n=0; until rdma resource show qp | grep 'type RC' | grep -q 'state RTS'; do "
                "n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; done", 60)
    paths = {path["path"] for path in natives.daemon.ctl("path", "list")}
    job.kill()
    client.wait(60)
    assert paths == {"roce"}


# As requesters, Soft-RoCE's endpoints stop, accept wrong data or repeat too much when they lose answers to reads
# (kinds b and r), or with atomics among other requests. This also happens between two of them. Writes and sends are
# safe, and so are atomics alone.
_SAFE_KINDS = ("siwo", "fc")
_ALL_KINDS = (f"siwobrfc {soft_roce.NO_EMPTY}",)
_FEW = f"-n 20 {soft_roce.NO_EMPTY}"


def _kinds(ends: Ends) -> tuple[str, ...]:
    return _SAFE_KINDS if ends.native_calls else _ALL_KINDS


def test_exactly_once(ends: Ends) -> None:
    for kinds in _ALL_KINDS if ends.client is not ends.native else ("siwobrfc",):
        _expect_no_gaps(exactly_once(f"-n 300 -t 18 -k {kinds}"), ends)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 8))])
@pytest.mark.parametrize("action", Action, ids=lambda action: action.value)
def test_exactly_once_though_one_of_100_frames_is_harmed(ends: Ends, action: Action, seed: int) -> None:
    for kinds in _kinds(ends):
        faults = Faults(Fault(action, share(0.01, seed)))
        ends.cluster.hub.set_faults(faults)
        cases.run(exactly_once(f"-n 300 -k {kinds} -s {seed}"), ends.server, ends.client)
        assert faults.hits


_PACKETS = {
    "siwo": (frames.SEND_FIRST, frames.SEND_MIDDLE, frames.SEND_LAST, frames.SEND_ONLY, frames.WRITE_FIRST, frames.WRITE_MIDDLE,
             frames.WRITE_LAST, frames.WRITE_ONLY, frames.ACKNOWLEDGE),
    "fc": (frames.FETCH_AND_ADD, frames.COMPARE_AND_SWAP, frames.ATOMIC_ACKNOWLEDGE),
    f"br {soft_roce.NO_EMPTY}": (frames.READ_REQUEST, frames.READ_FIRST, frames.READ_MIDDLE, frames.READ_LAST, frames.READ_ONLY),
}


@pytest.mark.parametrize("action", Action, ids=lambda action: action.value)
def test_each_kind_of_packet_harmed_once(ends: Ends, action: Action) -> None:
    for kinds in _SAFE_KINDS if ends.native_calls else _PACKETS:
        faults = Faults(*(Fault(action, nth(2), lambda frame, code=code: frames.opcode(frame) == code)  # type: ignore[misc]
                          for code in _PACKETS[kinds]))
        ends.cluster.hub.set_faults(faults)
        cases.run(exactly_once(f"-n 100 -k {kinds}"), ends.server, ends.client)
        assert all(fault.hits for fault in faults.faults), [fault.hits for fault in faults.faults]


def test_a_receiver_that_is_slow_is_waited_for(ends: Ends) -> None:
    before = soft_roce.counters(ends.native)
    cases.run(exactly_once("-n 100 -k siw -z 3000"), ends.server, ends.client)
    counted = soft_roce.counted(before, soft_roce.counters(ends.native))
    assert counted["rcvd_rnr_err" if ends.client is ends.native else "send_rnr_err"] > 0


def _under_way(ends: Ends, arguments: str) -> AbstractContextManager[tuple[Job, Job]]:
    """The (server's, client's) job of exactly_once, once packets flow."""
    return exactly_once_under_way(ends.server, ends.client, ends.native, arguments)


def _expect_success(jobs: tuple[Job, Job]) -> None:
    for job in jobs:
        result = job.wait(_GUARD_S)
        assert result.exit_code == 0, f"{job.command}: {result.output}"


_LONG = "-n 1500 -k siwo -t 17"


def test_the_native_endpoints_cable_is_out_for_a_second(ends: Ends) -> None:
    with _under_way(ends, _LONG) as jobs:
        faults = Faults(cable_out(ends.native.spec.mac))
        ends.cluster.hub.set_faults(faults)
        time.sleep(1)  # the outage
        ends.cluster.hub.set_faults(None)
        _expect_success(jobs)
        assert faults.hits


def test_the_daemons_link_is_gone_for_a_second(ends: Ends) -> None:
    if not ends.cluster.daemon.running:
        pytest.skip("nobody has an adapter")
    with _under_way(ends, _LONG) as jobs:
        ends.cluster.hub.unplug_link()
        time.sleep(1)  # the outage
        ends.cluster.hub.plug_link()
        _expect_success(jobs)


def test_a_server_killed_in_the_middle(ends: Ends) -> None:
    with _under_way(ends, "-n 1000000 -k siwo -t 15") as (server, client):
        server.kill()
        if not ends.native_calls:  # Soft-RoCE retries for ever
            ended = client.wait(_GUARD_S)
            assert ended.exit_code == 1 and "transport retry counter exceeded" in ended.output, ended.output
    cases.run(exactly_once(_FEW), ends.server, ends.client)


# Soft-RoCE has other errors: an operation that the QP does not permit is an invalid request, and a send that is too
# long has its own error.
_MISTAKES = {"key": "remote access error", "bounds": "remote access error", "access": "remote (access|invalid request) error",
             "length": "remote (invalid request|operation) error"}


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_is_told_and_the_next_connection_works(ends: Ends, mistake: str) -> None:
    cases.run(exactly_once(f"-w {mistake}", rf"^{mistake}: {_MISTAKES[mistake]}$"), ends.server, ends.client)
    cases.run(exactly_once(_FEW), ends.server, ends.client)
