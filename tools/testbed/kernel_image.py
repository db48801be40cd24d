"""Unpacks a kernel's image. An emulated guest needs two seconds of its boot for that, and every boot of every test would pay them."""

from __future__ import annotations

import lzma
import struct
import subprocess

# https://docs.kernel.org/arch/x86/boot.html: the size of the real-mode part in sectors, with one more for the boot sector; from
# its end, offset and length of the compressed kernel, with the kernel's size in the last four bytes.
_SECTOR_BYTES = 512
_SETUP_SECTORS_AT = 0x1f1
_PAYLOAD_AT = 0x248
_SIZE_BYTES = 4
_XZ = b"\xfd7zXZ\0"
_ZSTD = b"\x28\xb5\x2f\xfd"
# The ELF note with the entry point through which QEMU starts an unpacked kernel (PVH): name and data have 4 and 8 bytes, type 18.
_PVH_NOTE = struct.pack("<III4s", 4, 8, 18, b"Xen\0")


def unpacked(image: bytes) -> bytes:
    """The kernel in `image` (a bzImage) as an ELF file for QEMU's -kernel; `image` itself if it cannot be started that way."""
    start = (image[_SETUP_SECTORS_AT] + 1) * _SECTOR_BYTES
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    payload = image[start + offset:start + offset + length]
    if payload.startswith(_XZ):
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(_ZSTD):
        kernel = subprocess.run(["zstd", "-dc"], input=payload[:-_SIZE_BYTES], check=True, stdout=subprocess.PIPE).stdout
    else:
        return image
    return kernel if _PVH_NOTE in kernel else image
