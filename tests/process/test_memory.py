"""The program's memory while it is registered, and afterwards (programs/memory.py says what each case is)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from machine import BUILD, Machine, until

PROGRAM = Path(__file__).parent / "programs/memory.py"


@pytest.mark.parametrize(
    "case", ["fork", "fork_with_memory_that_nothing_may_read", "fork_that_goes_on", "fork_on_a_registered_stack",
             "fork_when_the_mappings_cannot_be_read", "map_again", "private_again", "closed_with_a_region",
             "descriptors_closed", "own_stack", "own_stack_beside_a_thread", "small_stack",
             "child_by_vfork", "many", "refused_by_the_device", "file_stays_shared", "file_keeps_its_locks", "files_refused",
             "anonymous_stays_shared", "anonymous_in_parts", "many_anonymous", "other_threads", "other_threads_in_a_container",
             "first_thread_ended", "first_thread_ended_in_a_container", "a_thread_that_cannot_be_stopped"])
def test_memory(shared_machine: Machine, case: str) -> None:
    done = shared_machine.run("/usr/bin/python3", str(PROGRAM), case)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout


def test_memory_refused(shared_machine: Machine) -> None:
    """The log names the place, and the mapping that is there."""
    done = shared_machine.run("/usr/bin/python3", str(PROGRAM), "refused")
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("0x") or "memory at" in line]
    places, messages = lines[::2], lines[1::2]
    assert len(places) == len(messages) == 3, done.stdout
    for place, message, reason in zip(places, messages, ["nothing is mapped there", "nothing is mapped there", "/dev/zero (deleted)"]):
        assert f"memory at {place} cannot be registered" in message and message.endswith(reason), done.stdout


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


@pytest.mark.parametrize("source", ["path", "memfd", "uneven", "huge", "anonymous"])
def test_memory_of_a_file(shared_machine: Machine, source: str) -> None:
    """Memory that a program shares with others by a file on tmpfs or hugetlbfs."""
    path = Path(f"/dev/shm/{shared_machine.folder.name}")
    try:
        done = shared_machine.run(_compiled(shared_machine), str(path) if source == "path" else source)
        if "no huge pages" in done.stdout:
            pytest.skip("the machine has no huge pages: sysctl vm.nr_hugepages=20")
        assert done.returncode == 0 and done.stdout == "passed\n", done.stdout
    finally:
        path.unlink(missing_ok=True)


def test_file_that_loses_its_pages(machine: Machine) -> None:
    """The daemon goes on, and so does the node, with another stand-in. Its adapter has stopped."""
    program = _compiled(machine)
    assert machine.run(program, "cut").returncode == 0
    until(lambda: "the VMM removed guest memory" in (machine.runtime / "pvrdmad.log").read_text(), "the adapter stops")
    daemon = machine.processes()["pvrdmad"]
    until(lambda: machine.run(program).returncode == 0, "the node works again")
    assert machine.processes()["pvrdmad"] == daemon


def test_file_of_a_user_among_others(machine: Machine) -> None:
    """A file that its user could make smaller would be a danger to the other users of the adapter."""
    assert machine.run("--start").returncode == 0
    folder = machine.folder / "for-all"
    machine.run_plainly("mkdir", str(folder))
    machine.start(
        str(BUILD / "src/pvrdma_standin/pvrdma-standin"), "--socket", str(machine.runtime / "node3.sock"), "--folder", str(folder),
        "--group", str(machine.user.get("group", os.getgid())))
    until((folder / "standin.sock").exists, "the stand-in serves")
    environment = {"LD_PRELOAD": str(BUILD / "src/preload/libpvrdma-preload.so"), "PVRDMA_STANDIN": str(folder), "PVRDMA_LOG": "1"}
    program = _compiled(machine)
    assert machine.run_plainly(program, **environment).stdout == "passed\n"
    refused = machine.run_plainly(program, "memfd", **environment)
    assert refused.returncode == 1 and "ibv_reg_mr: Invalid argument" in refused.stdout, refused.stdout


def test_java_vm(shared_machine: Machine) -> None:
    """A process with threads of its own, beside which its agent registers memory: when the VM starts, and when it ends."""
    agent = _compiled(shared_machine, "-shared", "-fPIC")
    done = shared_machine.run("java", f"-agentpath:{agent}", "-Xmx64m", "-XX:+UseG1GC", "-XX:+AlwaysPreTouch", "-version")
    assert done.returncode == 0 and done.stdout.count("passed\n") == 2, done.stdout
