"""The real binaries: an operator's mistakes, start, what pvrdmactl shows, stop.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli
"""

from __future__ import annotations

import configparser
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import as_unit

BUILD = Path(__file__).resolve().parents[2] / "build" / "dev" / "src"
PVRDMAD = os.environ.get("PVRDMAD", str(BUILD / "pvrdmad" / "pvrdmad"))
IS_SANITIZED = as_unit.is_sanitized(Path(PVRDMAD))
confined = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer's runtime makes calls of its own: such a build is not confined")
PVRDMACTL = os.environ.get("PVRDMACTL", str(BUILD / "pvrdmactl" / "pvrdmactl"))
GUARD_S = 60  # a hang guard, not a check of speed


def run(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    return subprocess.run(command, text=True, capture_output=True, timeout=GUARD_S, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})


def pvrdmad(folder: Path, *arguments: str) -> list[str]:
    """The command that starts the daemon as its unit would, with its sockets, state and configuration in `folder`."""
    as_unit.give_folder(folder)
    as_unit.give(*folder.iterdir())
    return as_unit.command(Path(PVRDMAD), *arguments, writable=[folder])


def adapter(folder: Path, number: int, **changes: object) -> str:
    """One [[adapter]] of a configuration, five lines."""
    values = {"name": f"VM-0{number}", "socket": str(folder / f"vm-0{number}.sock"),
              "mac": f"52:54:00:12:34:5{number}", "hardware_version": 14, **changes}
    return "[[adapter]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


