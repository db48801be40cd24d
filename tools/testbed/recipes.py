"""The parts of the testbed: packages, guest programs and guest modules. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compiled:
    """A program of tests/vm/programs/NAME.c, compiled by the root's gcc with `flags` at the end."""

    name: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overlay:
    """A set of guest files: programs and libraries by path in the root, modules by name or alias (dependencies follow)."""

    name: str
    programs: tuple[str, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    files: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class RootRecipe:
    """One Debian root. `backports` names the packages taken from SUITE-backports.

    Packages in `alone` are unpacked without their dependencies. List the needed ones explicitly.
    """

    suite: str
    packages: tuple[str, ...]
    backports: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    overlays: tuple[Overlay, ...] = ()


_QEMU = ("qemu-system-x86",)
# The tests' libvirt. Debian 12's cannot migrate this QEMU, because it uses the option "detach", which QEMU no longer
# has.
_LIBVIRT = ("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
_GUEST_PACKAGES = (
    "busybox-static",
    "e2fsprogs",
    "ibverbs-providers",
    "ibverbs-utils",
    "infiniband-diags",
    "iproute2",
    "nvme-cli",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
)
# Programs for disks and file systems over RDMA: iSER's initiator, NFS's server.
_ARRAY_PACKAGES = ("nfs-kernel-server", "open-iscsi")
# The kernel, and the packages for compiling out-of-tree modules. Debian disables CONFIG_INFINIBAND_VMWARE_PVRDMA and
# CONFIG_RDMA_SIW, so these drivers are compiled, unmodified, from Debian's kernel source.
_KERNEL_PACKAGES = ("?essential", "gcc", "linux-headers-amd64", "linux-image-amd64", "linux-source", "make", "mawk", "tar",
                    "xz-utils")

# The headers that the programs of tests/vm/programs include.
_PROGRAM_PACKAGES = ("libc6-dev", "libibverbs-dev")
# libucx0 depends on AMD's GPU libraries, for plugins that no test loads, and these depend on a whole LLVM.
_MPI_PACKAGES = (
    "libevent-core-2.1-7t64",
    "libevent-pthreads-2.1-7t64",
    "libfabric1",
    "libhwloc15",
    "libmunge2",
    "libopenmpi-dev",
    "libopenmpi40",
    "libpmix2t64",
    "libpsm2-2",
    "libucx0",
    "openmpi-bin",
    "openmpi-common",
)

_PERFTEST = tuple(f"/usr/bin/ib_{verb}_{kind}" for verb in ("atomic", "read", "send", "write") for kind in ("bw", "lat"))
_PINGPONG = tuple(f"/usr/bin/ibv_{kind}_pingpong" for kind in ("rc", "srq", "ud"))

BASE = Overlay(
    name="base",
    programs=(
        "/usr/bin/busybox",
        "/usr/bin/base64",  # Debian 11's busybox has none
        "/usr/bin/dash",  # busybox's own shell would prefer its applets to the programs below
        "/usr/bin/cmtime",
        "/usr/bin/flock",
        "/usr/bin/ip",
        "/usr/bin/rdma",
        "/usr/bin/ibv_asyncwatch",
        "/usr/bin/ibv_devices",
        "/usr/bin/ibv_devinfo",
        "/usr/bin/rdma_client",
        "/usr/bin/rdma_server",
        "/usr/bin/rping",
        "/usr/bin/rstream",
        "/usr/bin/riostream",
        "/usr/bin/ucmatose",
        "/usr/bin/udaddy",
        "/usr/bin/udpong",
        "/usr/bin/mckey",
        "/usr/sbin/ibstat",
        *_PERFTEST,
        *_PINGPONG,
    ),
    compiled=tuple(Compiled(name, flags=("-libverbs",)) for name in ("bad_requests", "exactly_once")),
    # Files opened at run time, which no program names as a library: rdma-core's providers, rsocket's preload library,
    # and the library with which pthread_exit unwinds.
    files=(
        "/etc/libibverbs.d",
        "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
        "/usr/lib/x86_64-linux-gnu/libibverbs",
        "/usr/lib/x86_64-linux-gnu/rsocket",
    ),
    modules=(
        "virtio_pci",
        "virtio_console",
        "vmxnet3",
        "ib_uverbs",
        "rdma_ucm",
        "ib_umad",
        "vmw_pvrdma",
        "crypto-crc32c",  # for ext4 and SoftiWARP
    ),
)
NVME = Overlay(
    name="nvme",
    programs=("/usr/sbin/nvme", "/usr/sbin/mke2fs"),
    files=("/etc/mke2fs.conf",),
    modules=("nvme-rdma", "nvmet-rdma", "brd", "ext4"),
)
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
MPI = Overlay(
    name="mpi",
    programs=("/usr/bin/mpirun.openmpi", "/usr/bin/prterun", "/usr/bin/prted"),
    compiled=(Compiled("mpi_ring", flags=(f"-I{_LIBRARIES}/openmpi/include", f"-L{_LIBRARIES}/openmpi/lib", "-lmpi")),),
    files=(
        "/etc/openmpi",
        f"{_LIBRARIES}/pmix2/lib/pmix",
        f"{_LIBRARIES}/pmix2/share",
        f"{_LIBRARIES}/ucx/libuct_ib.so.0",
        "/usr/share/openmpi",
        "/usr/share/prte",
    ),
)
SOFT_ROCE = Overlay(name="rxe", modules=("rdma_rxe", "crypto-crc32", "virtio_net"))
SOFT_IWARP = Overlay(name="siw", modules=("siw",))
VIRTIO_MEM = Overlay(name="virtio-mem", modules=("virtio_mem",))

# Used with "nvme": an array's other exports, and their clients.
ARRAY = Overlay(
    name="array",
    programs=(
        "/usr/sbin/iscsid",
        "/usr/bin/iscsiadm",
        "/usr/sbin/exportfs",
        "/usr/sbin/mount.nfs",
        "/usr/sbin/rpc.mountd",
        "/usr/sbin/rpc.nfsd",
    ),
    files=("/etc/iscsi/iscsid.conf", "/etc/netconfig"),
    modules=("ib_iser", "ib_isert", "sd_mod", "nfsd", "nfsv4", "rpcrdma"),
)

# The first root also contains QEMU: Debian 12's has no vfio-user-pci, but that of Debian 13's backports has.
ROOTS = (
    RootRecipe(
        suite="trixie",
        packages=(*_QEMU, *_LIBVIRT, *_GUEST_PACKAGES, *_ARRAY_PACKAGES, *_KERNEL_PACKAGES, *_PROGRAM_PACKAGES),
        backports=("qemu-*", "seabios", "ipxe-qemu"),
        alone=_MPI_PACKAGES,
        overlays=(BASE, NVME, SOFT_ROCE, SOFT_IWARP, VIRTIO_MEM, MPI, ARRAY),
    ),
    RootRecipe(
        suite="bookworm",
        packages=(*_GUEST_PACKAGES, *_ARRAY_PACKAGES, *_KERNEL_PACKAGES, *_PROGRAM_PACKAGES),
        overlays=(BASE, NVME, SOFT_ROCE, ARRAY),
    ),
    RootRecipe(
        suite="bullseye",
        packages=(*_GUEST_PACKAGES, *_KERNEL_PACKAGES, *_PROGRAM_PACKAGES),
        overlays=(BASE, NVME, SOFT_ROCE),
    ),
    # Debian's next release, with the kernel and rdma-core that the archive has when the root is built.
    RootRecipe(
        suite="forky",
        packages=(*_GUEST_PACKAGES, *_KERNEL_PACKAGES, *_PROGRAM_PACKAGES),
        overlays=(BASE, NVME, SOFT_ROCE),
    ),
)


def root_of_suite(suite: str) -> RootRecipe:
    """The recipe of a Debian suite ("trixie"). ValueError with the known suites otherwise."""
    for recipe in ROOTS:
        if recipe.suite == suite:
            return recipe
    raise ValueError(f"no guest is of the Debian suite '{suite}'; known suites: {', '.join(r.suite for r in ROOTS)}")
