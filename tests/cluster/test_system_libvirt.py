"""QEMU runs as a user of its own: as libvirt-qemu under libvirt's system instance, and by hand. systemd runs the daemon as the
user pvrdma with the restrictions of its unit. All is in a machine of its own, which is installed like a host.

The tests execute docs/howto/libvirt.md and docs/howto/qemu.md, and use the VMs of these pages in their order. Only the last VM
boots a system.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fleet.until import until
from harness.daemon import REPOSITORY, binary
from machine import Machine
from testbed import debroot, ensure, initramfs
from testbed.recipes import ROOTS

_BUILD = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release").resolve()
_PAGES = REPOSITORY / "docs" / "howto"
_FOLDER = "/run/pvrdma/VM-01.vmm"
# A program of the testbed, which needs the testbed's libraries and data at their usual places.
_PROGRAM = r"""#!/bin/sh
exec unshare --mount sh -ec 'mount --bind {usr} /usr; exec /usr/bin/{name} "$@"' sh "$@"
"""
# libvirtd sees the testbed's /usr, and so does its hook. pvrdmactl needs the machine's.
_CTL = r"""#!/bin/sh
exec nsenter --mount=/proc/1/ns/mnt /usr/local/bin/pvrdmactl "$@"
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
printf '[host]\nname = "esx-01"\n' >/etc/pvrdma/pvrdmad.toml
mkdir -p /etc/libvirt
printf 'stdio_handler = "file"\n' >/etc/libvirt/qemu.conf
chmod 755 /usr/local/bin/virsh /usr/local/bin/qemu-system-x86_64 {usr}/local/bin/pvrdmactl
systemctl daemon-reload
systemctl start pvrdmad
systemd-run --quiet --unit=libvirtd --service-type=notify unshare --mount sh -ec 'mount --bind {usr} /usr; exec /usr/sbin/libvirtd'
pvrdmactl dvs create DSwitch --uplinks 2 >/dev/null
pvrdmactl dvs portgroup add DSwitch pg1 >/dev/null
pvrdmactl dvs add-host DSwitch self >/dev/null
"""
_GUEST = "/var/lib/guest"
# The guest's first process. The kernel leaves it to programs to power off when the button is pressed.
_FIRST = """#!/bin/sh
export PATH=/usr/bin
mount -t devtmpfs dev /dev
insmod /evdev.ko
insmod /button.ko
for device in /dev/input/event*; do
  { head -c 1 "$device" >/dev/null && poweroff -f; } &
