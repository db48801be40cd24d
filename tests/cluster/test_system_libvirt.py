"""QEMU runs as a user of its own: as libvirt-qemu under libvirt's system instance, and by hand. systemd runs the daemon as the
user pvrdma with the restrictions of its unit. All is in a machine of its own, which is installed like a host.

The tests execute docs/howto/libvirt.md and docs/howto/qemu.md, and use the VMs of these pages in their order. Only the last VM
boots a system.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.button_guest import GUEST, boot_elements, make_guest
from fleet.system_host import SystemHost, system_host
from fleet.until import until

_FOLDER = "/run/pvrdma/VM-01.vmm"
_GOOD_NIC = "ok       NIC {}: the vmxnet3 in PCI slot 0x10 has the adapter's MAC"
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


@pytest.fixture(name="host", scope="module")
def _host() -> Iterator[SystemHost]:
    with system_host() as host:
        host.make_switch()
        yield host


def test_a_domain_of_the_system_instance_runs(host: SystemHost) -> None:
    host.follow("howto/libvirt")
    host.wait_for_power("VM-01", "on")
    assert host.user_of(host.machine.shell("cat /run/libvirt/qemu/VM-01.pid").strip()) == "libvirt-qemu"
    assert host.user_of(host.machine.shell("systemctl show --property MainPID --value pvrdmad").strip()) == "pvrdma"
    assert host.owner_of(_FOLDER) == "libvirt-qemu pvrdma 770"
    assert host.machine.run("runuser", "-u", "nobody", "--", "ls", _FOLDER, check=False).returncode != 0
    assert "vmxnet3" in host.virsh("dumpxml", "VM-01")
    assert _GOOD_NIC.format("VM-01") in host.doctor(), "libvirt's own arguments have another form than the page's"


def test_a_domain_outlives_the_daemon(host: SystemHost) -> None:
    host.machine.run("systemctl", "restart", "pvrdmad")
    host.wait_for_power("VM-01", "on")
    host.checkpoint("VM-01", "libvirt-qemu")
    until("libvirt has seen the end of its QEMU", lambda: host.virsh("domstate", "VM-01").strip(), accept=lambda state: state == "shut off")
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")


def test_a_domain_can_be_merged_again(host: SystemHost) -> None:
    host.machine.shell("cd /root; pvrdmactl vm libvirt-xml VM-01 --merge VM-01.pvrdma.xml | cmp - VM-01.pvrdma.xml")
    host.write("/root/bad.xml", "<domain><name>VM-01</domain>")
    assert "/root/bad.xml: line 2: not XML: " in host.refusal("vm", "libvirt-xml", "VM-01", "--merge", "/root/bad.xml")
    assert "/root/none.xml cannot be read" in host.refusal("vm", "libvirt-xml", "VM-01", "--merge", "/root/none.xml")


def test_the_adapter_is_removed_from_the_description(host: SystemHost) -> None:
    before = host.virsh("dumpxml", "--inactive", "VM-01")
    host.follow("guests")
    assert "vfio-user-pci" in host.virsh("dumpxml", "VM-01")
    assert host.ctl("vm", "get", "VM-01")["power"] == "on", "the running VM keeps its adapter"
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")
    host.virsh("start", "VM-01")
    assert not any(word in host.virsh("dumpxml", "VM-01") for word in ("vfio-user-pci", "52:54:00:12:34:51", "pvrdma:vm"))
    assert host.ctl("vm", "get", "VM-01")["power"] == "off"
    host.virsh("destroy", "VM-01")
    host.write("/root/before.xml", before)
    host.virsh("define", "/root/before.xml")
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")


def test_qemu_runs_as_a_user_of_its_own(host: SystemHost) -> None:
    host.follow("howto/qemu")
    host.wait_for_power("VM-02", "on")
    monitor = "/run/pvrdma/VM-02.vmm/qmp"
    assert host.owner_of(monitor) == "vm-02 vm-02 755", "this mode keeps the daemon out"
    assert _GOOD_NIC.format("VM-02") in host.doctor()
    host.checkpoint("VM-02", "vm-02")


def test_a_vmm_cannot_lead_the_daemon_to_another_vm(host: SystemHost) -> None:
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


def test_an_owner_must_exist(host: SystemHost) -> None:
    assert "this host has no user nosuch: make it or name another" in host.refusal(*_create("VM-03", "esx-01", "nosuch"))
    assert [vm["name"] for vm in host.ctl("vm", "list")] == ["VM-01", "VM-02"]


def test_a_vm_is_served_once_its_owner_exists(host: SystemHost) -> None:
    """The user is removed while its VM is off, and comes back."""
    host.machine.shell("userdel vm-02; systemctl restart pvrdmad")
    shown = until("VM-02 is not served", lambda: host.ctl("vm", "get", "VM-02")["not_served"])
    assert shown == "its socket cannot be given to its owner: this host has no user vm-02: make it or name another"
    assert f"TROUBLE  VM VM-02: this host cannot serve its adapter: {shown}" in host.doctor()
    host.machine.shell("useradd --system --no-create-home vm-02")
    until("VM-02 is served", lambda: not host.ctl("vm", "get", "VM-02")["not_served"])


def test_the_sandbox_lets_a_user_database_answer(host: SystemHost) -> None:
    """The database is a library. It is asked for the first time when the daemon is confined."""
    host.write("/root/database.c", _DATABASE)
    host.machine.shell(_MAKE_DATABASE)
    host.ctl(*_create("VM-03", "esx-01", "vm-03"))
    folder = "/run/pvrdma/VM-03.vmm"
    until("VM-03 is served", lambda: host.exists(folder))
    assert host.machine.run("stat", "--format", "%u", folder).stdout.strip() == "64333"


def test_the_folder_goes_with_the_vm(host: SystemHost) -> None:
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")
    host.machine.run("pvrdmactl", "vm", "delete", "VM-01")
    until("its folder is gone", lambda: not host.exists(_FOLDER))


# --- The hook. VM-01 is defined as a domain, and no VM. ---

def test_the_hook_makes_the_vm_when_its_domain_starts(host: SystemHost) -> None:
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")
    vm = host.ctl("vm", "get", "VM-01")
    assert (vm["host"], vm["memory_reserved_mib"]) == ("esx-01", 256)
    assert (vm["adapter"]["mac"], vm["adapter"]["owner"]) == ("52:54:00:12:34:51", "libvirt-qemu")
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")


def test_the_hook_makes_the_adapter_of_a_vm(host: SystemHost) -> None:
    host.machine.run("pvrdmactl", "vm", "adapter", "remove", "VM-01")
    host.virsh("start", "VM-01")
    host.wait_for_power("VM-01", "on")
    host.virsh("destroy", "VM-01")
    host.wait_for_power("VM-01", "off")


def test_a_domain_whose_vm_is_on_another_host_does_not_start(host: SystemHost) -> None:
    host.call_itself("esx-02")
    try:
        refused = host.start_refused("VM-01")
        assert "pvrdmactl: VM VM-01 is on host esx-01, not on this host esx-02: start it there, or " in refused, refused
        assert host.virsh("domstate", "VM-01").strip() == "shut off"
    finally:
        host.call_itself("esx-01")


def test_virsh_says_why_a_vm_cannot_be_made(host: SystemHost) -> None:
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


def test_a_domain_without_metadata_does_not_need_the_daemon(host: SystemHost) -> None:
    """The daemon is stopped. A VM may not have the domain's name."""
    host.write("/root/other.xml", "<domain type='qemu'><name>-other domain</name><memory unit='MiB'>64</memory>"
                                  "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>")
    host.virsh("create", "/root/other.xml")
    host.virsh("destroy", "--domain", "-other domain")


