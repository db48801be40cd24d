"""pvrdmactl doctor and a reload: a real daemon with a mistake that an operator makes, and the line that names it.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_doctor.py
"""

from __future__ import annotations

import ctypes
import json
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import as_unit
from test_cli import GUARD_S, PVRDMACTL, Daemon, adapter, run, running_daemon
from traffic import until

GOOD_QEMU = "#!/bin/sh\n[ \"$1\" != --version ] || echo QEMU emulator version 10.1.0\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def qemu(folder: Path, text: str = GOOD_QEMU) -> str:
    """A program that says what QEMU would say."""
    program = folder / "qemu"
    program.write_text(text, encoding="ascii")
    program.chmod(0o755)
    return str(program)


def examine(daemon: Daemon, program: str | None = None) -> tuple[int, list[str]]:
    """The exit code and the lines of `pvrdmactl doctor`."""
    done = daemon.ctl("doctor", "--qemu", program or qemu(daemon.folder))
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def troubles(daemon: Daemon, program: str | None = None) -> list[str]:
    """The lines of trouble, without that of the clock, which depends on this machine. Without any the exit code is 0."""
    code, lines = examine(daemon, program)
    found = [line for line in lines if line.startswith("TROUBLE")]
    assert code == (1 if found else 0)
    return [line for line in found if not line.startswith("TROUBLE  clock: ")]


def issue(folder: Path, days: int) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that its own key signed, and the key."""
    certificate, key = folder / "api.crt", folder / "api.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", str(days), "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def api_over_tls(folder: Path, days: int) -> tuple[str, int]:
    """[api] with a new certificate, and its port."""
    certificate, key = issue(folder, days)
    token = folder / "token"
    token.write_text("0123456789abcdef\n", encoding="ascii")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return (f'[api]\nlisten = "127.0.0.1:{port}"\ncertificate = "{certificate}"\nkey = "{key}"\ntoken_file = "{token}"\n',
            port)


def member(folder: Path) -> str:
    """The configuration of a cluster's only host."""
    return f'[host]\nname = "esx-01"\nsocket_folder = "{folder}"\n[store]\npath = "{folder}/store.db"\n'


