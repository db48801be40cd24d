"""A guest's whole memory, as the host sees it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_PAGE_BYTES = 4096
_CHUNK_BYTES = 1 << 20


def memory_of(pid: int, mib: int) -> mmap.mmap:
    """The memory of the QEMU with that process id, which is in a memfd."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(entry).startswith("/memfd:") and entry.stat().st_size == mib << 20:
            with open(entry, "rb") as file:
                return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    raise AssertionError(f"QEMU {pid} has no memory of {mib} MiB in a memfd")


def differing_pages(one: mmap.mmap, other: mmap.mmap) -> list[int]:
    """The numbers of the pages that differ."""
    assert len(one) == len(other)
    pages = []
    for chunk in range(0, len(one), _CHUNK_BYTES):
        if one[chunk:chunk + _CHUNK_BYTES] == other[chunk:chunk + _CHUNK_BYTES]:
            continue
        pages += [at // _PAGE_BYTES for at in range(chunk, chunk + _CHUNK_BYTES, _PAGE_BYTES)
                  if one[at:at + _PAGE_BYTES] != other[at:at + _PAGE_BYTES]]
    return pages
