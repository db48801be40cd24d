"""Files with checksums on storage that a guest can mount, to check that it returns the written data."""

from __future__ import annotations

from harness.vm import Vm

_WRITE = """set -e
mkdir -p /mnt
{mount} /mnt
cd /mnt
for i in 1 2 3 4 5 6; do dd if=/dev/urandom of=file$i bs=10007 count=$((i * 60)) 2>/dev/null; done
sha256sum file* > sums
cd /
umount /mnt
"""
_VERIFY = """set -e
{mount} /mnt
cd /mnt
sha256sum -c sums
cd /
umount /mnt
"""
_GUARD_S = 180


def ext4(disk: str) -> str:
    """The command that mounts a disk's file system, without the mount point."""
    return f"mount -t ext4 {disk}"


def make_ext4(host: Vm, disk: str) -> None:
    """Makes an empty file system on the disk."""
    host.check(f"mke2fs -q -t ext4 {disk}", _GUARD_S)


def write(host: Vm, mount: str) -> None:
    """Writes six files of 13 MB in total, and their checksums. `mount` gets the mount point as its last argument."""
    host.check(_WRITE.format(mount=mount), _GUARD_S)


def verify(host: Vm, mount: str) -> None:
    """Checks that the six files have the written data."""
    assert host.check(_VERIFY.format(mount=mount), _GUARD_S).count(": OK") == 6
