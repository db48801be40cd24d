"""The first VM on a host with the packages: docs/howto/qemu.md, with a Debian guest in the VM.

The QEMU is the testbed's, Debian 13's backport with its own libraries, on each release.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.channel import Channel
from harness.vm import BOOT_GUARD_S, DEVICE
from host import PACKAGES, SUITES, Host, host_of
from testbed import ensure

_PAGE = Path(__file__).resolve().parents[2] / "docs/howto/qemu.md"
_AGENT = "/run/agent"
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


@pytest.fixture(name="host", scope="module", params=SUITES)
def _host(request: pytest.FixtureRequest) -> Iterator[Host]:
    testbed = ensure()
    with host_of(request.param, "pvrdma", shown=(testbed.qemu_root, testbed.image)) as host:
        machine = host.machine
        machine.shell(f"cat >/usr/local/bin/qemu-system-x86_64 <<'END'\n{_program()}\nEND\n"
                      "chmod 755 /usr/local/bin/qemu-system-x86_64; install -d -m 777 /run/guest; chmod 711 /root")
        host.install(host.package(PACKAGES, "pvrdma"))
        machine.shell(r"""
            printf '[host]\nname = "esx-01"\n' >/etc/pvrdma/pvrdmad.toml
            systemctl enable --now pvrdmad
            pvrdmactl dvs create DSwitch --uplinks 2
            pvrdmactl dvs portgroup add DSwitch pg1
            pvrdmactl dvs add-host DSwitch self""")
        yield host


def test_a_vm_with_the_documented_lines_has_rdma(host: Host) -> None:
    with closing(Channel(host.machine.seen_from_outside(_AGENT))) as guest:
        host.machine.run("chmod", "666", _AGENT)
        lines = re.findall(r"^ *```sh\n(.*?)^ *```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        host.machine.shell("exec >/run/guest/output 2>&1\n" + "".join(lines))
        if not guest.wait_for_boot(1, BOOT_GUARD_S):
            pytest.fail(host.machine.shell("tail -n 40 /run/guest/output /run/guest/console"))
        for command in (
                f"until grep -qs ACTIVE /sys/class/infiniband/{DEVICE}/ports/1/state; do sleep 0.1; done",
                f"ib_write_bw -d {DEVICE} -n 100 & await-listener tcp 18515 20 && ib_write_bw -d {DEVICE} -n 100 127.0.0.1 && wait $!"):
            done = guest.wait(guest.submit(command + "\n"), 60)
            assert done.exit_code == 0, done.output
        assert "65536      100" in done.output
    adapter = host.machine.run("pvrdmactl", "vm", "get", "VM-02").stdout
    assert re.search(r"Power\W+on", adapter), adapter
