"""The testbed's guest for domains of libvirt: it loads the driver of its adapter, and obeys the power button."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from pathlib import Path

from machine import Machine
from testbed import debroot, ensure, initramfs
from testbed.recipes import ROOTS

GUEST = "/var/lib/guest"
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


def make_guest(machine: Machine) -> None:
    """Writes kernel and initrd into a folder of the machine."""
    machine.shell(f"install -d -o libvirt-qemu {GUEST}")
    folder = machine.seen_from_outside(GUEST)
    testbed = ensure()
    shutil.copy(testbed.kernel, folder / "kernel")
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


def boot_elements(name: str) -> str:
    """What a domain's <os> needs to boot it."""
    arguments = f"console=ttyS0 quiet no_timer_check tsc=reliable rdinit=/first pvrdma.name={name} pvrdma.ip=192.168.11.51/24"
    return f"<kernel>{GUEST}/kernel</kernel><initrd>{GUEST}/initrd</initrd><cmdline>{arguments}</cmdline>"
