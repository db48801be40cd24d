"""A Debian host in a VM, with the release's own kernel, which has what the kernel of a machine in namespaces may lack."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from packages import roots
from testbed import ensure

_GUARD_S = 900
_DISK_BYTES = 6 << 30
_RUN = "systemd.run='/bin/sh -c \"mkdir /run/input; mount /dev/vdb /run/input; exec sh -ex /run/input/script >/dev/ttyS1 2>&1\"'"


def run_booted(suite: str, dependencies: str, script: str, files: tuple[Path, ...], backports: tuple[str, ...] = (),
               devices: tuple[str, ...] = ()) -> str:
    """What `script` prints, its commands too. It runs as root, with the files in /run/input, and the host is then switched off.

    `devices` are QEMU's arguments for further devices. QEMU shares the host's memory, as adapters need.
    """
    root = roots.to_boot(suite, dependencies, backports)
    (kernel,), (ramdisk,) = (root / "boot").glob("vmlinuz-*"), (root / "boot").glob("initrd.img-*")
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        folder = Path(name)
        (folder / "input").mkdir()
        (folder / "input/script").write_text(script, encoding="utf-8")
        for file in files:
            shutil.copy(file, folder / "input")
        for disk, content in (("vda", root), ("vdb", folder / "input")):
            with open(folder / disk, "wb") as image:
                image.truncate(_DISK_BYTES)
            subprocess.run(["/sbin/mkfs.ext4", "-q", "-d", str(content), str(folder / disk)], check=True)
        testbed = ensure()
        done = subprocess.run(
            [*testbed.qemu(), "-machine", "q35,memory-backend=ram", "-object", "memory-backend-memfd,share=on,id=ram,size=3072M",
             "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "3072", "-nodefaults", "-display", "none", "-no-reboot",
             "-kernel", str(kernel), "-initrd", str(ramdisk), "-append", f"console=ttyS0 root=/dev/vda rw {_RUN}",
             "-drive", f"file={folder}/vda,format=raw,if=virtio,cache=unsafe", "-drive", f"file={folder}/vdb,format=raw,if=virtio",
             "-serial", f"file:{folder}/console", "-serial", f"file:{folder}/output",
             *devices],
            env=testbed.qemu_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=_GUARD_S, check=False)
        assert done.returncode == 0, done.stdout
        output = (folder / "output").read_text(encoding="utf-8", errors="replace")
        assert output, (folder / "console").read_text(encoding="utf-8", errors="replace")[-4000:]
    return output
