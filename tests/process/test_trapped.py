"""Adapters with trapped doorbells, as on hosts that are no x86: the library sends each doorbell as a message."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import BUILD, PATIENCE_S, Machine, listens, until

PROGRAMS = {"ib_write_bw -q 4": (0, 1), "ib_atomic_lat": (0, 1), "ib_send_lat": (0, 0), "ib_send_lat -e": (0, 1),
            "ib_send_bw -c UD": (0, 1), "ib_send_bw --use-srq": (0, 1)}


@pytest.fixture(scope="module", name="places")
def _places() -> Iterator[tuple[Machine, list[list[str]]]]:
    """A machine whose daemon has two such adapters, and pvrdma-run's options for each."""
    machine = Machine()
    try:
        api = machine.folder / "api.sock"
        adapters = "".join(f"""
            [[adapter]]
            name = "trapped{node}"
            socket = "{machine.folder}/trapped{node}.sock"
            mac = "52:54:00:00:7a:0{node}"
            hardware_version = 18
            doorbells = "trapped"
            """ for node in (0, 1))
        config = machine.folder / "pvrdmad.toml"
        config.write_text(f'[daemon]\napi_socket = "{api}"\n{adapters}')
        daemon = machine.start(str(BUILD / "src/pvrdmad/pvrdmad"), "--config", str(config))
        until(lambda: api.exists() or daemon.poll() is not None, "the daemon serves its API")
        assert daemon.poll() is None, daemon.communicate()[0]
        yield machine, [["--daemon", str(api), "--adapter", f"trapped{node}", "--address", f"10.99.7.{node + 1}"] for node in (0, 1)]
    finally:
        machine.close()


def _pair(places: tuple[Machine, list[list[str]]], port: str, nodes: tuple[int, int], *command: str) -> str:
    """The client's output."""
    machine, options = places
    words = [*command, "-p", port]
    server = machine.popen(*options[nodes[0]], *words, node=None)
    return machine.meet(server, lambda: listens(int(port)),
                        lambda: machine.run(*options[nodes[1]], *words, "127.0.0.1", node=None))[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_perftest(places: tuple[Machine, list[list[str]]], port: str, program: str) -> None:
    output = _pair(places, port, PROGRAMS[program], *program.split(), "-F", "-n", "100")
    assert re.search(r"^ *\d+ +\d+(\s+[\d.]+){3}", output, re.MULTILINE), output


@pytest.mark.parametrize("program", ["ibv_rc_pingpong -e", "ibv_srq_pingpong"])
def test_pingpong(places: tuple[Machine, list[list[str]]], port: str, program: str) -> None:
    assert "100 iters" in _pair(places, port, (0, 1), *program.split(), "-g", "0", "-n", "100")


def test_the_stand_in_says_that_mapped_doorbells_are_faster(places: tuple[Machine, list[list[str]]]) -> None:
    machine, options = places
    assert machine.run(*options[0], "ibv_devinfo", node=None).returncode == 0
    assert 'with doorbells = "mapped" it is many times faster' in machine.logs()


def test_posts_of_a_program_whose_standin_is_gone(places: tuple[Machine, list[list[str]]]) -> None:
    """What is posted stays posted, as with mapped doorbells: the program hears of the end by DEVICE_FATAL."""
    machine, options = places
    script = Path(__file__).parent / "programs/wait_for_fatal.py"
    posting = machine.popen(*options[0], "/usr/bin/python3", str(script), "posting", node=None)
    assert posting.stdout is not None
    assert posting.stdout.readline() == "waiting\n"
    os.kill(machine.processes()["adapter-trapped0"], signal.SIGKILL)
    output, _ = posting.communicate(timeout=PATIENCE_S)
    assert "event 8\nposts succeed\ncommands fail with errno 5\n" in output, output
    assert machine.run(*options[0], "ibv_devinfo", node=None).returncode == 0, "the next program works"