class Daemon:
    """pvrdmad as a child process, started with a notification socket."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.api = folder / "api.sock"
        self.config = folder / "pvrdmad.toml"
        self.config.write_text(f'[daemon]\napi_socket = "{self.api}"\n{config}', encoding="utf-8")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.settimeout(GUARD_S)
        self.process = subprocess.Popen(pvrdmad(folder, "--config", str(self.config)), stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")})

    def notified(self) -> bytes:
        return self.manager.recv(100)

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(PVRDMACTL, "--api", str(self.api), *arguments)

    def ctl_json(self, *arguments: str) -> object:
        done = self.ctl("--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stops it. Returns the exit code and the whole log."""
        self.process.send_signal(by)
        log = self.process.communicate(timeout=GUARD_S)[1]
        return self.process.returncode, log

    def sockets(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.sock"))


@contextmanager
def running_daemon(folder: Path, config: str) -> Iterator[Daemon]:
    """A daemon that is ready."""
    running = Daemon(folder, config)
    try:
        assert running.notified() == b"READY=1"
        yield running
    finally:
        running.process.kill()
        running.process.communicate()
        running.manager.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Two adapters of a daemon that is ready."""
    with running_daemon(tmp_path, adapter(tmp_path, 1) + adapter(tmp_path, 2, hardware_version=18, doorbells="trapped")) as running:
        yield running


# --- Mistakes: exit code 2, one sentence, and no half-started daemon. ---

ALLOWED_VERSIONS = "allowed are 13 to 15, 17 to 21"
MISTAKES = {
    "unknown key": ({"color": 1}, "{f}:9: [[adapter]] unknown key color: allowed are name, socket, mac, "
                                  "hardware_version, roce, profile, doorbells, mtu, addresses, owner, group, qps, cqs, srqs, mrs, "
                                  "registered_mib, rings_mib, mapped_mib, mappings, native_connections, commands_per_s, "
                                  "doorbells_per_s"),
    "budget": ({"qps": 2}, "{f}:9: [[adapter]] qps = 2 is not allowed: it takes a number from 4 to 32768"),
    "wrong type": ({"name": 7}, "{f}:5: [[adapter]] name = 7 has the wrong type: it takes a string in quotes"),
    "hardware version": ({"hardware_version": 12}, "{f}:8: [[adapter]] hardware_version = 12 is not a hardware version "
                                                   f"with PVRDMA: {ALLOWED_VERSIONS}"),
    "mac": ({"mac": "01:00:5e:00:00:01"}, '{f}:7: [[adapter]] mac = "01:00:5e:00:00:01" is a multicast address: give '
                                          "the MAC of the VM's vmxnet3 adapter, its first byte is even"),
    "duplicate name": ({"name": "VM-02"}, '{f}:10: [[adapter]] name = "VM-02" is taken: the adapter at {f}:5 has it, '
                                          "choose another"),
    "socket too long": ({"socket": "/" + "x" * 107},
                        '{f}:6: [[adapter]] socket = "/' + "x" * 107 + '" is too long: it has 108 bytes, and a UNIX '
                        "socket's path has at most 107"),
    "doorbells": ({"doorbells": "polled"}, '{f}:9: [[adapter]] doorbells = "polled" is not a doorbell mode: allowed are '
                                           "trapped, mapped"),
    "roce": ({"hardware_version": 13, "roce": "v2"},
             '{f}:9: [[adapter]] roce = "v2" needs hardware version 14 or later and this adapter has 13: use v1 or a '
             "later hardware version"),
}


@pytest.mark.parametrize("check", [[], ["--check"]], ids=["start", "check"])
@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_the_file_is_one_sentence(case: str, check: list[str], tmp_path: Path) -> None:
    changes, sentence = MISTAKES[case]
    config = tmp_path / "pvrdmad.toml"
    config.write_text(f'[daemon]\napi_socket = "{tmp_path}/api.sock"\n\n' + adapter(tmp_path, 1, **changes)
                      + adapter(tmp_path, 2), encoding="utf-8")
    done = run(*pvrdmad(tmp_path, "--config", str(config), *check))
    assert done.returncode == 2
    assert done.stderr == f"pvrdmad: {sentence.format(f=config)}\n"
    assert done.stdout == ""
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize(("arguments", "sentence"), [
    ([], "there is nothing to serve: give --config FILE, --adapter or --ci: see pvrdmad --help"),
    (["--bogus"], "The following argument was not expected: --bogus: see pvrdmad --help"),
    (["--config", "/nowhere/x"], "cannot read the configuration /nowhere/x: No such file or directory"),
    (["--adapter", "VM-01"], '--adapter VM-01: "VM-01" is not KEY=VALUE: write '
                             "name=VM-01,socket=PATH,mac=52:54:00:12:34:51,hw=14"),
    (["--adapter", "name=a,socket=/nowhere/a.sock,mac=52:54:00:12:34:51,hw=14"],
     "adapter a: vfio-user socket /nowhere/a.sock: there is no directory /nowhere: create it or choose another path"),
], ids=["nothing", "unknown flag", "no file", "no key", "no directory"])
def test_a_mistake_on_the_command_line_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(PVRDMAD, *arguments)
    assert (done.returncode, done.stderr) == (2, f"pvrdmad: {sentence}\n")


def test_a_core_that_is_not_there_is_named_with_those_that_are() -> None:
    done = run(PVRDMAD, "--adapter", "name=a,socket=/nowhere/a.sock,mac=52:54:00:12:34:51,hw=14", "--dedicated-core", "8191")
    assert done.returncode == 2
    sentence = r"pvrdmad: --dedicated-core: \[daemon\] dedicated_core = 8191 is not a core of this host that the daemon may use: "
    assert re.fullmatch(sentence + r"allowed are \d+([-, ]+\d+)*\n", done.stderr), done.stderr


def test_a_socket_in_use_stops_the_start(daemon: Daemon, tmp_path: Path) -> None:
    second = tmp_path / "second.toml"
    second.write_text(f'[daemon]\napi_socket = "{tmp_path}/second-api.sock"\n' + adapter(tmp_path, 3)
                      + adapter(tmp_path, 2), encoding="utf-8")
    done = run(*pvrdmad(tmp_path, "--config", str(second)))
    assert done.returncode == 2
    assert done.stderr == (f"pvrdmad: adapter VM-02: vfio-user socket {tmp_path}/vm-02.sock: another running server "
                           "uses it: stop that server or choose another path\n")
    assert daemon.sockets() == ["api.sock", "vm-01.sock", "vm-02.sock"]
    assert (daemon.folder / "vm-02.vmm").is_dir(), "the folder for the VM's QEMU is still the first daemon's"
    assert daemon.ctl("version").returncode == 0


# --- Life. ---

def test_check_accepts_a_valid_file_and_starts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "pvrdmad.toml"
    config.write_text(adapter(tmp_path, 1), encoding="utf-8")
    done = run(*pvrdmad(tmp_path, "--config", str(config), "--check"))
    assert (done.returncode, done.stdout) == (0, "pvrdmad: the configuration is valid: 1 adapter(s)\n")
    assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize("check", [[], ["--check"]], ids=["start", "check"])
@pytest.mark.parametrize(("keys", "named"), [
    ('congestion_control = "nosuch"\n', '[tcp] congestion_control = "nosuch": '),
    ('ca = "/nowhere/ca.crt"\ncertificate = "/nowhere/host.crt"\nkey = "/nowhere/host.key"\n', "/nowhere/"),
], ids=["congestion control", "certificates"])
def test_check_finds_what_the_start_lacks(check: list[str], keys: str, named: str, tmp_path: Path) -> None:
    config = tmp_path / "pvrdmad.toml"
    config.write_text(f'[daemon]\napi_socket = "{tmp_path}/api.sock"\n[host]\nname = "esx-01"\nsocket_folder = "/tmp"\n'
                      f'[store]\npath = "{tmp_path}/store.db"\n[tcp]\n{keys}', encoding="utf-8")
    done = run(*pvrdmad(tmp_path, "--config", str(config), *check))
    assert done.returncode == 2
    assert named in done.stderr and done.stderr.count("\n") == 1


def test_the_packaged_example_is_valid() -> None:
    example = Path(__file__).resolve().parents[2] / "packaging" / "pvrdmad.toml"
    assert run(PVRDMAD, "--config", str(example), "--check").returncode == 0


def test_the_packaged_example_has_each_key_of_an_adapter() -> None:
    """Set or commented out. Who only reads the example must find out that QEMU's user has to own the socket."""
    allowed = MISTAKES["unknown key"][1].rpartition("allowed are ")[2].split(", ")
    example = Path(__file__).resolve().parents[2] / "packaging" / "pvrdmad.toml"
    there = set(re.findall(r"^#?(\w+) = ", example.read_text(encoding="utf-8"), re.MULTILINE))
    assert [key for key in allowed if key not in there] == []


def test_check_warns_of_folders_that_do_not_exist(tmp_path: Path) -> None:
    config = tmp_path / "pvrdmad.toml"
    config.write_text(f'[daemon]\napi_socket = "{tmp_path}/api.sock"\n{adapter(tmp_path / "missing", 1)}'
                      f'[host]\nname = "esx-01"\nsocket_folder = "/run/pvrdma"\n[store]\npath = "{tmp_path}/none/store.db"\n', encoding="utf-8")
    done = run(*pvrdmad(tmp_path, "--config", str(config), "--check"))
    assert done.returncode == 0
    found = [line for line in done.stderr.splitlines() if "does not exist" in line]
    assert [line.partition(" does not exist")[0] for line in found] == [
        f"pvrdmad: the folder {tmp_path}/missing of adapter VM-01's socket", f"pvrdmad: the folder {tmp_path}/none of [store] path"]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(daemon: Daemon, by: signal.Signals) -> None:
    assert daemon.sockets() == ["api.sock", "vm-01.sock", "vm-02.sock"]
    code, log = daemon.stop(by)
    assert code == 0, log
    assert daemon.notified() == b"STOPPING=1"
    assert daemon.sockets() == []
    assert f"stopping because of {by.name}" in log
    assert log.rstrip().endswith("pvrdmad: stopped")


def test_it_stops_with_clients_connected(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as vmm, socket.socket(socket.AF_UNIX) as api:
        vmm.connect(str(daemon.folder / "vm-01.sock"))
        api.connect(str(daemon.api))
        api.sendall(b"GET /v1/adap")  # the rest never comes
        code, log = daemon.stop()
    assert code == 0, log
    assert daemon.sockets() == []


def test_it_replaces_the_sockets_of_a_daemon_that_was_killed(daemon: Daemon, tmp_path: Path) -> None:
    daemon.process.kill()
    daemon.process.wait()
    assert daemon.sockets() == ["api.sock", "vm-01.sock", "vm-02.sock"]
    os.unlink(tmp_path / "notify")
    again = Daemon(tmp_path, adapter(tmp_path, 1) + adapter(tmp_path, 2))
    assert again.notified() == b"READY=1"
    assert again.stop()[0] == 0
    again.manager.close()


def test_garbage_on_an_adapters_socket_costs_that_connection_only(daemon: Daemon) -> None:
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as vmm:
            vmm.settimeout(GUARD_S)
            vmm.connect(str(daemon.folder / "vm-01.sock"))
            vmm.sendall(b"\xff" * 64)
            assert vmm.recv(1) == b"", "the daemon hangs up"
    assert daemon.ctl("adapter", "list").returncode == 0


def test_an_idle_daemon_uses_no_cpu(daemon: Daemon) -> None:
    def turns() -> int:
        return daemon.ctl_json("stats")["host"]["shard"]["turns"]  # type: ignore[index]

    before = turns()
    time.sleep(0.5)
    # A few thousand turns of spinning after each of the two requests, and no turns in between.
    assert turns() - before < 20_000


# --- The sandbox. ---

def threads(daemon: Daemon) -> dict[str, dict[str, str]]:
    """The kernel's status of each thread, by name."""
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    stati = [dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
             for task in tasks]
    return {status["Name"]: status for status in stati}


@confined
def test_every_thread_is_confined(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "list").returncode == 0
    shown = threads(daemon)
    assert "shard-0" in shown and len(shown) > 1
    assert {(status["Seccomp"], status["NoNewPrivs"]) for status in shown.values()} == {("2", "1")}, shown
    assert daemon.ctl_json("stats")["host"]["sandbox"] == {"refused_calls": 0}  # type: ignore[index]
    code, log = daemon.stop()
    assert code == 0
    assert "sandbox" not in log


@confined
@pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="/dev/net/tun is for others")
def test_a_confined_daemon_looks_for_the_devices_of_its_links(tmp_path: Path) -> None:
    with running_daemon(tmp_path, adapter(tmp_path, 1) + '[[roce]]\nlink = "tap:lo"\n') as daemon:
        assert daemon.ctl("adapter", "list").returncode == 0
        code, log = daemon.stop()
        assert (code, "sandbox: refused" in log) == (0, False)
        assert "roce: tap:lo is down: the device is not a tap" in log


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no second core")
def test_the_thread_of_the_adapters_has_the_core_that_others_are_kept_from(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    try:
        os.sched_setaffinity(0, before - {core})
        with running_daemon(tmp_path, f"dedicated_core = {core}\n" + adapter(tmp_path, 1)) as daemon:
            assert daemon.ctl("adapter", "list").returncode == 0
            allowed = {name: status["Cpus_allowed_list"] for name, status in threads(daemon).items()}
            assert allowed.pop("shard-0") == str(core)
            own = re.search(r"^Cpus_allowed_list:\t(.*)$", Path("/proc/self/status").read_text(), re.MULTILINE)
            assert own and set(allowed.values()) == {own[1]}, allowed
            code, log = daemon.stop()
            assert (code, "sandbox: refused" in log) == (0, False)
            assert f"pvrdmad: the thread of the adapters has core {core}\n" in log
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask for another process's timer slack")
def test_the_shards_short_sleeps_are_short(daemon: Daemon) -> None:
    assert daemon.ctl("adapter", "list").returncode == 0
    tasks = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    shard = next(task for task in tasks if (task / "comm").read_text() == "shard-0\n")
    assert Path(f"/proc/{shard.name}/timerslack_ns").read_text() == "1\n"


@confined
def test_a_confined_member_of_a_cluster_keeps_its_store_in_a_file() -> None:
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:  # pytest's folder names are too long for sockets
        folder = Path(name)
        with running_daemon(folder, f'[host]\nname = "esx-01"\nsocket_folder = "{folder}"\n'
                                    f'[store]\npath = "{folder}/store.db"\n') as daemon:
            for edit in ("dvs create DSwitch --uplinks 2", "dvs portgroup add DSwitch PG --vlan 0",
                         "dvs add-host DSwitch esx-01",
                         "vm create VM-07 --host esx-01 --hw 14 --memory 512 --reserve all --portgroup PG",
                         "vm delete VM-07"):
                done = daemon.ctl(*edit.split())
                assert done.returncode == 0, done.stderr
            assert {status["Seccomp"] for status in threads(daemon).values()} == {"2"}
            code, log = daemon.stop()
            assert (code, "sandbox" in log) == (0, False), log


def test_the_sandbox_can_be_left_off_and_says_so(tmp_path: Path) -> None:
    # The unit has filters, and the tests may run in a container that has some.
    shown = ["/usr/bin/cat", "/proc/self/status"]
    others = run(*(shown if as_unit.is_sanitized(Path(PVRDMAD)) else as_unit.command(Path(shown[0]), shown[1]))).stdout
    with running_daemon(tmp_path, "sandbox = false\n" + adapter(tmp_path, 1)) as daemon:
        assert all(f"Seccomp_filters:\t{status['Seccomp_filters']}\n" in others for status in threads(daemon).values())
        assert "sandbox" not in daemon.ctl_json("stats")["host"]  # type: ignore[operator, index]
        code, log = daemon.stop()
        assert code == 0
        assert "pvrdmad: not confined: sandbox in [daemon] is false" in log


def test_it_takes_all_descriptors_it_may_have(daemon: Daemon) -> None:
    limits = Path(f"/proc/{daemon.process.pid}/limits").read_text()
    soft, hard = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5]
    assert soft == hard


# --- pvrdmactl. ---

def test_adapter_list(daemon: Daemon) -> None:
    listed = daemon.ctl_json("adapter", "list")
    assert [(a["name"], a["state"], a["hardware_version"], a["roce"]) for a in listed] == [  # type: ignore[attr-defined]
        ("VM-01", "off", 14, "v2"), ("VM-02", "off", 18, "v2")]
    text = daemon.ctl("adapter", "list").stdout.splitlines()
    assert text[0].split()[:5] == ["Name", "State", "MAC", "HW", "RoCE"]
    assert set(text[1]) == {"-", " "}
    assert text[2].split()[:5] == ["VM-01", "off", "52:54:00:12:34:51", "14", "v2"]


def test_adapter_get(daemon: Daemon) -> None:
    shown = daemon.ctl_json("adapter", "get", "VM-02")
    assert shown["mac"] == "52:54:00:12:34:52"  # type: ignore[index]
    assert shown["tx_bytes"] == 0  # type: ignore[index]
    assert [a["doorbells"] for a in daemon.ctl_json("adapter", "list")] == ["mapped", "trapped"]  # type: ignore[attr-defined]
    text = daemon.ctl("adapter", "get", "VM-02").stdout
    assert text.startswith("VM-02\n   State: off\n   MAC: 52:54:00:12:34:52\n")
    assert "\n   Doorbells: trapped\n" in text


def test_adapter_get_shows_use_and_limit_of_each_budget(tmp_path: Path) -> None:
    config = "[budgets]\nqps = 100\ntotal_qps = 500\n" + adapter(tmp_path, 1) + adapter(tmp_path, 2, qps=64, mapped_mib=4096)
    daemon = Daemon(tmp_path, config)
    try:
        assert daemon.notified() == b"READY=1"
        one, two = (daemon.ctl_json("adapter", "get", name)["budgets"] for name in ("VM-01", "VM-02"))  # type: ignore[index]
        assert one["qps"] == {"use": 0, "limit": 100, "refused": 0}
        assert two["qps"]["limit"] == 64
        assert list(one) == ["qps", "cqs", "srqs", "mrs", "registered_mib", "rings_mib", "mapped_mib", "mappings", "native_connections",
                             "commands_per_s", "doorbells_per_s"]
        text = daemon.ctl("adapter", "get", "VM-02").stdout
        assert "   Budget qps: 0 of 64\n" in text
        assert "   Budget mapped_mib: 0 of 4096\n" in text
        assert "   Budget commands_per_s: 0 of 20000\n" in text
        metrics = got(daemon, "/metrics")
        assert 'pvrdma_adapter_budget_limit{adapter="VM-01",budget="qps"} 100\n' in metrics
        assert 'pvrdma_budget_limit{budget="qps"} 500\n' in metrics
        assert 'pvrdma_adapter_budget_refusals_total{adapter="VM-01",budget="qps"} 0\n' in metrics
    finally:
        daemon.process.kill()
        daemon.process.communicate()
        daemon.manager.close()


def test_qp_list_stats_and_version(daemon: Daemon) -> None:
    assert daemon.ctl_json("qp", "list") == []
    assert daemon.ctl_json("qp", "list", "--adapter", "VM-01") == []
    stats = daemon.ctl_json("stats")
    assert [a["name"] for a in stats["adapters"]] == ["VM-01", "VM-02"]  # type: ignore[index]
    expected = {"switch", "local", "shard", "rings", "placement", "total_budget_refusals"} | (set() if IS_SANITIZED else {"sandbox"})
    assert set(stats["host"]) == expected  # type: ignore[call-overload, index]
    assert {"sleeps", "timed_looks", "long_turns", "long_turns_us"} <= set(stats["host"]["shard"])  # type: ignore[call-overload, index]
    assert len(daemon.ctl_json("stats", "--adapter", "VM-01")["adapters"]) == 1  # type: ignore[index]
    version = daemon.ctl_json("version")
    assert version["version"] == version["pvrdmactl"]  # type: ignore[index]
    assert daemon.ctl("version").stdout == f"pvrdmactl {version['version']}\npvrdmad {version['version']}\n"  # type: ignore[index]


def test_the_socket_may_come_from_the_environment(daemon: Daemon) -> None:
    assert run(PVRDMACTL, "version", env={"PVRDMA_API": str(daemon.api)}).returncode == 0


@pytest.mark.parametrize("command", [("adapter", "get", "VM-09"), ("qp", "list", "--adapter", "VM-09"),
                                     ("stats", "--adapter", "VM-09")], ids=" ".join)
def test_an_adapter_there_is_not(daemon: Daemon, command: tuple[str, ...]) -> None:
    done = daemon.ctl(*command)
    assert (done.returncode, done.stderr) == (1, 'pvrdmactl: there is no adapter "VM-09": pvrdmactl adapter list shows them\n')


def test_no_daemon() -> None:
    done = run(PVRDMACTL, "--api", "/nowhere/api.sock", "version")
    assert done.returncode == 1
    assert done.stderr == ("pvrdmactl: the daemon cannot be reached at /nowhere/api.sock (No such file or directory): "
                           "is pvrdmad running, and is this its api_socket?\n")


def test_sockets_are_not_for_everybody(daemon: Daemon) -> None:
    assert stat.S_IMODE((daemon.folder / "vm-01.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.api.stat().st_mode) & 0o007 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away and becomes other users")
def test_a_socket_is_for_the_user_of_its_vm_alone() -> None:
    """Two VMs whose QEMUs run as different users: neither can access the other's adapter. Nothing of the VMs is left when the
    daemon stops, even if a user forbids it to enter the VM's folder."""
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    users = {"vm-01": 64001, "vm-02": 64002}
    config = folder / "pvrdmad.toml"
    config.write_text(f'[daemon]\napi_socket = "{folder}/api.sock"\n' + "".join(
        f'[[adapter]]\nname = "{name}"\nsocket = "{folder}/{name}.sock"\nmac = "52:54:00:00:00:{user % 100:02}"\n'
        f'hardware_version = 14\nowner = "{user}"\n' for name, user in users.items()), encoding="utf-8")
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with subprocess.Popen(pvrdmad(folder, "--config", str(config)), stderr=subprocess.PIPE) as daemon:
        try:
            deadline = time.monotonic() + 20
            while not (folder / "api.sock").exists() and daemon.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            for name in users:
                for other, user in users.items():
                    done = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "/usr/bin/python3",
                                           "-c", connect, str(folder / f"{name}.sock")],
                                          capture_output=True, text=True, check=False)
                    assert (done.returncode == 0) == (name == other), (name, other, done.stderr)
                    assert name == other or "PermissionError" in done.stderr
                leave = f"import os, socket; os.chdir('{folder}/{name}.vmm'); socket.socket(socket.AF_UNIX).bind('qmp'); os.chmod('.', 0)"
                subprocess.run(["setpriv", f"--reuid={users[name]}", f"--regid={users[name]}", "--clear-groups", "/usr/bin/python3", "-c",
                                leave], check=True)
            daemon.terminate()
            _, said = daemon.communicate(timeout=20)
            assert b"sandbox: refused" not in said
            assert [path.name for path in folder.iterdir()] == ["pvrdmad.toml"]
        finally:
            daemon.kill()
            shutil.rmtree(folder)


