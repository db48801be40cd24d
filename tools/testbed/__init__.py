"""The testbed: a Debian root to run QEMU from, and guest images with the stock drivers and RDMA programs.

Everything is built from Debian packages, once, into a cache outside the source tree; `ensure()` returns at once, and
without network, when the cache already has what the recipes ask for.
"""

from testbed.build import Testbed, ensure

__all__ = ["Testbed", "ensure"]