@contextmanager
def vmm(path: Path) -> Iterator[None]:
    """A VMM without a guest at an adapter's socket: it only agrees on the version."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        wish = b'{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}\0'
        client.sendall(struct.pack("<HHIII", 1, 1, 16 + 4 + len(wish), 0, 0) + struct.pack("<HH", 0, 0) + wish)
        client.settimeout(GUARD_S)
        assert client.recv(16)
        yield


def test_all_is_well(folder: Path) -> None:
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        code, lines = examine(daemon)
        assert code == 0
        for line in ("QEMU", "daemon", "open files", "shards", "doorbells", "MACs", "adapter VM-01"):
            assert any(each.startswith(f"ok       {line}: ") for each in lines), (line, lines)
        done = daemon.ctl("--json", "doctor", "--qemu", qemu(folder))
        answer = json.loads(done.stdout)
        assert (done.returncode, answer["healthy"], len(answer["checks"])) == (0, True, len(lines))


def test_no_daemon(folder: Path) -> None:
    done = run(PVRDMACTL, "--api", str(folder / "none.sock"), "doctor", "--qemu", qemu(folder))
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("TROUBLE  daemon: ") and
            line.endswith("to mend it: systemctl start pvrdmad, and see journalctl -u pvrdmad")], done.stdout
    answer = json.loads(run(PVRDMACTL, "--api", str(folder / "none.sock"), "--json", "doctor", "--qemu", qemu(folder)).stdout)
    assert answer["healthy"] is False


def test_old_qemu(folder: Path) -> None:
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        old = qemu(folder, GOOD_QEMU.replace("10.1.0", "7.2.0"))
        assert troubles(daemon, old) == [f"TROUBLE  QEMU: {old} 7.2 is older than 10.1; to mend it: install QEMU 10.1 or later, "
                                         "or name one with --qemu"]


def test_few_open_files(folder: Path) -> None:
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        subprocess.run([*as_unit.as_its_user(), "prlimit", "--pid", str(daemon.process.pid), "--nofile=1024:"], check=True)
        (line,) = troubles(daemon)
        assert line.startswith("TROUBLE  open files: the daemon may have 1024, fewer than 4096; to mend it: set LimitNOFILE=")


def test_no_monitor_outside_a_cluster(folder: Path) -> None:
    """Only vMotion and checkpoints need it."""
    with running_daemon(folder, adapter(folder, 1)) as daemon, vmm(folder / "vm-01.sock"):
        assert troubles(daemon) == []
        assert [line for line in examine(daemon)[1] if line.startswith("skipped  monitor VM-01: QEMU's monitor ")]


def test_no_monitor(folder: Path) -> None:
    with running_daemon(folder, member(folder) + adapter(folder, 1)) as daemon, vmm(folder / "vm-01.sock"):
        (line,) = troubles(daemon)
        assert line.startswith(f"TROUBLE  monitor VM-01: QEMU's monitor {folder}/vm-01.vmm/qmp cannot be reached (No such file")
        for name in ("qmp", "next.qmp"):
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.bind(str(folder / "vm-01.vmm" / name))
                monitor.listen()
                assert troubles(daemon) == []
            (folder / "vm-01.vmm" / name).unlink()


def mended(daemon: Daemon, line: str) -> list[str]:
    """The lines of trouble after the command that a line of trouble names."""
    done = daemon.ctl(*line.rpartition("to mend it: pvrdmactl ")[2].split())
    assert done.returncode == 0, done.stderr
    return troubles(daemon)


def test_a_link_that_is_down(folder: Path) -> None:
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        assert daemon.ctl("adapter", "set", "VM-01", "--link", "down").returncode == 0
        (line,) = troubles(daemon)
        assert line.startswith("TROUBLE  adapter VM-01: its link is down; ")
        assert mended(daemon, line) == []


# Listens at its first argument, as the monitor of a QEMU with the other arguments would.
_LISTENER = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); sys.stdin.read()"


@contextmanager
def qemu_with(monitor: Path, *arguments: str) -> Iterator[None]:
    """A process with these arguments and a monitor."""
    with subprocess.Popen([sys.executable, "-c", _LISTENER, str(monitor), *arguments], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stdout.readline()
        yield
        process.stdin.close()
    monitor.unlink()


def test_a_nic_with_another_mac(folder: Path) -> None:
    with running_daemon(folder, adapter(folder, 1)) as daemon, vmm(folder / "vm-01.sock"):
        own = json.dumps({"driver": "vfio-user-pci", "addr": "10.1", "socket": {"type": "unix", "path": f"{folder}/vm-01.sock"}})
        monitor = folder / "vm-01.vmm/qmp"
        mac = daemon.ctl_json("adapter", "get", "VM-01")["mac"]  # type: ignore[index, call-overload]
        with qemu_with(monitor, "-device", f"vmxnet3,mac={mac},addr=10.0,multifunction=on", "-device", own):
            assert "ok       NIC VM-01: the vmxnet3 in PCI slot 0x10 has the adapter's MAC" in examine(daemon)[1]
        with qemu_with(monitor, "-device", "vmxnet3,mac=52:54:00:00:00:99,addr=10.0,multifunction=on", "-device", own):
            assert troubles(daemon) == [f"TROUBLE  NIC VM-01: the vmxnet3 in PCI slot 0x10 has the MAC 52:54:00:00:00:99, and the adapter "
                                        f"{mac}; to mend it: start the VM with the arguments in QEMU of pvrdmad(8)"]


@pytest.mark.parametrize(("certificates", "otherwise"), [(False, "skipped  clock: not synchronised, but "),
                                                         (True, "TROUBLE  clock: not synchronised, so ")])
def test_the_clock_matters_to_certificates(folder: Path, certificates: bool, otherwise: str) -> None:
    """What the kernel says of this machine's clock, which a test cannot change."""
    synchronised = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)) not in (-1, 5)  # 5: TIME_ERROR
    table = api_over_tls(folder, days=100)[0] if certificates else ""
    with running_daemon(folder, adapter(folder, 1) + table) as daemon:
        (line,) = (each for each in examine(daemon)[1] if each.split()[1] == "clock:")
        assert line.startswith("ok       clock: synchronised, to " if synchronised else otherwise)


