"""What pvrdma-run does besides running a program."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from machine import PATIENCE_S, PVRDMA_RUN, Machine, is_alive, until


def test_from_nothing(machine: Machine, port: str) -> None:
    """The first two commands of a new user, at the same time: nothing was started before."""
    server = machine.popen("ib_write_bw", "-F", "-p", port, "-n", "100")
    client = machine.popen("sh", "-c", f"until ib_write_bw -F -p {port} -n 100 127.0.0.1; do sleep 0.1; done")
    assert "BW average" in client.communicate(timeout=120)[0]
    assert "BW average" in server.communicate(timeout=120)[0]
    assert set(machine.processes()) == {"pvrdmad", "node0"}


def test_exit_code_is_the_programs(shared_machine: Machine) -> None:
    assert shared_machine.run("sh", "-c", "exit 7").returncode == 7
    assert shared_machine.run("sh", "-c", "kill -9 $$").returncode == -9


def test_a_program_that_does_not_exist(shared_machine: Machine) -> None:
    done = shared_machine.run("no-such-program")
    assert (done.returncode, done.stdout) == (125, "pvrdma-run: cannot run no-such-program: No such file or directory\n")


def test_mistakes(shared_machine: Machine) -> None:
    for arguments, wanted in {
        (): "there is no command to run",
        ("--node", "8", "true"): "8 not in range",
        ("--start", "true"): '"true" is not wanted: no command is run',
        ("--no-such-option", "true"): "--no-such-option is no option",
        ("--adapter", "db-7", "--daemon", "/nowhere", "true"): "the daemon at /nowhere does not answer",
        ("--node", "5", "--gateway-mac", "01:00:5e:00:00:01", "true"): "--gateway-mac 01:00:5e:00:00:01 is no MAC address of an interface",
        ("--address", "192.0.2.9", "true"): "node0 runs already, without the address 192.0.2.9",
    }.items():
        done = shared_machine.run(*arguments, node=None)
        assert done.returncode == 125, (arguments, done.stdout)
        assert done.stdout.startswith("pvrdma-run: ") and wanted in done.stdout, (arguments, done.stdout)


def test_a_folder_that_ld_preload_cannot_name(shared_machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "my builds"
    folder.mkdir()
    tmp_path.chmod(0o755)
    for name in ("pvrdmad", "pvrdma-standin", "libpvrdma-preload.so"):
        (folder / name).touch()
    shutil.copy(PVRDMA_RUN, folder)
    done = subprocess.run([folder / "pvrdma-run", "true"], capture_output=True, text=True, env=shared_machine.environment, check=False)
    assert done.returncode == 125
    assert f"LD_PRELOAD cannot name {folder}/libpvrdma-preload.so, because of a space or colon in its path" in done.stderr


def test_adapter_of_a_configured_daemon(shared_machine: Machine) -> None:
    api = str(shared_machine.api)
    found = shared_machine.run("--daemon", api, "--adapter", "node5", "ibv_devices", node=None)
    assert "505400fffec10005" in found.stdout, found.stdout
    missing = shared_machine.run("--daemon", api, "--adapter", "db-7", "true", node=None)
    assert f"the daemon at {api} has no adapter db-7" in missing.stdout


def test_chosen_addresses(machine: Machine) -> None:
    """They are GIDs, when the stand-in starts and when it runs already."""
    for _ in range(2):
        shown = machine.run("--address", "192.0.2.1", "--address", "2001:db8::1", "ibv_devinfo", "-v", node=None)
        assert "::ffff:192.0.2.1" in shown.stdout and "2001:db8::1" in shown.stdout, shown.stdout


def test_environment_for_a_shell(shared_machine: Machine) -> None:
    exports = shared_machine.run("--env")
    assert exports.returncode == 0, exports.stdout
    assert [line.split("=")[0] for line in exports.stdout.splitlines()] == ["export LD_PRELOAD", "export PVRDMA_STANDIN"]


def test_check(shared_machine: Machine) -> None:
    done = shared_machine.run("--check")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "ok      two processes exchange messages"


@pytest.mark.full
def test_the_daemon_and_the_standin_are_confined(shared_machine: Machine) -> None:
    """Each of their threads has a filter of system calls, no capability, and no way to get one."""
    assert shared_machine.run("true").returncode == 0
    running = shared_machine.processes()
    assert {"pvrdmad", "node0"} <= running.keys(), running
    for name, pid in running.items():
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            lines = status.read_text(encoding="utf-8").splitlines()
            assert {"Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"} <= set(lines), (name, lines)


def test_start_keeps_a_standin_that_runs_already(machine: Machine) -> None:
    """It would end ten seconds after its last program."""
    assert machine.run("true").returncode == 0
    standin = machine.processes()["node0"]
    assert machine.run("--start").returncode == 0
    time.sleep(15)
    assert machine.processes()["node0"] == standin
    assert machine.run("--stop", node=None).returncode == 0
    assert not list(machine.runtime.glob("*/keep"))


def test_a_standin_that_is_about_to_end(machine: Machine) -> None:
    """It takes no more programs, so the next one gets another stand-in."""
    assert machine.run("true").returncode == 0
    standin = machine.processes()["node0"]
    path = machine.runtime / "node0.standin/standin.sock"
    os.kill(standin, signal.SIGTERM)
    until(lambda: not is_alive(standin), "the stand-in has ended")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ending:
        ending.bind(str(path))
        os.chmod(path, 0o666)
        ending.listen()
        program = machine.popen("ibv_devices")
        connection, _ = ending.accept()
    connection.close()
    assert "vmw_pvrdma0" in program.communicate(timeout=PATIENCE_S)[0]


def test_stop_ends_everything(machine: Machine) -> None:
    assert machine.run("true").returncode == 0
    assert machine.run("true", node=3).returncode == 0
    running = machine.processes()
    assert set(running) == {"pvrdmad", "node0", "node3"}
    assert machine.run("--stop", node=None).returncode == 0
    until(lambda: not any(is_alive(pid) for pid in running.values()), "all have ended")
    assert machine.processes() == {}


def test_folder_of_somebody_else(machine: Machine) -> None:
    machine.runtime.mkdir(mode=0o700)
    os.chmod(machine.runtime, 0o777)
    done = machine.run("true")
    os.chmod(machine.runtime, 0o700)
    os.chown(machine.runtime, os.stat(machine.folder).st_uid, -1)
    assert done.returncode == 125
    assert done.stdout == (
        f"pvrdma-run: {machine.runtime} is not a folder of this user alone: remove it, or set XDG_RUNTIME_DIR\n")


def test_programs_without_rdma_are_left_alone(shared_machine: Machine) -> None:
    """Shells, pipes, files and descriptors of a program that never opens the device."""
    script = "exec 9<>f; echo a >&9; exec 9>&-; cat f | tr a b; ls /sys/class/net >/dev/null"
    done = shared_machine.run("bash", "-c", script)
    assert (done.returncode, done.stdout) == (0, "b\n")
    assert Path(shared_machine.folder, "f").read_text() == "a\n"
