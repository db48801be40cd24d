"""The testbed: a Debian root to run QEMU from, and guest images with the stock drivers and RDMA programs.

Everything is built once from Debian packages, into a cache outside the source tree. `ensure()` returns at once and without
network if the cache already has everything in the recipes.
"""

from testbed.build import Testbed, ensure

__all__ = ["Testbed", "ensure"]
