"""vMotion of a VM that talks to a native endpoint: Linux with Soft-RoCE, over the path roce of each host."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until
from harness import cases, programs
from test_motion import migrate
from test_motion_memory import move_and_compare

_IPV4 = 1  # the index of this GID
_ROUNDS = 10  # there and back
_LOAD_S = 150


def _messages(fleet: Fleet, number: int) -> int:
    shown = fleet[number].ctl("adapter", "get", "VM-01")
    return int(shown["rx_messages"]) + int(shown["tx_messages"])


@pytest.mark.full
@pytest.mark.parametrize("way", [pytest.param("plain", marks=pytest.mark.fleet(lease_s=30)),
                                 pytest.param("tls", marks=pytest.mark.fleet(tls=True, lease_s=30))])
def test_a_connection_to_a_native_endpoint_goes_along(own_fleet: Fleet, way: str) -> None:
    """With each end as the server. The hosts' messages about the VM go through TLS or not; packets never do."""
    fleet = own_fleet
    fleet.follow_the_guide()
    fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--native-endpoints", "on")
    for number in (1, 2):
        fleet.link_roce(number, "VM-01")
    fleet.socket_of("VM-01")
    fleet.boot("VM-01")
    guest, native = fleet.vms["VM-01"], fleet.boot_native()
    for port, (server, client) in enumerate(((guest, native), (native, guest)), 18515):
        with ThreadPoolExecutor(1) as pool:
            case = programs.perftest("ib_write_bw", f"-u 18 -D {_LOAD_S}", (65536,), _IPV4, port)
            load = pool.submit(cases.run, dataclasses.replace(case, guard_s=_LOAD_S + 60.0), server, client)
            for _ in range(_ROUNDS):
                for origin, destination in ((1, 2), (2, 1)):
                    until("a path", lambda number=origin: {path["path"] for path in fleet[number].ctl("path", "list")}, accept=lambda seen: seen == {"roce"})
                    migrate(fleet, "VM-01", origin, destination)
                    before = _messages(fleet, destination)
                    until("it flows again", lambda number=destination, last=before: _messages(fleet, number) > last)
            if server is guest:  # the guest writes what the native endpoint sends
                move_and_compare(fleet)
                migrate(fleet, "VM-01", 2, 1)
            assert not load.done(), "the load was too short for this machine"
            load.result()
    cases.run(programs.pingpong("rc", "-c -n 300 -s 32768 -m 1024", _IPV4), guest, native)
