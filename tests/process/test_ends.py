"""A program, a stand-in and a daemon are killed: nothing hangs, nothing is left, and the next program works."""

from __future__ import annotations

import os
import signal
import subprocess

from machine import PATIENCE_S, STANDIN_OBJECTS, Machine, listens, until


def _traffic(machine: Machine, port: str) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """Server on node 0 and client on node 1, in the middle of endless traffic."""
    command = ["ib_write_bw", "-F", "-D", "600", "-p", port]
    server = machine.popen(*command)
    until(lambda: listens(int(port)), "the server listens")
    assert machine.run("true", node=1).returncode == 0
    client = machine.popen(*command, "127.0.0.1", node=1)
    until(lambda: machine.ask("adapters/node1")["tx_messages"] > 0, "the client writes")
    return server, client


def _works(machine: Machine, port: str) -> None:
    command = ["ibv_rc_pingpong", "-g", "0", "-p", port, "-n", "50"]
    machine.pair(command, [*command, "127.0.0.1"], (0, 1))


def test_killed_program(machine: Machine, port: str) -> None:
    server, client = _traffic(machine, port)
    os.kill(server.pid, signal.SIGKILL)
    client.communicate(timeout=PATIENCE_S)
    assert client.returncode != 0, "the client hears of it"
    until(lambda: machine.ask("adapters/node0")["objects"] == STANDIN_OBJECTS, "the killed program's objects are gone")
    _works(machine, port)


def test_killed_standin(machine: Machine, port: str) -> None:
    server, client = _traffic(machine, port)
    os.kill(machine.processes()["node0"], signal.SIGKILL)
    client.communicate(timeout=PATIENCE_S)
    os.kill(server.pid, signal.SIGTERM)  # ib_write_bw -D counts its own completions only: it polls a dead device
    server.communicate(timeout=PATIENCE_S)
    _works(machine, port)


def test_killed_daemon(machine: Machine, port: str) -> None:
    server, client = _traffic(machine, port)
    os.kill(machine.processes()["pvrdmad"], signal.SIGKILL)
    for each in (server, client):
        os.kill(each.pid, signal.SIGTERM)
        each.communicate(timeout=PATIENCE_S)
    until(lambda: machine.processes() == {}, "the stand-ins have ended, too")
    _works(machine, port)


def test_events_of_a_program_whose_standin_is_gone(machine: Machine) -> None:
    """It hears DEVICE_FATAL, then EIO."""
    script = os.path.join(os.path.dirname(__file__), "programs/wait_for_fatal.py")
    waiting = machine.popen("/usr/bin/python3", script)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "waiting\n"
    os.kill(machine.processes()["node0"], signal.SIGKILL)
    output, _ = waiting.communicate(timeout=PATIENCE_S)
    assert "event 8\n" in output and "commands fail with errno 5\n" in output, output
