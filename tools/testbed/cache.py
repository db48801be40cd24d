"""A folder of finished artifacts, each named by the hash of its inputs.

An artifact is a folder that appears under its final name only when it is complete; builders of the same artifact in other
processes wait for each other. When a new artifact is made, those that no run has used for a week are removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


_KEEP_UNUSED_S = 7 * 24 * 3600


def folder() -> Path:
    """PVRDMA_CACHE, or pvrdma/ in the user's cache folder."""
    explicit = os.environ.get("PVRDMA_CACHE")
    if explicit:
        return Path(explicit).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "pvrdma"


def key_of(*parts: str | bytes | Path) -> str:
    """A short hash over texts and over the contents of files."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


def ensure(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder `name-key`. If it does not exist, `make(temporary folder)` fills it."""
    final = folder() / f"{name}-{key}"
    if final.is_dir():
        os.utime(final)
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with open(final.parent / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.is_dir():
            return final
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=final.parent))
        try:
            make(temporary)
            temporary.chmod(0o755)
            os.utime(temporary)
            temporary.rename(final)
        except BaseException:
            remove_tree(temporary)
            raise
        _remove_unused(final.parent)
    return final


def _remove_unused(parent: Path) -> None:
    for artifact in parent.iterdir():
        if artifact.is_dir() and time.time() - artifact.stat().st_mtime > _KEEP_UNUSED_S:
            remove_tree(artifact)


def remove_tree(path: Path) -> None:
    """Removes a folder, also one with read-only folders inside."""
    subprocess.run(["chmod", "-R", "u+w", str(path)], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(path, ignore_errors=True)
