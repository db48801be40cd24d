"""After a motion, every page of a VM equals that on the source, including pages that its adapter wrote."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.fleet import Fleet
from fleet.loads import messages_of, under_way, wait_until_they_flow
from fleet.until import until
from harness import cases, nvme, programs
from harness.memory import differing_pages, memory_of
from harness.qmp import Qmp
from test_motion import migrate

_DEFAULT_DOWNTIME_MS = 300
_PAUSE_BEFORE_SWITCHOVER = {"capability": "pause-before-switchover", "state": True}


def _perftest(name: str, arguments: str = "--run_infinitely -D 2") -> Callable[[int], cases.Case]:
    return lambda port: programs.perftest_load(name, arguments, port)


@pytest.mark.parametrize("local, remote", [
    (_perftest("ib_atomic_bw"), _perftest("ib_send_bw")),
    pytest.param(_perftest("ib_write_bw"), programs.rping_load, marks=pytest.mark.full),
    pytest.param(_perftest("ib_send_lat", "-e -n 1000000"), _perftest("ib_read_bw"), marks=pytest.mark.full),
], ids=["atomic_bw-send_bw", "write_bw-rping", "send_lat-read_bw"])
def test_no_page_is_stale(vm_fleet: Fleet, local: Callable[[int], cases.Case], remote: Callable[[int], cases.Case]) -> None:
    one, two, three = (vm_fleet.vms[name] for name in ("VM-01", "VM-02", "VM-03"))
    with under_way({"local": (local(18515), one, three), "tcp": (remote(18516), one, two)}) as loads:
        wait_until_they_flow(loads, messages_of(vm_fleet, 1, "VM-01"))
        move_and_compare(vm_fleet)
        wait_until_they_flow(loads, messages_of(vm_fleet, 2, "VM-01"))
    migrate(vm_fleet, "VM-01", 2, 1)


@pytest.mark.full
def test_no_page_is_stale_under_a_filesystem(vm_fleet: Fleet) -> None:
    one, two = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-02"]
    nvme.export_disk(two)
    nvme.load_host(one)
    nvme.connect(one, two)
    job = nvme.start_files(one)
    move_and_compare(vm_fleet)
    migrate(vm_fleet, "VM-01", 2, 1)
    nvme.end_files(one, job)
    nvme.disconnect(one)


def move_and_compare(fleet: Fleet) -> None:
    """While the commit waits for the store, both QEMUs have the VM and neither runs it, so their memory can be
    compared.

    The peers' time limits (2.1 s with perftest's defaults) do not matter meanwhile.
    """
    one = fleet.vms["VM-01"]
    socket = fleet[2].folder / "VM-01.sock"
    until("the adapter of its last stay is gone", lambda: not socket.exists())
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(fleet[1].ctl, "vm", "migrate", "VM-01", "--to", "esx-02", "--max-pause", "5000")
        until("its adapter is served there", socket.exists)
        until("the store has answered", lambda: fleet[1].ctl("motion", "get", "VM-01")["phase"], accept=lambda phase: phase == "waits for QEMU")
        fleet.network.hide_store("esx-01", True)
        try:
            pid = one.start_arriving(socket)
            until("the commit waits", lambda: fleet[1].ctl("motion", "get", "VM-01"), accept=lambda seen: seen["phase"] == "commit")
            stale = differing_pages(memory_of(one.pid, one.spec.memory_mib), memory_of(pid, one.spec.memory_mib))
            assert "running" not in one.run_states(), "the lease has ended, and the other host has committed"
        finally:
            fleet.network.hide_store("esx-01", False)
        motion = moving.result()
    one.follow_successor()
    assert motion["page_bytes"] > 0, "the adapter wrote nothing, and nothing was tried"
    assert not stale, f"{len(stale)} of {motion['ram_bytes'] >> 12} pages: {stale[:20]}"


def test_without_the_daemon_pages_are_stale(vm_fleet: Fleet) -> None:
    """The control experiment: QEMU alone does not see the adapter's writes, and the comparison notices that.

    QEMU may not stop the VM before the adapter has written to pages that QEMU has sent: until then no pause is short
    enough.
    """
    def written() -> int:
        return vm_fleet[1].ctl("adapter", "get", "VM-01")["paths"]["local"]["messages"]

    one, three = vm_fleet.vms["VM-01"], vm_fleet.vms["VM-03"]
    server = one.start_job(f"ib_atomic_bw -x 0 -F -d {one.rdma_device} -D 60")
    one.check("await-listener tcp 18515 20", 30)
    client = three.start_job(f"ib_atomic_bw -x 0 -F -d {three.rdma_device} -D 60 {one.address}")
    until("the adapter writes", written, accept=lambda messages, before=written(): messages > before + 1000)
    channel = vm_fleet.folder / "without.sock"
    pid = one.start_without_adapter(["-S", "-incoming", f"unix:{channel}"])
    until("it listens", channel.exists)
    qemu = Qmp(one.monitor)
    try:
        qemu.execute("migrate-set-capabilities", capabilities=[_PAUSE_BEFORE_SWITCHOVER])
        qemu.execute("migrate-set-parameters", **{"downtime-limit": 0})
        qemu.execute("migrate", uri=f"unix:{channel}")
        until("every page was sent once", lambda: qemu.execute("query-migrate").get("ram", {}),
              accept=lambda ram: ram.get("dirty-sync-count", 0) >= 2)
        until("the adapter goes on writing", written, accept=lambda messages, before=written(): messages > before + 1000)
        qemu.execute("migrate-set-parameters", **{"downtime-limit": _DEFAULT_DOWNTIME_MS})
        until("the VM stands", lambda: qemu.execute("query-migrate").get("status"), accept=lambda status: status == "pre-switchover")
        client.kill()
        qemu.execute("migrate-continue", state="pre-switchover")
        until("memory is there", lambda: qemu.execute("query-migrate").get("status"), accept=lambda status: status == "completed")
        stale = differing_pages(memory_of(one.pid, one.spec.memory_mib), memory_of(pid, one.spec.memory_mib))
        one.kill_successor()
        qemu.execute("migrate-set-capabilities", capabilities=[{**_PAUSE_BEFORE_SWITCHOVER, "state": False}])
        qemu.execute("cont")
    finally:
        qemu.close()
    server.kill()
    assert stale, "the comparison finds nothing, or the adapter wrote nothing"