done
exec /init
"""
# A user database that knows one user, vm-03, which no file has.
_DATABASE = r"""
#include <errno.h>
#include <nss.h>
#include <pwd.h>
#include <string.h>
enum nss_status _nss_pvrdmatest_getpwnam_r(const char *name, struct passwd *user, char *buffer, size_t size, int *error) {
  if (strcmp(name, "vm-03") != 0) return NSS_STATUS_NOTFOUND;
  if (size < 8) return *error = ERANGE, NSS_STATUS_TRYAGAIN;
  strcpy(buffer, "vm-03");
  *user = (struct passwd){.pw_name = buffer, .pw_passwd = buffer + 5, .pw_uid = 64333, .pw_gid = 64333, .pw_gecos = buffer + 5,
                          .pw_dir = buffer + 5, .pw_shell = buffer + 5};
  return NSS_STATUS_SUCCESS;
}
"""
_MAKE_DATABASE = r"""
gcc -shared -fPIC -o /usr/lib/x86_64-linux-gnu/libnss_pvrdmatest.so.2 -x c /root/database.c
sed -i '/^passwd:/d' /etc/nsswitch.conf
echo 'passwd: files pvrdmatest' >>/etc/nsswitch.conf
systemctl restart pvrdmad
"""


class Host:
    """A machine with pvrdmad, libvirtd and QEMU."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        testbed = ensure()
        usr = testbed.qemu_root / "usr"
        self.write("/usr/local/bin/virsh", _PROGRAM.format(usr=usr, name="virsh"))
        self.write("/usr/local/bin/qemu-system-x86_64", _QEMU.format(usr=usr, qemu=" ".join(testbed.qemu())))
        machine.shell(f"mkdir -p {usr}/local/bin")
        self.write(f"{usr}/local/bin/pvrdmactl", _CTL)
        machine.shell(_PREPARE.format(build=_BUILD, usr=usr))

    def write(self, path: str, text: str) -> None:
        """Makes a file."""
        self.machine.shell(f"cat >{path} <<'END-OF-FILE'\n{text}\nEND-OF-FILE")

    def follow(self, page: str) -> None:
        """Runs the lines that a page tells, in a folder with its XML."""
        text = (_PAGES / page).with_suffix(".md").read_text(encoding="utf-8")
        for xml in re.findall(r"^```xml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            self.write("/root/VM-01.xml", xml)
        lines = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
        assert lines, f"{page} has no lines"
        self.machine.shell("cd /root\nexec >/root/output 2>&1\n" + "".join(lines))

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


@pytest.fixture(name="host", scope="module")
def _host() -> Iterator[Host]:
    binary("pvrdmad")
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    try:
        with closing(Machine(folder, REPOSITORY, _BUILD, ensure().qemu_root)) as machine:
            host = Host(machine)
            yield host
            journal = machine.run("journalctl", "--unit", "pvrdmad", "--no-pager", "--output", "cat").stdout
            assert "sandbox: refused" not in journal, journal
    finally:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink(missing_ok=True)


def test_a_domain_of_the_system_instance_runs(host: Host) -> None:
    host.follow("libvirt")
    host.wait_for_power("VM-01", "on")
    assert host.user_of(host.machine.shell("cat /run/libvirt/qemu/VM-01.pid").strip()) == "libvirt-qemu"
    assert host.user_of(host.machine.shell("systemctl show --property MainPID --value pvrdmad").strip()) == "pvrdma"
    assert host.owner_of(_FOLDER) == "libvirt-qemu pvrdma 770"
    assert host.machine.run("runuser", "-u", "nobody", "--", "ls", _FOLDER, check=False).returncode != 0
    assert "vmxnet3" in host.virsh("dumpxml", "VM-01")


def test_a_domain_outlives_the_daemon(host: Host) -> None:
    host.machine.run("systemctl", "restart", "pvrdmad")
    host.wait_for_power("VM-01", "on")
    host.checkpoint("VM-01", "libvirt-qemu")
    assert host.virsh("domstate", "VM-01").strip() == "shut off"
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")


def test_a_domain_can_be_merged_again(host: Host) -> None:
    host.machine.shell("cd /root; pvrdmactl vm libvirt-xml VM-01 --merge VM-01.pvrdma.xml | cmp - VM-01.pvrdma.xml")
    host.write("/root/bad.xml", "<domain><name>VM-01</domain>")
    assert "/root/bad.xml: line 2: not XML: " in host.refusal("vm", "libvirt-xml", "VM-01", "--merge", "/root/bad.xml")
    assert "/root/none.xml cannot be read" in host.refusal("vm", "libvirt-xml", "VM-01", "--merge", "/root/none.xml")


def test_qemu_runs_as_a_user_of_its_own(host: Host) -> None:
    host.follow("qemu")
    host.wait_for_power("VM-02", "on")
    monitor = "/run/pvrdma/VM-02.vmm/qmp"
    assert host.owner_of(monitor) == "vm-02 vm-02 755", "this mode keeps the daemon out"
    host.checkpoint("VM-02", "vm-02")


def test_a_vmm_cannot_lead_the_daemon_to_another_vm(host: Host) -> None:
    host.machine.shell(f"mv {_FOLDER}/qmp /run/pvrdma/VM-02.vmm/mine; runuser -u vm-02 -- ln -s {_FOLDER}/moved /run/pvrdma/VM-02.vmm/qmp")
    host.machine.shell(f"mv /run/pvrdma/VM-02.vmm/mine {_FOLDER}/moved")
    try:
        refused = host.refusal("vm", "restore", "VM-02", "/root/checkpoints/file")
        assert "/run/pvrdma/VM-02.vmm/qmp: Too many levels of symbolic links" in refused, refused
    finally:
        host.machine.shell(f"mv {_FOLDER}/moved {_FOLDER}/qmp; rm /run/pvrdma/VM-02.vmm/qmp")
    assert host.virsh("domstate", "VM-01").strip() == "running"


def _create(name: str, host: str, owner: str) -> list[str]:
    return ["vm", "create", name, "--host", host, "--hw", "14", "--memory", "256", "--reserve", "all", "--portgroup", "pg1", "--owner", owner]


def test_an_owner_must_exist(host: Host) -> None:
    assert "this host has no user nosuch: make it or name another" in host.refusal(*_create("VM-03", "esx-01", "nosuch"))
    assert [vm["name"] for vm in host.ctl("vm", "list")] == ["VM-01", "VM-02"]


def test_a_vm_is_served_once_its_owner_exists(host: Host) -> None:
    """The user is removed while its VM is off, and comes back."""
    host.machine.shell("userdel vm-02; systemctl restart pvrdmad")
    shown = until("VM-02 is not served", lambda: host.ctl("vm", "get", "VM-02")["not_served"])
    assert shown == "its socket cannot be given to its owner: this host has no user vm-02: make it or name another"
    host.machine.shell("useradd --system --no-create-home vm-02")
    until("VM-02 is served", lambda: not host.ctl("vm", "get", "VM-02")["not_served"])


def test_the_sandbox_lets_a_user_database_answer(host: Host) -> None:
    """The database is a library. It is asked for the first time when the daemon is confined."""
    host.write("/root/database.c", _DATABASE)
    host.machine.shell(_MAKE_DATABASE)
    host.ctl(*_create("VM-03", "esx-01", "vm-03"))
    folder = "/run/pvrdma/VM-03.vmm"
    until("VM-03 is served", lambda: host.exists(folder))
    assert host.machine.run("stat", "--format", "%u", folder).stdout.strip() == "64333"


def test_the_folder_goes_with_the_vm(host: Host) -> None:
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")
    host.machine.run("pvrdmactl", "vm", "delete", "VM-01")
    until("its folder is gone", lambda: not host.exists(_FOLDER))


# --- The hook. VM-01 is defined as a domain, and no VM. ---

def test_the_hook_makes_the_vm_when_its_domain_starts(host: Host) -> None:
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")
    vm = host.ctl("vm", "get", "VM-01")
    assert (vm["host"], vm["memory_reserved_mib"]) == ("esx-01", 256)
    assert (vm["adapter"]["mac"], vm["adapter"]["owner"]) == ("52:54:00:12:34:51", "libvirt-qemu")
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")


def test_the_hook_makes_the_adapter_of_a_vm(host: Host) -> None:
    host.machine.run("pvrdmactl", "vm", "adapter", "remove", "VM-01")
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")


def test_a_domain_whose_vm_is_on_another_host_does_not_start(host: Host) -> None:
    host.call_itself("esx-02")
    try:
        refused = host.start_refused("VM-01")
        assert "pvrdmactl: VM VM-01 is on host esx-01, not on this host esx-02: start it there, or " in refused, refused
        assert host.virsh("domstate", "VM-01").strip() == "shut off"
    finally:
        host.call_itself("esx-01")


def test_virsh_says_why_a_vm_cannot_be_made(host: Host) -> None:
    host.machine.run("pvrdmactl", "vm", "delete", "VM-01")
    for vm in ("VM-02", "VM-03"):
        host.machine.run("pvrdmactl", "vm", "delete", vm)
    host.machine.run("pvrdmactl", "dvs", "portgroup", "remove", "DSwitch", "pg1")
    refused = host.start_refused("VM-01")
    assert "pvrdmactl: " in refused and "pg1" in refused, refused
    host.machine.run("pvrdmactl", "dvs", "portgroup", "add", "DSwitch", "pg1")
    host.machine.run("systemctl", "stop", "pvrdmad")
    refused = host.start_refused("VM-01")
    assert "pvrdmactl: the daemon cannot be reached at /run/pvrdma/api.sock" in refused, refused


def test_a_domain_without_metadata_does_not_need_the_daemon(host: Host) -> None:
    """The daemon is stopped. A VM may not have the domain's name."""
    host.write("/root/other.xml", "<domain type='qemu'><name>-other domain</name><memory unit='MiB'>64</memory>"
                                  "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>")
    host.virsh("create", "/root/other.xml")
    host.virsh("destroy", "--domain", "-other domain")
    host.machine.run("systemctl", "start", "pvrdmad")


def test_a_copy_of_a_domain_gets_no_adapter(host: Host) -> None:
    host.machine.shell("sed 's/<name>VM-01</<name>copy</' /root/VM-01.pvrdma.xml >/root/copy.xml")
    host.virsh("define", "/root/copy.xml")
    refused = host.start_refused("copy")
    assert "pvrdmactl: the metadata of domain copy is that of VM VM-01: " in refused, refused


# --- A guest. ---

def _make_guest(folder: Path) -> None:
    """A kernel and an initrd that obey the power button, and load the driver of the adapter."""
    testbed = ensure()
    shutil.copy(testbed.kernel, folder / "vmlinuz")
    drivers = debroot.ensure(ROOTS[0]) / "usr/lib/modules" / testbed.kernel_release / "kernel/drivers"
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for driver in ("acpi/button", "input/evdev"):
            packed = (drivers / f"{driver}.ko.xz").read_bytes()
            (tree / f"{Path(driver).name}.ko").write_bytes(lzma.decompress(packed))
        (tree / "first").write_text(_FIRST, encoding="ascii")
        (tree / "first").chmod(0o755)
        initramfs.pack_tree(tree, folder / "more.cpio")
    (folder / "initrd").write_bytes(testbed.archive("base").read_bytes() + (folder / "more.cpio").read_bytes())


def test_a_guest_with_the_driver_obeys_virsh_shutdown(host: Host) -> None:
    host.machine.shell(f"install -d -o libvirt-qemu {_GUEST}")
    _make_guest(host.machine.seen_from_outside(_GUEST))
    arguments = "console=ttyS0 quiet no_timer_check tsc=reliable rdinit=/first pvrdma.name=VM-01 pvrdma.ip=192.168.11.51/24"
    boot = f"<kernel>{_GUEST}/vmlinuz</kernel><initrd>{_GUEST}/initrd</initrd><cmdline>{arguments}</cmdline>"
    console = f"<serial type='file'><source path='{_GUEST}/console'/></serial>"
    host.machine.shell(f"""sed "s#</os>#{boot}</os>#; s#</devices>#{console}</devices>#" /root/VM-01.pvrdma.xml >/root/guest.xml""")
    host.virsh("undefine", "VM-01")
    host.virsh("define", "--validate", "/root/guest.xml")
    host.virsh("start", "VM-01")
    until("the guest's driver runs", lambda: host.ctl("adapter", "get", "VM-01")["state"], accept=lambda state: state == "active", guard_s=120)
    host.virsh("shutdown", "VM-01")
    until("the guest is off", lambda: host.virsh("domstate", "--reason", "VM-01").strip(), accept=lambda state: state == "shut off (shutdown)")
    host.wait_for_power("VM-01", "off")
