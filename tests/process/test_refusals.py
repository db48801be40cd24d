"""What a program gets when it cannot have a device, or misuses its own: an answer, and never a hang."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import BUILD, PATIENCE_S, STANDIN_OBJECTS, Machine, until

_PROGRAMS = Path(__file__).parent / "programs"
_HELLO = struct.Struct("=IIQQII")  # pvrdma_wire_request of preload/wire.h
_ANSWER = struct.Struct("=iIQQQII")  # pvrdma_wire_answer
_EPROTONOSUPPORT = 93


def _folder(machine: Machine, name: str) -> Path:
    """A stand-in's folder with the files of a device, but without a stand-in."""
    folder = machine.own_folder(name)
    (folder / "tree").symlink_to(machine.runtime / "node0.standin/tree")
    return folder


def _preloaded(folder: Path) -> dict[str, str]:
    """The environment of a program whose stand-in has this folder."""
    return {"LD_PRELOAD": str(BUILD / "src/preload/libpvrdma-preload.so"), "PVRDMA_STANDIN": str(folder)}


def _has_no_device(output: str) -> bool:
    """As ibv_devices says it on a machine without RDMA."""
    return "vmw_pvrdma0" not in output and output.endswith("Failed to get IB devices list: Function not implemented\n")


def test_no_standin(shared_machine: Machine) -> None:
    done = shared_machine.run_plainly("ibv_devices", **_preloaded(_folder(shared_machine, "empty")))
    assert _has_no_device(done.stdout) and "does not answer" in done.stdout, done.stdout


def _answered(machine: Machine, name: str, answer: Callable[[int], bytes]) -> tuple[int, str]:
    """The protocol version of a program's library, and the program's output. A stand-in of our own answers the library's first
    message with answer(version), and nothing after it."""
    folder = _folder(machine, name)
    path = folder / "standin.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as standin:
        standin.settimeout(PATIENCE_S)
        standin.bind(str(path))
        path.chmod(0o666)
        standin.listen()
        program = machine.start("ibv_devices", **_preloaded(folder))
        connection, _ = standin.accept()
        with connection:
            version = int(_HELLO.unpack(connection.recv(_HELLO.size))[3])
            connection.send(answer(version))
            output, _ = program.communicate(timeout=PATIENCE_S)
    path.unlink()
    return version, output


def test_standin_of_another_version(shared_machine: Machine) -> None:
    """The line says which two versions there are, and what to do."""
    version, output = _answered(shared_machine, "other-version", lambda version: _ANSWER.pack(_EPROTONOSUPPORT, 0, version + 96, 0, 0, 0, 0))
    assert _has_no_device(output), output
    assert f"this library speaks version {version} and the stand-in version {version + 96}" in output, output


def test_standin_that_answers_nonsense(shared_machine: Machine) -> None:
    """Its connection ends in the middle of an answer: the program goes on without a device."""
    _, output = _answered(shared_machine, "nonsense", lambda _: bytes(_ANSWER.size - 1))
    assert _has_no_device(output), output


def test_adapter_that_another_has(shared_machine: Machine) -> None:
    """A VMM or another stand-in. One sentence says so."""
    done = shared_machine.run("--daemon", str(shared_machine.api), "--adapter", "node0", "true", node=None)
    assert done.returncode == 125, done.stdout
    assert done.stdout.count("\n") == 1 and "the device takes no client now: a VM or another program has it" in done.stdout, done.stdout


@pytest.mark.parametrize("option", ["-static", ""])
def test_program_that_the_library_does_not_reach(shared_machine: Machine, option: str) -> None:
    """A static program, and one that is started without the library: they see what the machine has."""
    source = shared_machine.folder / "look.c"
    program = shared_machine.folder / "look"
    source.write_text('#include <fcntl.h>\n#include <stdio.h>\n'
                      'int main(void) { puts(open("/dev/infiniband/uverbs0", O_RDWR) < 0 ? "none" : "one"); return 0; }\n')
    subprocess.run(["gcc", *option.split(), "-o", program, source], check=True)
    words = [str(program)] if option else ["env", "-u", "LD_PRELOAD", str(program)]
    done = shared_machine.run(*words)
    assert done.returncode == 0 and done.stdout == ("one\n" if Path("/dev/infiniband/uverbs0").exists() else "none\n")
    assert shared_machine.run(str(program)).stdout == ("one\n" if not option else done.stdout)
    source.unlink()
    program.unlink()


@pytest.mark.parametrize("case", ["too_many_files", "maps_over_its_queues", "too_many_contexts"])
def test_misuse(shared_machine: Machine, case: str) -> None:
    """The program alone has the loss, and leaves nothing (programs/misuse.py says what each case is)."""
    done = shared_machine.run("/usr/bin/python3", str(_PROGRAMS / "misuse.py"), case)
    assert done.returncode == 0 and done.stdout.endswith("passed\n"), done.stdout
    until(lambda: shared_machine.ask("adapters/node0")["objects"] == STANDIN_OBJECTS, "the program's objects are gone")
