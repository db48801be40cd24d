"""NVMe over Fabrics between two guests (overlay "nvme"): a RAM disk of one, exported by nvmet-rdma, used by the other."""

from __future__ import annotations

from harness import files
from harness.vm import Job, Vm

SUBSYSTEM = "pvrdma"
DISK = "/dev/nvme0n1"
_PORT = "/sys/kernel/config/nvmet/ports/1"
EXPORT = f"ln -s /sys/kernel/config/nvmet/subsystems/{SUBSYSTEM} {_PORT}/subsystems/{SUBSYSTEM}"
WITHDRAW = f"rm {_PORT}/subsystems/{SUBSYSTEM}"
_TARGET = """set -e
modprobe brd rd_nr=1 rd_size=98304
modprobe nvmet-rdma
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/{subsystem} ports/1
echo 1 > subsystems/{subsystem}/attr_allow_any_host
mkdir subsystems/{subsystem}/namespaces/1
echo /dev/ram0 > subsystems/{subsystem}/namespaces/1/device_path
echo 1 > subsystems/{subsystem}/namespaces/1/enable
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo {address} > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
{export}
"""

_FILES = f"""
rm -f /tmp/enough /tmp/runs; modprobe -a ext4; mke2fs -q -t ext4 {DISK} && mkdir -p /mnt/moved && mount {DISK} /mnt/moved || exit 8
i=0
until [ -e /tmp/enough ]; do
  i=$((i + 1))
  dd if=/dev/urandom of=/tmp/wanted bs=1M count=4 2>/dev/null
  cp /tmp/wanted /mnt/moved/file$((i % 4)) && sync || exit 7
  echo 3 > /proc/sys/vm/drop_caches
  cmp /tmp/wanted /mnt/moved/file$((i % 4)) || exit 6
  touch /tmp/runs
done
umount /mnt/moved && echo all $i files are what was written
"""
_FILES_GUARD_S = 240.0


def export_disk(target: Vm) -> None:
    """Makes the RAM disk and the target."""
    target.check(_TARGET.format(subsystem=SUBSYSTEM, address=target.address, export=EXPORT))


def load_host(host: Vm) -> None:
    """Loads the initiator's modules."""
    host.check("modprobe -a nvme-rdma ext4")


def connect(host: Vm, target: Vm) -> None:
    """Connects and waits for the disk."""
    host.check(f"nvme connect -t rdma -a {target.address} -s 4420 -n {SUBSYSTEM} --reconnect-delay=1 "
               f"--hostnqn=nqn.2014-08.org.nvmexpress:{host.name}", 60)
    host.check(f"n=0; until [ -b {DISK} ]; do n=$((n + 1)); [ $n -lt 200 ] || {{ dmesg | tail; exit 1; }}; sleep 0.1; "
               "done", 60)


def disconnect(host: Vm) -> None:
    """Disconnects and waits until the disk is gone."""
    assert "disconnected 1 controller" in host.check(f"nvme disconnect -n {SUBSYSTEM}", 60)


def write_files(host: Vm) -> None:
    """Makes a file system on the disk, with six files and their checksums."""
    files.make_ext4(host, DISK)
    files.write(host, files.ext4(DISK))


def verify_files(host: Vm) -> None:
    """Checks that the six files have the written data."""
    files.verify(host, files.ext4(DISK))


def start_files(host: Vm) -> Job:
    """Writes files to the disk and reads them back until end_files()."""
    job = host.start_job(_FILES)
    host.check("until [ -e /tmp/runs ]; do sleep 0.1; done", 60)
    return job


def end_files(host: Vm, job: Job) -> None:
    """Ends start_files() and checks that each file had the written data."""
    host.check("touch /tmp/enough")
    result = job.wait(_FILES_GUARD_S)
    print(result.output)
    assert result.exit_code == 0 and "files are what was written" in result.output, result.output
