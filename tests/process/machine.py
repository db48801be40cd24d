"""One user's nodes: runs stock programs with pvrdma-run, as an ordinary user, and ends all of it.

A root who runs the tests becomes the user "nobody" in the programs that they start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / os.environ.get("PVRDMA_BUILD", "build/release")
PVRDMA_RUN = BUILD / "src/pvrdma_run/pvrdma-run"
# A hang guard, for a machine that other tests load.
PATIENCE_S = 60
NOBODY = 65534


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s until {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Machine:
    """A runtime folder of its own, with its daemon and stand-ins."""

    def __init__(self) -> None:
        # Paths of UNIX sockets are short, so pytest's own folders are too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="pvrdma-process-", dir="/tmp"))
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.user:
            os.chown(self.folder, NOBODY, NOBODY)
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "XDG_RUNTIME_DIR": str(self.folder), "HOME": str(self.folder), "PVRDMA_LOG": "1"}
        self.started: list[subprocess.Popen[str]] = []

    @property
    def runtime(self) -> Path:
        return self.folder / "pvrdma"

    def popen(self, *command: str, node: int | None = 0, **environment: str) -> subprocess.Popen[str]:
        """Starts the command on a node, or with pvrdma-run's own options (None)."""
        place = [] if node is None else ["--node", str(node)]
        return self.start(str(PVRDMA_RUN), *place, *command, **environment)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Starts a command as it is."""
        started = subprocess.Popen(
            command, cwd=self.folder, env=self.environment | environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **self.user)
        self.started.append(started)
        return started

    def start_daemon(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts the daemon that pvrdma-run then finds, with two nodes."""
        self.runtime.mkdir(mode=0o700)
        if self.user:
            os.chown(self.runtime, NOBODY, NOBODY)
        return self.start(str(BUILD / "src/pvrdmad/pvrdmad"), "--ci", "2", "--runtime", str(self.runtime), *arguments)

    def run(self, *command: str, node: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        return _finished(self.popen(*command, node=node, **environment))

    def run_plainly(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command that starts pvrdma-run itself."""
        return _finished(self.start(*command, **environment))

    def pair(self, server: Sequence[str], client: Sequence[str], nodes: tuple[int, int], **environment: str) -> tuple[str, str]:
        """Runs a server on one node, and a client on the other as soon as the server listens. Both must succeed. Returns
        their outputs."""
        return self.meet(self.popen(*server, node=nodes[0], **environment), int(server[server.index("-p") + 1]),
                         lambda: self.run(*client, node=nodes[1], **environment))

    def meet(self, listening: subprocess.Popen[str], port: int,
             client: Callable[[], subprocess.CompletedProcess[str]]) -> tuple[str, str]:
        """Runs a client as soon as the server, which has been started, listens. Both must succeed. Returns their outputs."""
        until(lambda: listens(port) or listening.poll() is not None, f"{listening.args} listens on port {port}")
        done = client()
        output, _ = listening.communicate(timeout=PATIENCE_S)
        assert done.returncode == 0, f"client: {done.stdout}\nserver: {output}\n{self.logs()}"
        assert listening.returncode == 0, f"server: {output}\nclient: {done.stdout}\n{self.logs()}"
        return output, done.stdout

    def logs(self) -> str:
        return "\n".join(f"{path}:\n{path.read_text()}" for path in sorted(self.runtime.glob("**/*.log")))

    def processes(self) -> dict[str, int]:
        """The ids of daemon and stand-ins by their names."""
        lines = [line.split() for line in self.run("--list", node=None).stdout.splitlines()]
        return {line[0]: int(line[2].rstrip(",")) for line in lines if line[1] == "process"}

    def kill_programs(self) -> None:
        """Ends the programs that still run."""
        for each in self.started:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
            each.communicate()
        self.started.clear()

    def close(self) -> None:
        self.kill_programs()
        stopped = self.run("--stop", node=None)
        left = self.run("--list", node=None).stdout
        shutil.rmtree(self.folder)
        assert stopped.returncode == 0, stopped.stdout
        assert left.startswith("nothing runs"), left


def _finished(started: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    output, _ = started.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(started.args, started.returncode, output)


def listens(port: int) -> bool:
    """Whether something listens on the TCP port. Does not connect, because a server takes only one client."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False
