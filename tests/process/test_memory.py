"""The program's memory while it is registered, and afterwards (programs/memory.py says what each case is)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from machine import Machine

PROGRAM = Path(__file__).parent / "programs/memory.py"


@pytest.mark.parametrize(
    "case", ["fork", "fork_that_goes_on", "fork_on_a_registered_stack", "map_again", "private_again", "closed_with_a_region",
             "descriptors_closed", "own_stack", "own_stack_beside_a_thread", "small_stack",
             "child_by_vfork", "many", "refused", "refused_by_the_device", "other_threads", "other_threads_in_a_container",
             "a_thread_that_cannot_be_stopped"])
def test_memory(shared_machine: Machine, case: str) -> None:
    done = shared_machine.run("/usr/bin/python3", str(PROGRAM), case)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout


@pytest.mark.parametrize("case", ["fork_that_goes_on", "private_again", "many", "other_threads"])
def test_memory_with_jemalloc(shared_machine: Machine, case: str) -> None:
    """An allocator that throws pages away and takes them again, and replaces libc's functions."""
    done = shared_machine.run("/usr/bin/python3", str(PROGRAM), case, LD_PRELOAD="libjemalloc.so.2")
    assert done.returncode == 0 and done.stdout == "passed\n", done.stdout


def _compiled(machine: Machine, *options: str) -> str:
    """programs/loopback.c, in the machine's folder."""
    program = machine.folder / f"loopback{''.join(options)}"
    subprocess.run(["gcc", "-O1", "-g", *options, "-o", program, PROGRAM.parent / "loopback.c", "-libverbs"], check=True)
    return str(program)


@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_sanitized_program(shared_machine: Machine, sanitizer: str) -> None:
    """They replace libc's functions, and AddressSanitizer forbids reading what surrounds the program's objects."""
    program = _compiled(shared_machine, f"-fsanitize={sanitizer}")
    # ThreadSanitizer of GCC 12 needs addresses that some kernels do not give at random.
    done = shared_machine.run("setarch", "--addr-no-randomize", program, ASAN_OPTIONS="verify_asan_link_order=0")
    assert done.returncode == 0 and done.stdout.endswith("passed\n") and "ERROR" not in done.stdout, done.stdout


def test_java_vm(shared_machine: Machine) -> None:
    """A process with threads of its own, beside which its agent registers memory: when the VM starts, and when it ends."""
    agent = _compiled(shared_machine, "-shared", "-fPIC")
    done = shared_machine.run("java", f"-agentpath:{agent}", "-Xmx64m", "-XX:+UseG1GC", "-XX:+AlwaysPreTouch", "-version")
    assert done.returncode == 0 and done.stdout.count("passed\n") == 2, done.stdout