def test_a_domain_waits_for_a_daemon_that_starts(host: SystemHost) -> None:
    """As at boot, when libvirtd starts its domains. The daemon is stopped."""
    host.machine.shell("(sleep 1; exec systemctl start pvrdmad) & virsh -q -c qemu:///system start VM-01; wait $!")
    host.wait_for_power("VM-01", "on")
    host.virsh("destroy", "VM-01")


def test_a_copy_of_a_domain_gets_no_adapter(host: SystemHost) -> None:
    host.machine.shell("sed 's/<name>VM-01</<name>copy</' /root/VM-01.pvrdma.xml >/root/copy.xml")
    host.virsh("define", "/root/copy.xml")
    refused = host.start_refused("copy")
    assert "pvrdmactl: the metadata of domain copy is that of VM VM-01: " in refused, refused


# --- A guest. ---

def test_a_guest_with_the_driver_obeys_virsh_shutdown(host: SystemHost) -> None:
    make_guest(host.machine)
    console = f"<serial type='file'><source path='{GUEST}/console'/></serial>"
    host.machine.shell(f"""sed "s#</os>#{boot_elements('VM-01')}</os>#; s#</devices>#{console}</devices>#" /root/VM-01.pvrdma.xml >/root/guest.xml""")
    host.virsh("undefine", "VM-01")
    host.virsh("define", "--validate", "/root/guest.xml")
    host.virsh("start", "VM-01")
    until("the guest's driver runs", lambda: host.ctl("adapter", "get", "VM-01")["state"], accept=lambda state: state == "active", guard_s=120)
    host.virsh("shutdown", "VM-01")
    until("the guest is off", lambda: host.virsh("domstate", "--reason", "VM-01").strip(), accept=lambda state: state == "shut off (shutdown)")
    host.wait_for_power("VM-01", "off")
