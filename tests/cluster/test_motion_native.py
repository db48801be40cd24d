"""vMotion of a VM that talks to a native endpoint: Linux with Soft-RoCE, over the path roce of either host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until
from harness import cases, programs
from test_motion import migrate

_IPV4 = 1  # index of this GID
_ROUNDS = 10  # there and back
_LOAD_S = 90


@pytest.mark.full
@pytest.mark.parametrize("way", ["plain", pytest.param("tls", marks=pytest.mark.fleet(tls=True))])
def test_a_connection_to_a_native_endpoint_goes_along(own_fleet: Fleet, way: str) -> None:
    """With either end as the server. What the hosts tell each other of the VM goes through TLS or not; packets do not."""
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
            load = pool.submit(cases.run, programs.perftest("ib_write_bw", f"-u 18 -D {_LOAD_S}", (65536,), _IPV4, port), server, client)
            for _ in range(_ROUNDS):
                for origin, destination in ((1, 2), (2, 1)):
                    until("a path", lambda number=origin: {path["path"] for path in fleet[number].ctl("path", "list")}, accept=lambda seen: seen == {"roce"})
                    migrate(fleet, "VM-01", origin, destination)
            assert not load.done(), "the load was too short for this machine"
            load.result()
    cases.run(programs.pingpong("rc", "-c -n 300 -s 32768 -m 1024", _IPV4), guest, native)
