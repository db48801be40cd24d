"""A host whose kernel enforces AppArmor, with Debian's libvirt, QEMU and virt-install: the lines of docs/howto/virt-install.md.

libvirt confines QEMU by a profile of its own, which includes the package's rules, and pvrdmad runs under the package's profile.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from booted import run_booted
from host import PACKAGES, SUITES, field

_PAGE = Path(__file__).resolve().parents[2] / "docs/howto/virt-install.md"
_DEPENDS = "apparmor, apparmor-utils, libvirt-daemon-system, libvirt-clients, virtinst, qemu-system-x86, qemu-utils, iproute2"
_BACKPORTS = ("qemu-*", "seabios", "ipxe-qemu")
_SCRIPT = r"""
grep -q Y /sys/module/apparmor/parameters/enabled
cd /root
apt-get install --yes /run/input/pvrdma_*.deb >/dev/null
aa-enforce /etc/apparmor.d/usr.sbin.pvrdmad
printf '[host]\nname = "esx-01"\n' >/etc/pvrdma/pvrdmad.toml
systemctl start pvrdmad
echo "daemon: $(cat /proc/$(pidof pvrdmad)/attr/current)"
pvrdmactl dvs create DSwitch --uplinks 2
pvrdmactl dvs portgroup add DSwitch pg1
pvrdmactl dvs add-host DSwitch self
systemctl start libvirtd
ip link add br0 type bridge
ip link set br0 up
qemu-img create -q -f qcow2 vm-01.qcow2 64M
mv vm-01.qcow2 /var/lib/libvirt/images/
{lines}
until pvrdmactl --json adapter get VM-01 | grep -q '"state": *"detached"'; do sleep 0.5; done
echo "qemu: $(cat /proc/$(pidof qemu-system-x86_64)/attr/current)"
pvrdmactl doctor | grep '^ok .*NIC VM-01: '
systemctl restart pvrdmad
until pvrdmactl --json adapter get VM-01 | grep -q '"state": *"detached"'; do sleep 0.5; done
virsh -c qemu:///system destroy VM-01
echo "denied: $(journalctl --dmesg | grep 'apparmor="DENIED"')"
cp /etc/pvrdma/pvrdmad.toml /srv
pvrdmad --config /srv/pvrdmad.toml --check || true
echo "in earnest: $(journalctl --dmesg | grep 'apparmor="DENIED".*/srv/pvrdmad.toml')"
echo done
"""


@pytest.mark.skipif("trixie" not in SUITES, reason="make deb has built no packages of trixie")
def test_a_vm_of_virt_install_runs_where_apparmor_is_enforced() -> None:
    package = next((PACKAGES / "trixie").glob("pvrdma_*.deb"))
    lines = "".join(re.findall(r"^ *```sh\n(.*?)^ *```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    printed = run_booted("trixie", f"{field(package, 'Depends')}, {_DEPENDS}", _SCRIPT.replace("{lines}", lines), (package,), _BACKPORTS)
    said = dict(re.findall(r"^(daemon|qemu|denied|in earnest): (.*)$", printed, re.MULTILINE))
    assert printed.endswith("done\n") and said["daemon"] == "pvrdmad (enforce)", printed
    assert re.fullmatch(r"libvirt-[0-9a-f-]{36} \(enforce\)", said["qemu"]), printed
    assert said["denied"] == "", "neither the daemon nor QEMU misses a right"
    assert 'profile="pvrdmad" name="/srv/pvrdmad.toml"' in said["in earnest"], printed