def test_mistakes_of_a_cluster_of_one_host(folder: Path) -> None:
    with running_daemon(folder, member(folder) + adapter(folder, 1)) as daemon:
        def do(*words: str) -> None:
            done = daemon.ctl(*words)
            assert done.returncode == 0, done.stderr

        assert troubles(daemon) == []
        assert "skipped  vmknic: the cluster has no other host" in examine(daemon)[1]
        for words in ("dvs create DSwitch --uplinks 2", "dvs portgroup add DSwitch PG --vlan 0", "dvs add-host DSwitch esx-01",
                      "vm create VM-07 --host esx-01 --hw 14 --memory 512 --reserve all --portgroup PG --mac 52:54:00:12:34:51"):
            do(*words.split())
        (mac,) = troubles(daemon)
        assert mac.startswith("TROUBLE  MAC 52:54:00:12:34:51: adapters VM-01 and VM-07 have it; to mend it: ")
        do("vm", "delete", "VM-07")
        until("the VM's adapter is gone", lambda: troubles(daemon) == [])

        do(*"vm create VM-08 --host esx-01 --hw 14 --memory 512 --portgroup PG".split())
        (reservation,) = troubles(daemon)
        assert reservation.startswith("TROUBLE  VM VM-08: it may not be powered on: "), reservation


def test_a_certificate_that_ends_soon_is_replaced(folder: Path) -> None:
    table, port = api_over_tls(folder, days=5)

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    with running_daemon(folder, adapter(folder, 1) + table) as daemon:
        assert shown() == (folder / "api.crt").read_text()
        (line,) = troubles(daemon)
        assert re.match(rf"TROUBLE  certificate \[api\]: {folder}/api.crt ends in [45] days; to mend it: replace ", line), line
        first = shown()
        with vmm(folder / "vm-01.sock"):  # a VM does not notice
            issue(folder, days=100)
            daemon.process.send_signal(signal.SIGHUP)
            until = time.monotonic() + GUARD_S
            while shown() == first:
                assert time.monotonic() < until
                time.sleep(0.02)
            assert shown() == (folder / "api.crt").read_text()
            assert not [line for line in troubles(daemon) if "certificate" in line]
            (folder / "api.key").write_text("half a key", encoding="ascii")
            daemon.process.send_signal(signal.SIGHUP)
            assert daemon.ctl_json("adapter", "get", "VM-01")["state"] == "detached"  # type: ignore[index, call-overload]
        code, log = daemon.stop()
    assert code == 0
    assert f"warning [api] the certificate in {folder}/api.crt ends on " in log
    assert f"info reload: [api] uses the certificate in {folder}/api.crt for new connections; it ends on " in log
    assert f"error reload: [api] keeps its certificate, because the new files cannot be used: key {folder}/api.key" in log
    assert "sandbox: refused" not in log


def test_the_metrics_say_when_a_certificate_ends(folder: Path) -> None:
    table, _ = api_over_tls(folder, days=100)
    with running_daemon(folder, adapter(folder, 1) + table) as daemon:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.api))
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        (line,) = (each for each in text.splitlines() if each.startswith('pvrdma_certificate_not_after_seconds{use="api"} '))
        assert abs(int(line.split()[-1]) - (time.time() + 100 * 86400)) < 3600
