"""A guest with an adapter whose memory grows and shrinks (virtio-mem). QEMU shares each plugged block as a map of its own,
and takes the maps of adjacent blocks away by one message."""

from __future__ import annotations

import dataclasses
import time
from contextlib import closing
from pathlib import Path

from conftest import expect_healthy_kernels
from harness import cases
from harness.cases import Case
from harness.daemon import Adapter
from harness.ensemble import Ensemble
from harness.programs import exactly_once, exactly_once_load
from harness.qmp import Qmp
from harness.rdma import wait_active
from harness.under_way import wait_until_it_flows
from harness.vm import Vm, VmSpec
from testbed import ensure

_BASE_MIB = _MOST_MIB = 512
_BLOCK_MIB = 2
_GUARD_S = 120.0
_DEVICE = "/machine/peripheral/plugged"
# The second NUMA node has plugged memory only. So a program that may use that node alone has its buffers there.
_NUMA = (
    "-object", f"memory-backend-memfd,id=base,share=on,size={_BASE_MIB}M", "-numa", "node,nodeid=0,memdev=base",
    "-numa", "node,nodeid=1", "-m", f"{_BASE_MIB},maxmem={_BASE_MIB + _MOST_MIB}M",
    "-object", f"memory-backend-memfd,id=more,share=on,size={_MOST_MIB}M",
    "-device", f"virtio-mem-pci,id=plugged,memdev=more,node=1,block-size={_BLOCK_MIB}M,requested-size=0",
)
# A program in this cgroup has all its memory on the second node.
_CGROUP = "/tmp/cgroup"
_USE_NODE_1 = (f"mkdir {_CGROUP} && mount -t cgroup2 none {_CGROUP} && echo +cpuset > {_CGROUP}/cgroup.subtree_control && "
               f"mkdir {_CGROUP}/plugged && echo 1 > {_CGROUP}/plugged/cpuset.mems")
_PAGES_ON = "cat /proc/$(pidof exactly_once)/numa_maps | tr ' ' '\\n' | sed -n 's/^N{node}=//p' | awk '{{n += $1}} END {{print n + 0}}'"


class _Growing(Ensemble):
    """Two VMs with adapters. The first one's memory can grow."""

    def _adapters(self) -> list[Adapter]:
        return [Adapter(f"VM-0{index}", self._run / f"vm-0{index}.sock", f"52:54:00:12:34:5{index}", hardware_version=18)
                for index in (1, 2)]

    def _start(self) -> None:
        fixed = [VmSpec(adapter.name, f"192.168.11.5{index}", f"fd00:11::5{index}", adapter.mac, adapter=adapter.socket)
                 for index, adapter in enumerate(self.daemon.adapters, 1)]
        growing = dataclasses.replace(fixed[0], memory_backend="", devices=_NUMA, overlays=("virtio-mem",))
        self._start_vms(ensure(), [growing, fixed[1]])
        for vm in self.vms:
            wait_active(vm)

    def resize(self, vm: Vm, mib: int) -> None:
        """Requests this much plugged memory, and waits until the guest has it."""
        deadline = time.monotonic() + _GUARD_S
        with closing(Qmp(vm.monitor)) as monitor:
            monitor.execute("qom-set", path=_DEVICE, property="requested-size", value=mib << 20)
            while (plugged := monitor.execute("qom-get", path=_DEVICE, property="size") >> 20) != mib:
                assert time.monotonic() < deadline, f"{plugged} MiB are plugged after {_GUARD_S:g} s, not {mib}"
                time.sleep(0.2)

    def maps(self, vm: Vm) -> int:
        """How many ranges of its memory the daemon has mapped."""
        use = self.daemon.ctl("adapter", "get", vm.name)["budgets"]["mappings"]["use"]
        assert isinstance(use, int)
        return use


def _prepare(vm: Vm) -> None:
    """The guest may plug memory. It uses it like other memory, so that MRs may be in it."""
    vm.check("echo online_kernel > /sys/devices/system/memory/auto_online_blocks && modprobe virtio_mem")


def _on_node_1(command: str) -> str:
    return f"echo $$ > {_CGROUP}/plugged/cgroup.procs && exec {command}"


def _client_on_node_1(case: Case) -> Case:
    return dataclasses.replace(case, client=_on_node_1(case.client))


def _server_on_node_1(case: Case) -> Case:
    return dataclasses.replace(case, server=_on_node_1(case.server))


def test_memory_is_plugged_and_unplugged_under_traffic(logs: Path) -> None:
    with _Growing(logs / "virtio-mem") as ensemble:
        first, second = ensemble.vms
        _prepare(first)
        fixed = ensemble.maps(first)
        ensemble.resize(first, 256)
        assert ensemble.maps(first) == fixed + 256 // _BLOCK_MIB
        first.check(_USE_NODE_1)
        with cases.under_way(_client_on_node_1(exactly_once_load()), second, first) as load:
            first.check("until pidof exactly_once; do sleep 0.1; done", _GUARD_S)
            wait_until_it_flows(ensemble, first, load)
            pages = [int(first.check(_PAGES_ON.format(node=node))) for node in (0, 1)]
            assert pages[1] > 1000 > pages[0], pages
            for mib in (128, 512, 192, 384):
                ensemble.resize(first, mib)
                assert ensemble.maps(first) == fixed + mib // _BLOCK_MIB
                wait_until_it_flows(ensemble, first, load)
        cases.run(_server_on_node_1(exactly_once("-n 300")), first, second)
        first.reset()  # QEMU unplugs all blocks, with one message for all that are adjacent
        assert ensemble.maps(first) == fixed
        _prepare(first)
        ensemble.resize(first, 512)
        assert ensemble.maps(first) == fixed + 512 // _BLOCK_MIB
        first.check(_USE_NODE_1)
        wait_active(first)
        cases.run(_client_on_node_1(exactly_once("-n 300")), second, first)
        cases.run(_server_on_node_1(exactly_once("-n 300")), first, second)
        expect_healthy_kernels(ensemble)
