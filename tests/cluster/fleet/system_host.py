"""A host with the installed unit and libvirt's system instance, in a machine with systemd."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fleet.until import until
from harness.daemon import REPOSITORY, binary
from machine import Machine
from testbed import ensure

_BUILD = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release").resolve()
_PAGES = REPOSITORY / "docs"
_ONE_HOST = "cluster/setup"
# A program of the testbed, which needs the testbed's libraries and data at their usual places.
_PROGRAM = r"""#!/bin/sh
exec unshare --mount sh -ec 'mount --bind {usr} /usr; exec /usr/bin/{name} "$@"' sh "$@"
"""
# libvirtd sees the testbed's /usr, and so does its hook. pvrdmactl needs that of the host, of which this file names a process.
_CTL = r"""#!/bin/sh
echo "$*" >>/etc/libvirt/calls
exec nsenter --mount=/proc/$(cat /etc/libvirt/machine)/ns/mnt /usr/local/bin/pvrdmactl "$@"
"""
# As another user, a program cannot mount. So it starts in the name space that the machine's root has prepared.
_QEMU = r"""#!/bin/sh
export QEMU_MODULE_DIR={usr}/lib/x86_64-linux-gnu/qemu
exec {qemu} "$@"
"""
_PREPARE = r"""
find /etc /usr/local /usr/lib/systemd/system /var/lib -xdev -name 'pvrdma*' -prune ! -exec mountpoint -q {{}} \; -exec rm -r {{}} +
useradd --system --no-create-home --shell /usr/sbin/nologin libvirt-qemu
cmake --install {build} --prefix /usr/local >/dev/null
mkdir -p /etc/libvirt
printf 'stdio_handler = "file"\n' >/etc/libvirt/qemu.conf
echo 1 >/etc/libvirt/machine
chmod 755 /usr/local/bin/virsh /usr/local/bin/qemu-system-x86_64 {usr}/local/bin/pvrdmactl
systemctl daemon-reload
{configure}
systemd-run --quiet --unit=libvirtd --service-type=notify unshare --mount sh -ec 'mount --bind {usr} /usr; exec /usr/sbin/libvirtd'
"""


def _text_of(page: str) -> str:
    return (_PAGES / page).with_suffix(".md").read_text(encoding="utf-8")


def _lines_of(page: str) -> list[str]:
    """The blocks marked `sh`."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", _text_of(page), re.MULTILINE | re.DOTALL)
    assert blocks, f"{page} has no lines"
    return blocks


class SystemHost:
    """A machine with pvrdmad, libvirtd and QEMU."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        testbed = ensure()
        usr = testbed.qemu_root / "usr"
        self.usr = usr
        self.write("/usr/local/bin/virsh", _PROGRAM.format(usr=usr, name="virsh"))
        self.write("/usr/local/bin/qemu-system-x86_64", _QEMU.format(usr=usr, qemu=" ".join(testbed.qemu())))
        machine.shell(f"mkdir -p {usr}/local/bin")
        self.write(f"{usr}/local/bin/pvrdmactl", _CTL)
        machine.shell(_PREPARE.format(build=_BUILD, usr=usr, configure=_lines_of(_ONE_HOST)[0]))

    def make_switch(self) -> None:
        """Makes the host a member of a switch with the port group pg1."""
        self.machine.shell(_lines_of(_ONE_HOST)[1])

    def write(self, path: str, text: str) -> None:
        """Makes a file."""
        self.machine.shell(f"cat >{path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")

    def follow(self, page: str) -> None:
        """Runs the lines that a page tells, in a folder with its XML."""
        text = _text_of(page)
        for xml in re.findall(r"^```xml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            self.write("/root/VM-01.xml", xml)
        self.machine.shell("cd /root\nexec >/root/output 2>&1\n" + "".join(_lines_of(page)))

    def ctl(self, *arguments: str) -> Any:
        """The parsed output of `pvrdmactl --json ARGUMENTS`."""
        return json.loads(self.machine.run("pvrdmactl", "--json", *arguments).stdout or "null")

    def refusal(self, *arguments: str) -> str:
        """The sentence with which pvrdmactl refuses."""
        done = self.machine.run("pvrdmactl", *arguments, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr.strip()

    def virsh(self, *arguments: str) -> str:
        """The output of `virsh ARGUMENTS`."""
        return self.machine.run("virsh", "-q", "-c", "qemu:///system", *arguments).stdout

    def start_refused(self, domain: str) -> str:
        """What virsh says when libvirt does not start a domain."""
        done = self.machine.run("virsh", "-q", "-c", "qemu:///system", "start", domain, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def call_itself(self, name: str) -> None:
        """Gives the host of the daemon another name."""
        self.machine.shell(f"""sed -i 's/^name = .*/name = "{name}"/' /etc/pvrdma/pvrdmad.toml; systemctl restart pvrdmad""")

    def doctor(self) -> list[str]:
        """The lines of `pvrdmactl doctor`."""
        return self.machine.run("pvrdmactl", "doctor", check=False).stdout.splitlines()

    def wait_for_power(self, vm: str, power: str) -> None:
        """Waits until the daemon shows a VM as on or off."""
        until(f"{vm} is {power}", lambda: self.ctl("vm", "get", vm)["power"], accept=lambda now: now == power)

    def checkpoint(self, vm: str, user: str) -> None:
        """Writes a VM into a file, which the daemon leads through the VM's monitor, and ends its QEMU."""
        self.machine.shell(f"rm -rf /root/checkpoints; chmod 711 /root; install -d -o {user} /root/checkpoints")
        self.machine.run("pvrdmactl", "vm", "checkpoint", vm, "/root/checkpoints/file")
        self.wait_for_power(vm, "off")

    def owner_of(self, path: str) -> str:
        """Owner, group and mode of a file."""
        return self.machine.run("stat", "--format", "%U %G %a", path).stdout.strip()

    def user_of(self, pid: str) -> str:
        """The user of a process."""
        return self.machine.run("ps", "-o", "user:32=", "-p", pid).stdout.strip()

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return self.machine.run("test", "-e", path, check=False).returncode == 0


@contextmanager
def system_host() -> Iterator[SystemHost]:
    """Boots the machine. Checks at the end that no daemon's sandbox refused anything."""
    binary("pvrdmad")
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    try:
        with closing(Machine(folder, REPOSITORY, _BUILD, ensure().qemu_root)) as machine:
            yield SystemHost(machine)
            journal = machine.run("journalctl", "--unit", "pvrdmad", "--unit", "second-pvrdmad", "--no-pager", "--output", "cat").stdout
            assert "serves" in journal and "sandbox: refused" not in journal, journal
    finally:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink(missing_ok=True)
