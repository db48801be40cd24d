"""One guest and three peers at once: on its host by memory copy, on another host by TCP, and a native endpoint by
RoCE."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fleet.fleet import PORTGROUP, SWITCH, Fleet
from fleet.until import until
from harness import cases, programs
from harness.vm import Vm

_IPV4 = 1  # the index of this GID in each VM
_GUARD_S = 120.0


def _boot(fleet: Fleet) -> dict[str, Vm]:
    """The peers of VM-01, by the path that must lead to them."""
    fleet.follow_the_guide()
    fleet[1].ctl("dvs", "portgroup", "set", SWITCH, PORTGROUP, "--native-endpoints", "on")
    fleet.define_vm("VM-03", 1)
    fleet.link_roce(1, "VM-01")
    for name in ("VM-01", "VM-03", "VM-02"):
        fleet.socket_of(name)
    fleet.boot("VM-01", "VM-02", "VM-03")
    return {"local": fleet.vms["VM-03"], "tcp": fleet.vms["VM-02"], "roce": fleet.boot_native()}


def test_each_peer_is_reached_by_its_path(own_fleet: Fleet) -> None:
    fleet = own_fleet
    peers = _boot(fleet)
    guest = fleet.vms["VM-01"]
    ports = dict(zip(peers, (18701, 18702, 18703)))
    servers = [guest.start_job(f"ib_write_bw -x {_IPV4} -F -u 18 -d {guest.rdma_device} --run_infinitely -D 2 -p {port}")
               for port in ports.values()]
    clients = []
    for path, port in ports.items():
        guest.check(f"await-listener tcp {port} 20", 30)
        clients.append(peers[path].start_job(f"ib_write_bw -x {_IPV4} -F -u 18 -d {peers[path].rdma_device} --run_infinitely -D 2 "
                                             f"-p {port} {guest.address}"))
    try:
        shown = until("three paths", lambda: [each for each in fleet[1].ctl("path", "list") if each["adapter"] == "VM-01"], _GUARD_S,
                      accept=lambda found: {each["path"] for each in found} == set(peers))
        reasons = {each["path"]: each["reason"] for each in shown}
        assert reasons["local"] == "both ports are on this host"
        assert "HCA" in reasons["tcp"]
        assert reasons["roce"] == "no port of the cluster holds the GID"
    finally:
        for job in (*clients, *servers):
            job.kill()
    made = [(case, guest, peer) for port, peer in enumerate(peers.values(), 18711)
            for case in (programs.pingpong("rc", "-c -n 300 -s 32768 -m 1024", _IPV4, port),
                         programs.perftest("ib_write_bw", "-u 18 -n 300", (65536,), _IPV4, port + 10),
                         programs.perftest("ib_read_bw", "-u 18 -o 16 -n 100", (65536,), _IPV4, port + 20))]
    with ThreadPoolExecutor(len(made)) as pool:
        for outcome in [pool.submit(cases.run, *each) for each in made]:
            outcome.result()
