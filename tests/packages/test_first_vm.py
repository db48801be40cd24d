"""The first VM on a host with the packages: docs/howto/qemu.md, with a Debian guest in the VM, and an upgrade while it runs.

The QEMU is the testbed's, Debian 13's backport with its own libraries, on each release. The tests use a host in their order.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.channel import Channel
from harness.vm import BOOT_GUARD_S, DEVICE
from host import OLDER, PACKAGES, SUITES, Host, host_of
from testbed import ensure
from traffic import until

_PAGE = Path(__file__).resolve().parents[2] / "docs/howto/qemu.md"
_AGENT = "/run/agent"
_GUARD_S = 60
# QEMU as the page's lines call it, with what a VM needs besides: a system to boot, and here the harness's channel into it.
_QEMU = r"""#!/bin/sh
export QEMU_MODULE_DIR={modules}
exec {qemu} "$@" {guest}
"""


def _program() -> str:
    testbed = ensure()
    guest = ["-cpu", "max", "-serial", "file:/run/guest/console", "-kernel", str(testbed.kernel), "-initrd", str(testbed.archive("base")),
             "-append", "console=ttyS0 pvrdma.name=VM-02 pvrdma.ip=192.168.0.2/24",
             "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,path={_AGENT}",
             "-device", "virtserialport,chardev=agent,name=pvrdma.agent"]
    return _QEMU.format(modules=testbed.qemu_environment()["QEMU_MODULE_DIR"], qemu=shlex.join(testbed.qemu()), guest=shlex.join(guest))


class FirstVm:
    """A host with the older package, and the end of the channel into its VM."""

    def __init__(self, host: Host, guest: Channel) -> None:
        self.host = host
        self.guest = guest

    def start(self, command: str) -> int:
        """Starts a command in the guest."""
        return self.guest.submit(command + "\n")

    def finish(self, job: int) -> str:
        """The output of a command that succeeds."""
        done = self.guest.wait(job, _GUARD_S)
        assert done.exit_code == 0, done.output
        return done.output

    def messages(self) -> int:
        """How many messages the VM has sent."""
        (adapter,) = json.loads(self.host.machine.run("pvrdmactl", "--json", "stats").stdout)["adapters"]
        return int(adapter["verbs"]["tx_messages"])


@pytest.fixture(name="vm", scope="module", params=SUITES)
def _vm(request: pytest.FixtureRequest) -> Iterator[FirstVm]:
    testbed = ensure()
    with host_of(request.param, "pvrdma", shown=(testbed.qemu_root, testbed.image)) as host:
        machine = host.machine
        machine.shell(f"cat >/usr/local/bin/qemu-system-x86_64 <<'END'\n{_program()}\nEND\n"
                      "chmod 755 /usr/local/bin/qemu-system-x86_64; install -d -m 777 /run/guest; chmod 711 /root")
        host.install(host.package(OLDER, "pvrdma"))
        machine.shell(r"""
            printf '[host]\nname = "esx-01"\n' >/etc/pvrdma/pvrdmad.toml
            systemctl enable --now pvrdmad
            pvrdmactl dvs create DSwitch --uplinks 2
            pvrdmactl dvs portgroup add DSwitch pg1
            pvrdmactl dvs add-host DSwitch self""")
        with closing(Channel(machine.seen_from_outside(_AGENT))) as guest:
            machine.run("chmod", "666", _AGENT)
            yield FirstVm(host, guest)


def test_a_vm_with_the_documented_lines_has_rdma(vm: FirstVm) -> None:
    lines = re.findall(r"^ *```sh\n(.*?)^ *```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    vm.host.machine.shell("exec >/run/guest/output 2>&1\n" + "".join(lines))
    if not vm.guest.wait_for_boot(1, BOOT_GUARD_S):
        pytest.fail(vm.host.machine.shell("tail -n 40 /run/guest/output /run/guest/console"))
    vm.finish(vm.start(f"until grep -qs ACTIVE /sys/class/infiniband/{DEVICE}/ports/1/state; do sleep 0.1; done"))
    printed = vm.finish(vm.start(f"ib_write_bw -d {DEVICE} -n 100 & await-listener tcp 18515 20 && "
                                 f"ib_write_bw -d {DEVICE} -n 100 127.0.0.1 && wait $!"))
    assert "65536      100" in printed


def test_an_upgrade_keeps_the_connections_of_the_vm(vm: FirstVm) -> None:
    """Each work request of the guest is executed exactly once."""
    load = f"exactly_once {DEVICE} 1 -e /run/end -t 20"
    job = vm.start(f"{load} & await-listener tcp 18515 20 && {load} 127.0.0.1 && wait $!")
    for package in (None, vm.host.package(PACKAGES, "pvrdma")):
        if package:
            vm.host.install(package)
        seen = vm.messages()
        until("the guest's messages flow", lambda: vm.messages() > seen + 100 or vm.guest.done(job))
        assert not vm.guest.done(job), vm.finish(job)
    vm.finish(vm.start("touch /run/end"))
    assert vm.finish(job).count("each exactly once") == 2, "both ends have checked them"
    assert vm.host.machine.run("pvrdmactl", "version").stdout.endswith(f"pvrdmad {vm.host.version('pvrdma')}\n")
