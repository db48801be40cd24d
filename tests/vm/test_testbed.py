"""The testbed itself, without adapters. All other VM tests depend on it."""

from __future__ import annotations

import gzip
import lzma
import re
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import cases
from harness.channel import Channel, GuestLost, GuestTimeout
from harness.cluster import Cluster, Setup
from harness.vm import GuestCommandFailed
from testbed import ensure, kernel_image


# The beginning of `uname -r` in each suite's guest. Debian's next release changes its kernel from time to time.
_KERNELS = {"trixie": r"6\.12\.", "bookworm": r"6\.1\.", "bullseye": r"5\.10\.", "forky": r"[7-9]\.\d+\."}


@pytest.fixture(scope="module", params=["trixie", *(pytest.param(suite, marks=pytest.mark.full)
                                                   for suite in ("bullseye", "bookworm", "forky"))])
def bare(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two VMs with only an Ethernet. The tests below restart the first one."""
    logs: Path = tmp_path_factory.mktemp("bare")
    with Cluster(Setup(suite=request.param), logs, with_adapters=False) as cluster:
        yield cluster


def _zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-c"], input=data, check=True, stdout=subprocess.PIPE).stdout


def _bz_image(pack: Callable[[bytes], bytes], kernel: bytes) -> bytes:
    """A kernel's image with two sectors of real-mode code after the boot sector, and some code before the packed kernel."""
    payload = pack(kernel) + struct.pack("<I", len(kernel))
    header = bytearray(3 * 512)
    header[0x1f1] = 2
    struct.pack_into("<II", header, 0x248, 100, len(payload))
    return bytes(header) + bytes(100) + payload + b"and what follows it"


_STARTS_UNPACKED = b"\x7fELF" + bytes(200) + struct.pack("<III4sQ", 4, 8, 18, b"Xen\0", 0x1000b20) + b"code"


@pytest.mark.parametrize(("pack", "kernel", "unpacked"), [
    pytest.param(lzma.compress, _STARTS_UNPACKED, True, id="xz"),
    pytest.param(_zstd, _STARTS_UNPACKED, True, id="zstd"),
    pytest.param(gzip.compress, _STARTS_UNPACKED, False, id="packed in another way"),
    pytest.param(lzma.compress, b"\x7fELF" + bytes(200), False, id="without an entry for QEMU"),
])
def test_a_kernel_is_unpacked_if_qemu_can_start_it(pack: Callable[[bytes], bytes], kernel: bytes, unpacked: bool) -> None:
    image = _bz_image(pack, kernel)
    assert kernel_image.unpacked(image) == (kernel if unpacked else image)


def test_vms_reach_each_other(bare: Cluster) -> None:
    first, second = bare.vms
    assert " 0% packet loss" in first.check(f"ping -c 3 -i 0.2 {second.address}")


def test_guest_has_the_stock_driver(bare: Cluster) -> None:
    assert "VMware Paravirtual RDMA driver" in bare.vms[0].check("modinfo vmw_pvrdma")


def test_guest_runs_its_suites_kernel(bare: Cluster) -> None:
    release = bare.vms[0].check("uname -r").strip()
    assert release == ensure(bare.setup.suite).kernel_release
    assert re.match(_KERNELS[bare.setup.suite], release)


def test_exit_code_and_output_come_back(bare: Cluster) -> None:
    result = bare.vms[0].run("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.output) == (7, "out\nerr\n")
    with pytest.raises(GuestCommandFailed, match="ended with 3"):
        bare.vms[0].check("exit 3")


def test_long_output_comes_back_whole(bare: Cluster) -> None:
    assert bare.vms[0].check("seq 100000") == "".join(f"{number}\n" for number in range(1, 100001))


def test_a_command_goes_to_the_qemu_that_is_left(tmp_path: Path) -> None:
    """Also when the other QEMU has ended only just now. Without a guest: the test plays both QEMUs."""
    channel = Channel(tmp_path / "channel")
    try:
        with _connected(tmp_path / "channel") as first, first.makefile("r") as commands:
            for number in range(1, 101):
                second = _connected(tmp_path / "channel")
                second.sendall(b"ready\n")
                assert channel.wait_for_boot(number, 20)  # so the channel has the second connection
                second.close()
                channel.submit("true")
                assert commands.readline()
    finally:
        channel.close()


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    connection.connect(str(path))
    return connection


def test_commands_run_at_once(bare: Cluster) -> None:
    jobs = [bare.vms[0].start_job(f"sleep 1; echo {number}") for number in range(8)]
    assert [job.wait(10).output for job in jobs] == [f"{number}\n" for number in range(8)]


def test_a_stuck_command_is_killed(bare: Cluster) -> None:
    with pytest.raises(GuestTimeout, match="working"):
        bare.vms[0].run("echo working; sleep 1000", timeout_s=1)
    assert "sleep 1000" not in bare.vms[0].check("ps")


def test_a_case_runs_on_both_vms(bare: Cluster) -> None:
    case = cases.Case("nc", server="nc -l -p 18515", client="echo hello | nc {server} 18515", expect_server=("^hello$",))
    cases.run(case, *bare.vms)
    with pytest.raises(AssertionError, match="nothing matches"):
        cases.run(cases.Case("nc", case.server, case.client, expect=("never",)), *bare.vms)


def test_a_failure_tells_of_both_sides(bare: Cluster) -> None:
    one_ends = cases.Case("nc", server="nc -l -p 18515; echo so sad; exit 3", client="echo | nc {server} 18515; exit 4")
    with pytest.raises(AssertionError, match="(?s)exit code 4; output:.*exit code 3; output:.*so sad"):
        cases.run(one_ends, *bare.vms)
    both_fail = cases.Case("nc", server=one_ends.server, client="echo | nc {server} 18515", expect=("never",))
    with pytest.raises(AssertionError, match="(?s)so sad.*nothing matches"):
        cases.run(both_fail, *bare.vms)
    one_waits = cases.Case("nc", server="echo waits; nc -l -p 18515; sleep 1000", client="exit 4")
    with pytest.raises(AssertionError, match="(?s)exit code 4; output:.*still ran after.*waits"):
        cases.run(one_waits, *bare.vms)


@pytest.mark.full
def test_reboot_power_off_and_kill(bare: Cluster) -> None:
    first, second = bare.vms
    sleeper = first.start_job("sleep 1000")
    first.reboot()
    with pytest.raises(GuestLost):
        sleeper.wait()
    first.power_off()
    assert not first.running
    first.start()
    first.wait_ready()
    first.kill()
    with pytest.raises(GuestLost):
        first.run("true")
    first.start()
    first.wait_ready()
    assert " 0% packet loss" in second.check(f"ping -c 2 -i 0.2 {first.address}")
