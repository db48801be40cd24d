"""rdma-core for musl, which Debian does not have: libraries, the device's provider and programs, built from Debian's sources.

The sources are the upstream tarballs of Debian's archive. They are taken from the same suite on every machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from testbed import apt, cache
from testbed.progress import step
from testbed.recipes import ROOTS

_SUITE = ROOTS[0].suite
_MUSL_GCC = Path("/usr/bin/musl-gcc")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PROGRAMS = ("ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong", "rping", "ucmatose")
_OPTIONS = {
    "CMAKE_C_COMPILER": "musl-gcc", "CMAKE_BUILD_TYPE": "RelWithDebInfo", "CMAKE_SKIP_RPATH": "1",
    "CMAKE_DISABLE_FIND_PACKAGE_UDev": "1", "CMAKE_DISABLE_FIND_PACKAGE_Systemd": "1", "ENABLE_VALGRIND": "0", "NO_MAN_PAGES": "1",
    "NO_PYVERBS": "1"}


def ensure() -> Path:
    """The folder with bin, lib and include. It may be copied anywhere. libibverbs takes its providers from the environment:
    RDMAV_DRIVERS=FOLDER/lib/libvmw_pvrdma."""
    return cache.ensure("musl-rdma-core", cache.key_of(_SUITE, _MUSL_GCC, Path(__file__)), _build)


def compile_program(root: Path, source: Path, program: Path) -> None:
    """Compiles a C program of libibverbs for musl. It must be in a folder beside the `lib` of `root`, or of a copy."""
    subprocess.run([_MUSL_GCC, "-O1", "-g", "-idirafter", root / "include", "-o", program, source, "-L", root / "lib", "-libverbs",
                    "-Wl,-rpath,$ORIGIN/../lib", f"-Wl,-rpath-link,{root / 'lib'}"], check=True)


def main() -> int:
    """The command line of tools/musl-rdma-core."""
    try:
        print(f"musl-rdma-core: {ensure()}")
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        print(f"musl-rdma-core: {error}", file=sys.stderr)
        return 1
    return 0


def _build(out: Path) -> None:
    if not _MUSL_GCC.exists():
        raise RuntimeError("musl-gcc is missing: tools/setup --full installs it")
    log_path = cache.folder() / "musl-rdma-core.log"
    with tempfile.TemporaryDirectory(prefix="pvrdma-musl-") as scratch, open(log_path, "w", encoding="utf-8") as log:
        try:
            _Work(Path(scratch), out, log.fileno()).build()
        except subprocess.CalledProcessError as error:
            tail = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-25:]
            raise RuntimeError(f"{error}; the end of {log_path}:\n" + "\n".join(tail)) from error


class _Work:
    """One build, in a folder of its own."""

    def __init__(self, folder: Path, out: Path, log: int) -> None:
        self._folder = folder
        self._out = out
        self._log = log
        self._jobs = f"-j{os.cpu_count() or 1}"
        # musl's compiler sees none of the system's headers, also not those of the kernel.
        self._headers = out / "include"
        self._compiler = f"musl-gcc -idirafter {self._headers}"

    def build(self) -> None:
        with step(f"rdma-core for musl, from the sources of Debian {_SUITE}: download"):
            self._update_index()
            libnl, rdma_core = self._unpack("libnl3"), self._unpack("rdma-core")
        with step("rdma-core for musl: compile"):
            self._link_kernel_headers()
            self._build_libnl(libnl)
            self._build_rdma_core(rdma_core)

    def _run(self, *command: str | Path, **environment: str) -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                       env=os.environ | environment)

    def _apt(self) -> list[str]:
        """apt-get with an index of sources of its own."""
        state = self._folder / "apt"
        return ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={state}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
                "-o", f"Dir::State::Lists={state}/lists", "-o", f"Dir::Cache={state}", "-o", "APT::Sandbox::User=",
                "-o", "Acquire::Retries=3"]

    def _update_index(self) -> None:
        (self._folder / "apt/lists/partial").mkdir(parents=True)
        source = f"deb-src [signed-by={_KEYRING}] {apt.mirror()} {_SUITE} main\n"
        (self._folder / "apt/sources.list").write_text(source, encoding="utf-8")
        self._run(*self._apt(), "update")

    def _unpack(self, package: str) -> Path:
        """The folder of a package's upstream source."""
        uris = subprocess.run([*self._apt(), "source", "--print-uris", "--only-source", package], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=self._log, cwd=self._folder).stdout
        uri, name, _, digest = next(line.split() for line in uris.splitlines() if ".orig.tar" in line and ".asc" not in line)
        tarball, folder = self._folder / name, self._folder / package
        self._run("/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=3", "download-file", uri.strip("'"),
                  tarball, digest)
        folder.mkdir()
        self._run("tar", "-xf", tarball, "-C", folder, "--strip-components=1")
        return folder

    def _link_kernel_headers(self) -> None:
        self._headers.mkdir()
        for name, target in {"linux": "linux", "asm-generic": "asm-generic", "asm": f"{os.uname().machine}-linux-gnu/asm"}.items():
            (self._headers / name).symlink_to(f"/usr/include/{target}")

    def _build_libnl(self, source: Path) -> None:
        self._run("env", "-C", source, "./configure", f"--host={os.uname().machine}-linux-musl", f"--prefix={self._folder}/nl",
                  "--disable-cli", "--disable-static", "--disable-debug", CC=self._compiler)
        # The libraries must not look for each other in this build's folder.
        self._run("sed", "-i", "s/^hardcode_libdir_flag_spec=.*/hardcode_libdir_flag_spec=/", source / "libtool")
        self._run("make", "-C", source, self._jobs, "install")

    def _build_rdma_core(self, source: Path) -> None:
        build = self._folder / "build"
        link = f"-Wl,-rpath,'$ORIGIN/../lib' -Wl,-rpath-link,{self._folder}/nl/lib"
        options = _OPTIONS | {"CMAKE_C_FLAGS": f"-idirafter {self._headers}"}
        options |= {f"CMAKE_{kind}_LINKER_FLAGS": link for kind in ("EXE", "SHARED", "MODULE")}
        self._run("cmake", "-S", source, "-B", build, "-G", "Ninja", *(f"-D{name}={value}" for name, value in options.items()),
                  PKG_CONFIG_LIBDIR=f"{self._folder}/nl/lib/pkgconfig")
        self._run("ninja", "-C", build, self._jobs, "providers/vmw_pvrdma/all", *_PROGRAMS)
        (self._out / "bin").mkdir()
        for program in _PROGRAMS:
            shutil.copy(build / "bin" / program, self._out / "bin")
        (self._out / "lib").mkdir()
        for folder, names in ((build, ("libibverbs.so*", "librdmacm.so*", "libvmw_pvrdma-*.so")),
                              (self._folder / "nl", ("libnl-3.so.*", "libnl-route-3.so.*"))):
            for library in (each for name in names for each in folder.glob(f"lib/{name}")):
                shutil.copy(library, self._out / "lib", follow_symlinks=False)
        shutil.copytree(build / "include/infiniband", self._headers / "infiniband")
        shutil.copytree(source / "kernel-headers/rdma", self._headers / "rdma")
