"""iSCSI extensions for RDMA (overlays "nvme" and "array"): a RAM disk of one guest, exported by ib_isert, used by the other."""

from __future__ import annotations

from harness.vm import Vm

DISK = "/dev/sda"
_NAME = "iqn.2026-11.test.pvrdma:array"
_TARGET = """set -e
modprobe ib_isert
mount -t configfs configfs /sys/kernel/config 2>/dev/null || :
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk
echo rd_pages={pages} > core/rd_mcp_0/disk/control
echo 1 > core/rd_mcp_0/disk/enable
mkdir -p iscsi/{name}/tpgt_1/np/{address}:3260 iscsi/{name}/tpgt_1/lun/lun_0
cd iscsi/{name}/tpgt_1
echo 1 > np/{address}:3260/iser
ln -s /sys/kernel/config/target/core/rd_mcp_0/disk lun/lun_0/disk
echo 0 > attrib/authentication
echo 1 > attrib/generate_node_acls
echo 0 > attrib/demo_mode_write_protect
echo 1 > enable
"""
_HOST = """set -e
modprobe -a ib_iser sd_mod ext4
mkdir -p /etc/iscsi /run/lock /var/lib/iscsi
echo InitiatorName=iqn.2026-11.test.pvrdma:host > /etc/iscsi/initiatorname.iscsi
iscsid
iscsiadm -m node -T {name} -p {address}:3260,1 -I iser -o new
"""
_SIZE_PAGES = 24576


def export_disk(target: Vm) -> None:
    """Makes the RAM disk and the target."""
    target.check(_TARGET.format(name=_NAME, address=target.address, pages=_SIZE_PAGES))


def load_host(host: Vm, target: Vm) -> None:
    """Loads the modules of the initiator and configures the target there."""
    host.check(_HOST.format(name=_NAME, address=target.address))


def connect(host: Vm, target: Vm) -> None:
    """Connects and waits for the disk."""
    host.check(f"iscsiadm -m node -T {_NAME} -p {target.address} --login", 60)
    host.check(f"n=0; until [ -b {DISK} ]; do n=$((n + 1)); [ $n -lt 200 ] || {{ dmesg | tail; exit 1; }}; sleep 0.1; "
               "done", 60)


def disconnect(host: Vm) -> None:
    """Disconnects and waits until the disk is gone."""
    host.check(f"iscsiadm -m node -T {_NAME} --logout", 60)
