"""Programs of this machine that use an adapter of the daemon without a VM (`pvrdma-run`), in the place of a VM in tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from harness import as_unit, process
from harness.channel import GuestTimeout, Result
from harness.daemon import Adapter, binary
from harness.vm import DEVICE, link_local

_LISTENS_AGAIN = Path(__file__).parents[2] / "process/programs/listens_again.c"
_GUARD_S = 60
_POLL_S = 0.05
_TCP_LISTENS = "0A"


class ProcessJob:
    """A command that runs as the daemon's user, with everything that it starts. `has_network`: its words move it to a network
    namespace of its own."""

    def __init__(self, command: str, words: list[str], environment: dict[str, str], log: Path, has_network: bool = False) -> None:
        self.command = command
        self._has_network = has_network
        self._log = log
        self._process = process.start(words, log, environment)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def listens(self, port: int) -> bool:
        """Whether anything listens on a TCP port of its network namespace, once it is there. Does not connect, because a server
        takes only one client."""
        place = Path(f"/proc/{self._process.pid}")
        try:
            if self._has_network and (place / "ns/net").readlink() == Path("/proc/self/ns/net").readlink():
                return False
            lines = [line.split() for table in ("tcp", "tcp6") for line in (place / "net" / table).read_text().splitlines()[1:]]
        except OSError:  # it has ended
            return False
        return any(fields[1].endswith(f":{port:04X}") and fields[3] == _TCP_LISTENS for fields in lines)

    def wait(self, timeout_s: float = _GUARD_S) -> Result:
        """Its result. On timeout it is killed, and GuestTimeout has its output."""
        try:
            exit_code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as timeout:
            self.kill()
            raise GuestTimeout(f"'{self.command}' still ran after {timeout_s:g} s; it had printed:\n{self.output_so_far()}") from timeout
        return Result(exit_code, self.output_so_far())

    def output_so_far(self) -> str:
        """Its output up to now."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """kill -9 of the command and everything that it started."""
        if not self.done:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ProcessNode:
    """The programs of one adapter, with the addresses `address` and `address6`. Has what cases need of a VM.

    `api` is the daemon's API socket. `inside` are the words before a command that run it in another network namespace,
    and `nic` is an interface there, which names the scope of link-local addresses.
    """

    rdma_device = DEVICE

    def __init__(self, api: Path, adapter: Adapter, address: str, address6: str, logs: Path, inside: Sequence[str] = (),
                 nic: str = "lo") -> None:
        self.name = adapter.name
        self.nic = nic
        self.mac = adapter.mac
        self.address = address
        self.address6 = address6
        self.link_local = link_local(adapter.mac)
        self._logs = logs
        self._inside = list(inside)
        self._jobs: list[ProcessJob] = []
        self._place = [str(binary("pvrdma-run", "src/pvrdma_run")), "--daemon", str(api), "--adapter", adapter.name,
                       "--address", address, "--address", address6]
        # Paths of UNIX sockets are short, so the logs' folder is too deep.
        self._runtime = Path(tempfile.mkdtemp(prefix="pvrdma-", dir="/tmp"))
        self._environment = {"XDG_RUNTIME_DIR": str(self._runtime), "HOME": str(self._runtime), "PVRDMA_LOG": "1"}
        try:
            as_unit.give_folder(self._runtime)
            started = self._start("--start", "--start").wait()
            assert started.exit_code == 0, started.output
        except BaseException:
            self.close()
            raise

    @property
    def _standin_log(self) -> Path:
        return self._runtime / "pvrdma" / f"adapter-{self.name}.standin" / "standin.log"

    def start_job(self, command: str) -> ProcessJob:
        """Starts a shell command and returns at once. Any number can run at the same time."""
        return self._start(command, "sh", "-c", f"exec {command}")

    def run(self, command: str, timeout_s: float = _GUARD_S) -> Result:
        """Runs a shell command to its end."""
        return self.start_job(command).wait(timeout_s)

    def run_held(self, command: str, await_listener: Callable[[], object], timeout_s: float = _GUARD_S) -> Result:
        """Runs a command whose second rdma_connect() is held until `await_listener` has returned."""
        with tempfile.TemporaryDirectory(prefix="held-", dir=self._runtime) as name:
            folder = as_unit.give_folder(Path(name))
            library = folder / "listens_again.so"
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, _LISTENS_AGAIN], check=True)
            job = self.start_job(f"env LISTENS_AGAIN={folder} LD_PRELOAD=$LD_PRELOAD:{library} {command}")
            try:
                end = time.monotonic() + timeout_s
                while not job.done and not (folder / "connecting-2").exists() and time.monotonic() < end:
                    time.sleep(_POLL_S)
                if not job.done:
                    await_listener()
                    (folder / "listening-2").touch()
                return job.wait(timeout_s)
            finally:
                job.kill()

    def close(self) -> None:
        """Ends its programs and its stand-in. Keeps the stand-in's log. A step that fails does not keep the others from
        running."""
        with ExitStack() as steps:  # the last one first
            steps.callback(shutil.rmtree, self._runtime)
            steps.callback(self._keep_log)
            steps.callback(self.pvrdma_run, "--stop")
            for job in self._jobs:
                steps.callback(job.kill)

    def pvrdma_run(self, action: str) -> Result:
        """Runs pvrdma-run with an option that takes no adapter, as --list."""
        words = [*as_unit.as_its_user(), self._place[0], action]
        log = self._logs / f"{self.name}.{action.lstrip('-')}"
        log.unlink(missing_ok=True)
        return ProcessJob(f"pvrdma-run {action}", words, self._environment, log).wait()

    def _keep_log(self) -> None:
        if self._standin_log.exists():
            shutil.copy(self._standin_log, self._logs / f"{self.name}.standin")

    def _start(self, command: str, *words: str) -> ProcessJob:
        job = ProcessJob(command, [*self._inside, *as_unit.as_its_user(), *self._place, *words], self._environment,
                         self._logs / f"{self.name}.{len(self._jobs)}", has_network=bool(self._inside))
        self._jobs.append(job)
        return job
