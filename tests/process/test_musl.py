"""Programs of musl: of an rdma-core that is built for musl from Debian's sources (tools/musl-rdma-core), and our own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import PVRDMA_RUN, STANDIN_OBJECTS, Machine, address_of, until
from test_programs import PINGPONGS, both_ways
from testbed import musl

_PROGRAMS = Path(__file__).parent / "programs"
_SHOW = "#include <stdio.h>\nint main(void) { char text[32]; puts(fgets(text, 32, fopen(\"%s\", \"r\"))); return 0; }\n"
_BECOME = "#include <unistd.h>\nint main(int count, char** words) { return count < 2 || execvp(words[1], words + 1); }\n"
_GUID = "/sys/class/infiniband/vmw_pvrdma0/node_guid"


class RdmaCore:
    """Programs for musl, where the programs' user can read them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self, line: str) -> list[str]:
        """The words of a command whose first word is one of the programs. libibverbs gets its provider from the environment."""
        program, *arguments = line.split()
        return ["env", f"RDMAV_DRIVERS={self._folder}/lib/libvmw_pvrdma", str(self._folder / "bin" / program), *arguments]


@pytest.fixture(scope="module", name="rdma_core")
def _rdma_core(shared_machine: Machine) -> Iterator[RdmaCore]:
    folder = shared_machine.folder / "musl"
    shutil.copytree(musl.ensure(), folder, symlinks=True)
    for name in ("stores", "loopback"):
        musl.compile_program(folder, _PROGRAMS / f"{name}.c", folder / "bin" / name)
    yield RdmaCore(folder)
    shutil.rmtree(folder)


@pytest.fixture(name="compiled")
def _compiled(shared_machine: Machine) -> Iterator[Path]:
    """A folder with two programs of musl: `show` prints the device's GUID, `become` executes its arguments."""
    folder = shared_machine.own_folder("plain-musl")
    for name, source in {"show": _SHOW % _GUID, "become": _BECOME}.items():
        (folder / f"{name}.c").write_text(source)
        subprocess.run(["musl-gcc", "-o", folder / name, folder / f"{name}.c"], check=True)
    yield folder
    shutil.rmtree(folder)


def test_processes_of_both_kinds(shared_machine: Machine, compiled: Path) -> None:
    """Each process finds the library of its own libc, whatever started it. Debian's sh and cat are of glibc."""
    show, become = str(compiled / "show"), str(compiled / "become")
    both = f"{show} && cat {_GUID}"
    runs = [shared_machine.run(*words) for words in ([show], ["sh", "-c", both], [become, "sh", "-c", both])]
    runs.append(shared_machine.run_plainly("sh", "-c", f'eval "$({PVRDMA_RUN} --env)" && {both}'))
    for done in runs:
        assert done.returncode == 0 and set(done.stdout.split()) == {"5054:00ff:fec1:0000"}, (done.args, done.stdout)


@pytest.mark.full
def test_devices(shared_machine: Machine, rdma_core: RdmaCore) -> None:
    listed = shared_machine.run(*rdma_core.command("ibv_devices"))
    assert listed.returncode == 0 and re.search(r"vmw_pvrdma0\s+505400fffec10000", listed.stdout), listed.stdout
    details = shared_machine.run(*rdma_core.command("ibv_devinfo -v"), node=1)
    assert details.returncode == 0, details.stdout
    for wanted in ("PORT_ACTIVE", "fe80::5054:ff:fec1:1, RoCE v2", "::ffff:10.99.0.2, RoCE v2"):
        assert wanted in details.stdout, details.stdout


@pytest.mark.full
@both_ways
@pytest.mark.parametrize("program", [*PINGPONGS, "ibv_ud_pingpong"])
def test_pingpong(shared_machine: Machine, rdma_core: RdmaCore, port: str, program: str, nodes: tuple[int, int]) -> None:
    server = rdma_core.command(f"{program} -g 0 -p {port} -n 200")
    outputs = shared_machine.pair(server, [*server, "127.0.0.1"], nodes)
    assert all("200 iters" in output for output in outputs), outputs


@pytest.mark.full
def test_pingpong_with_a_program_of_glibc(shared_machine: Machine, rdma_core: RdmaCore, port: str) -> None:
    line = f"ibv_rc_pingpong -e -g 0 -p {port} -n 200"
    outputs = shared_machine.pair(rdma_core.command(line), [*line.split(), "127.0.0.1"], (0, 1))
    assert all("200 iters" in output for output in outputs), outputs


@pytest.mark.full
@both_ways
def test_rping(shared_machine: Machine, rdma_core: RdmaCore, port: str, nodes: tuple[int, int]) -> None:
    server, client = (rdma_core.command(f"rping {flag} -v -C 10 -p {port} -a {address_of(nodes[0])}") for flag in ("-s", "-c"))
    outputs = shared_machine.connect(server, client, nodes)
    assert all(len(re.findall(r"ping data: rdma-ping-\d", output)) == 10 for output in outputs), outputs


@pytest.mark.full
@both_ways
def test_ucmatose(shared_machine: Machine, rdma_core: RdmaCore, port: str, nodes: tuple[int, int]) -> None:
    """The server is Debian's. With musl, rdma_getaddrinfo() finds no address to listen at: it needs a flag in getaddrinfo()'s answer
    that only glibc sets."""
    line = f"ucmatose -p {port} -c 5 -C 10 -S 1000"
    outputs = shared_machine.connect(line.split(), rdma_core.command(f"{line} -s {address_of(nodes[0])}"), nodes)
    assert all("return status 0" in output for output in outputs), outputs


@pytest.mark.full
@pytest.mark.parametrize("program", ["stores fork", "stores thread_stack", "stores threads", "stores threads_in_a_container", "loopback",
                                     "loopback memfd", "loopback anonymous"])
def test_memory(shared_machine: Machine, rdma_core: RdmaCore, program: str) -> None:
    """The heads of the programs say what they do."""
    done = shared_machine.run(*rdma_core.command(program))
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout
    until(lambda: shared_machine.ask("adapters/node0")["objects"] == STANDIN_OBJECTS, "the program's objects are gone")


@pytest.mark.full
def test_without_the_library(shared_machine: Machine, rdma_core: RdmaCore) -> None:
    """It sees what the machine has, whether pvrdma-run started it or not."""
    alone = shared_machine.run_plainly(*rdma_core.command("ibv_devices"))
    below = shared_machine.run("env", "-u", "LD_PRELOAD", *rdma_core.command("ibv_devices"))
    assert "vmw_pvrdma0" not in alone.stdout and alone.stdout == below.stdout, (alone.stdout, below.stdout)