def test_web_pages_get_nothing(daemon: Daemon) -> None:
    """A browser could be made to send such requests to a port that is forwarded to the socket."""
    def status(text: str) -> int:
        with socket.socket(socket.AF_UNIX) as api:
            api.connect(str(daemon.api))
            api.sendall(text.encode())
            return int(api.makefile("rb").readline().split()[1])
    assert status("GET /v1/version HTTP/1.1\r\nHost: localhost:8080\r\n\r\n") == 200
    assert status("GET /v1/version HTTP/1.1\r\nHost: rebound.example\r\n\r\n") == 403
    put = "PUT /v1/adapters/VM-01/link HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n"
    assert status(put + "Content-Type: text/plain\r\n\r\n" + '{"up": false}') == 415
    assert status(put + "Content-Type: application/json\r\nOrigin: http://a.example\r\n\r\n" + '{"up": false}') == 403
    assert status(put + "Content-Type: application/json\r\n\r\n" + '{"up": false}') == 200


def got(daemon: Daemon, path: str) -> str:
    """The answer of the API to a GET."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.api))
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200
    return text


def test_metrics(daemon: Daemon) -> None:
    text = got(daemon, "/metrics")
    assert 'pvrdma_adapter_state{adapter="VM-01",state="off"} 1\n' in text
    assert "# TYPE pvrdma_verbs_tx_bytes_total counter\n" in text


def test_the_daemons_manual_has_the_options_of_its_help() -> None:
    """Each option with the name of its value, in both directions."""
    shown = re.findall(r"^  (?:-h,)?--([a-z-]+)(?: (\S+))? ", run(PVRDMAD, "--help").stdout, re.MULTILINE)
    page = (Path(__file__).parents[2] / "docs" / "man" / "pvrdmad.8").read_text(encoding="utf-8")
    listed = page.split("or an adapter from a flag:\n")[1].split("\n.El\n")[0]
    assert sorted(re.findall(r"^\.It Fl (?:h , )?-([a-z-]+)(?: Ar (.+))?$", listed, re.MULTILINE)) == sorted(shown)


@pytest.mark.parametrize("program", [PVRDMAD, PVRDMACTL], ids=["pvrdmad", "pvrdmactl"])
def test_help_and_version(program: str) -> None:
    assert run(program, "--version").stdout.split()[0] == Path(program).name
    done = run(program, "--help")
    assert done.returncode == 0
    assert "Exit codes:" in done.stdout


def test_the_unit_leaves_a_member_of_a_cluster_what_it_needs(tmp_path: Path) -> None:
    unit = Path(__file__).resolve().parents[2] / "packaging" / "pvrdmad.service"
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str
    parsed.read(unit)
    service = parsed["Service"]
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}
    assert "PrivateNetwork" not in service and "PrivateDevices" not in service
    assert service["StateDirectory"] == "pvrdma", "the store's default is in /var/lib/pvrdma"
    assert int(service["TimeoutStartSec"]) > 600, "the longest lease"
    # The rights to give a socket to another user, and to give that user access to it.
    assert service["AmbientCapabilities"] == service["CapabilityBoundingSet"] == "CAP_CHOWN"
    assert "PrivateUsers" not in service and service["RuntimeDirectoryMode"] == "0711"
    assert "SystemCallFilter=@chown\n" in unit.read_text()
    assert "SystemCallFilter=sched_setaffinity\n" in unit.read_text(), "@resources has it"
    assert "SystemCallFilter=@system-service seccomp\n" in unit.read_text(), "the daemon adds a filter of its own"
    assert "DeviceAllow=/dev/net/tun rw\n" in unit.read_text(), "links that are taps"
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/usr/sbin/pvrdmad", PVRDMAD))
    link = tmp_path / "pvrdma-roce@pvroce0.service"
    link.write_text(unit.with_name("pvrdma-roce@.service").read_text())
    done = run(analyze, "verify", "--man=no", str(copy), str(link))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# --- The log ---
