"""Runs a script in a clean root, as root of it and without network. What it changes goes into a folder of the caller."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from testbed import cache

# Arguments: the root, a folder with the changes to it, a compiler cache, the script. The namespaces end with it.
_ENTER = r"""
set -eu
mkdir "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
mount -t proc proc "$2/root/proc"
mkdir -p "$2/root/ccache"
mount --bind "$3" "$2/root/ccache"
exec chroot "$2/root" env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 CCACHE_DIR=/ccache sh -euc "$4"
"""


def run(root: Path, scratch: Path, script: str, log: Path) -> None:
    """Runs `script` with `scratch`/upper over `root`; `scratch` has nothing else. RuntimeError with the end of `log` if the
    script fails."""
    compiled = Path(os.environ.get("CCACHE_DIR") or cache.folder().parent / "ccache")
    compiled.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        done = subprocess.run(["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh",
                               str(root), str(scratch), str(compiled), script], stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
        raise RuntimeError(f"a step failed; the end of {log}:\n" + "\n".join(tail))
