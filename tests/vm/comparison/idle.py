"""The CPU time of all threads of a daemon over some seconds while nothing happens."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from comparison.machines import HARDWARE_VERSION, MAPPED, TRAPPED, Contender, Machines
from harness import process
from harness.daemon import Adapter, Daemon, binary

_SETTLE_S = 1.0  # then the shard's timed sleeps have reached their full length
_OPEN_GUARD_S = 60.0
_CLOSE_GUARD_S = 20.0
_HOLD_CONTEXT = "exec ibv_asyncwatch -d {device}"
_AWAIT_CONTEXT = "until rdma resource show ctx dev {device} | grep -q asyncwatch; do sleep 0.05; done"


@dataclass(frozen=True)
class Case:
    """An idle daemon. `measure` watches it for a number of seconds and returns percent of one core."""

    title: str
    measure: Callable[[float], float]


def cpu_ns(pid: int) -> dict[int, int]:
    """Nanoseconds of CPU time of each thread of a process, by thread id."""
    used = {}
    for task in (Path("/proc") / str(pid) / "task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            used[int(task.name)] = int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return used


def percent_of_core(pid: int, seconds: float) -> float:
    """The process's CPU time in the next `seconds`, after it has settled. Threads that end meanwhile do not
    count."""
    time.sleep(_SETTLE_S)
    start, before = time.monotonic(), cpu_ns(pid)
    time.sleep(seconds)
    after, end = cpu_ns(pid), time.monotonic()
    return sum(used - before.get(thread, 0) for thread, used in after.items()) / 1e9 / (end - start) * 100


def of_machines(machines: Machines) -> list[Case]:
    """The VMs' daemon: without verbs processes, then with an idle one in each VM, for both kinds of doorbells."""
    def measure(contender: Contender | None, seconds: float) -> float:
        for vm in machines.vms:
            vm.check("true")  # raises if the guest is gone
        with _contexts(machines, contender) if contender is not None else contextlib.nullcontext():
            return percent_of_core(machines.daemon.pid, seconds)

    return [Case("2 VMs, no verbs process", functools.partial(measure, None)),
            *(Case(f"2 VMs, an idle verbs process each, {contender.title}", functools.partial(measure, contender))
              for contender in (TRAPPED, MAPPED))]


def of_daemons(logs: Path) -> list[Case]:
    """Separate daemons, whose guests are idle user-space drivers."""
    shapes = [(TRAPPED, 100, True), *((MAPPED, count, processes) for processes in (False, True) for count in (1, 100))]
    return [Case(f"{count} {doorbells.title} adapter{'s' * (count > 1)}, "
                 + ("an idle verbs process each" if processes else "no verbs process"),
                 functools.partial(_of_daemon, doorbells, count, processes, logs / str(number)))
            for number, (doorbells, count, processes) in enumerate(shapes)]


def _of_daemon(doorbells: Contender, count: int, processes: bool, logs: Path, seconds: float) -> float:
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as folder:
        run = Path(folder)
        adapters = [Adapter(f"idle-{index}", run / f"{index}.sock", f"52:54:00:12:37:{index:02x}", HARDWARE_VERSION,
                            doorbells=doorbells.key) for index in range(count)]
        daemon = Daemon(adapters, run, logs)
        try:
            daemon.start()
            with _guests(adapters, processes, logs):
                return percent_of_core(daemon.pid, seconds)
        finally:
            if daemon.running:
                daemon.stop()


@contextlib.contextmanager
def _contexts(machines: Machines, contender: Contender) -> Iterator[None]:
    """Each VM has a process that has opened the contender's device and waits for its events."""
    devices = [machines.device(vm, contender).name for vm in machines.vms]
    jobs = []
    try:
        for vm, device in zip(machines.vms, devices):
            jobs.append(vm.start_job(_HOLD_CONTEXT.format(device=device)))
            vm.check(_AWAIT_CONTEXT.format(device=device), _OPEN_GUARD_S)
        yield
    finally:
        for vm, job in zip(machines.vms, jobs):
            if vm.running and not job.done:
                job.kill()


@contextlib.contextmanager
def _guests(adapters: list[Adapter], processes: bool, logs: Path) -> Iterator[None]:
    """A guest on each adapter, all of them open."""
    log = logs / "idle_guests.log"
    options = [argument for adapter in adapters for argument in ("--adapter", str(adapter.socket))]
    running = process.start([str(binary("idle_guests", "bench")), *options, *(["--contexts"] if processes else [])], log)
    try:
        _await_open(running, log)
        yield
    finally:
        process.stop(running, _CLOSE_GUARD_S)


def _await_open(running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _OPEN_GUARD_S
    while "open" not in log.read_text(encoding="utf-8").split():
        if running.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the idle guests did not open their adapters; {log}:\n{process.tail(log)}")
        time.sleep(0.02)
