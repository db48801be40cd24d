"""One user's nodes: runs stock programs with pvrdma-run, as an ordinary user, and ends all of it.

A root who runs the tests becomes the user "nobody" in the programs that they start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / os.environ.get("PVRDMA_BUILD", "build/release")
PVRDMA_RUN = BUILD / "src/pvrdma_run/pvrdma-run"
# A hang guard, for a machine that other tests load.
PATIENCE_S = 60
NOBODY = 65534
STANDIN_OBJECTS = {"contexts": 0, "pds": 1, "mrs": 1, "cqs": 1, "qps": 1, "srqs": 0}  # of an adapter without programs: queue pair 1
# UCX 1.13 asks for an acknowledgement if its request to connect is not answered within 10 ms, as on a loaded machine. It does not
# know its peer's endpoint yet, and its peer takes that for a request to connect: it aborts (ud_ep.c, "Assertion `ctl->type ==
# UCT_UD_PACKET_CREQ' failed"), or, if its buffer still has an older request, takes that one once more and gets stuck.
PATIENT_UCX = {"UCX_UD_VERBS_TIMER_TICK": "5s"}
_REFUSALS = ("REJECTED", "RDMA_CM_EVENT_UNREACHABLE, error: 1\n", "Connection refused", "Unexpected CM event")


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

    @property
    def api(self) -> Path:
        """The daemon's socket for the API."""
        return self.runtime / "api.sock"

    def ask(self, path: str) -> Any:
        """The daemon's answer to a GET of the API; None if it does not run."""
        answer = subprocess.run(["curl", "-s", "--unix-socket", self.api, f"http://localhost/v1/{path}"],
                                capture_output=True, text=True, check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

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

    def own_folder(self, name: str) -> Path:
        """A folder of the programs' user."""
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.user:
            os.chown(folder, NOBODY, NOBODY)
        return folder

    def start_daemon(self, *arguments: str, nodes: int = 2) -> subprocess.Popen[str]:
        """Starts the daemon that pvrdma-run then finds."""
        self.own_folder(self.runtime.name)
        return self.start(str(BUILD / "src/pvrdmad/pvrdmad"), "--ci", str(nodes), "--runtime", str(self.runtime), *arguments)

    def run(self, *command: str, node: int | None = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        return _finished(self.popen(*command, node=node, **environment))

    def run_plainly(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command that starts pvrdma-run itself."""
        return _finished(self.start(*command, **environment))

    def pair(self, server: Sequence[str], client: Sequence[str], nodes: tuple[int, int],
             is_listening: Callable[[], bool] | None = None, **environment: str) -> tuple[str, str]:
        """Runs a server on one node, and a client on the other as soon as the server listens. `is_listening` says when the server
        listens; without it, its TCP port does. Both must succeed. Returns their outputs."""
        port = int(server[server.index("-p") + 1])
        return self.meet(self.popen(*server, node=nodes[0], **environment), is_listening or (lambda: listens(port)),
                         lambda: self.run(*client, node=nodes[1], **environment))

    def meet(self, listening: subprocess.Popen[str], is_listening: Callable[[], bool],
             client: Callable[[], subprocess.CompletedProcess[str]]) -> tuple[str, str]:
        """Runs a client as soon as the server, which has been started, listens. Both must succeed. Returns their outputs."""
        until(lambda: is_listening() or listening.poll() is not None, f"{listening.args} listens")
        return self._checked(listening, client())

    def connect(self, server: Sequence[str], client: Sequence[str], nodes: tuple[int, int]) -> tuple[str, str]:
        """Runs a server of rdma_cm, and a client again and again until the server takes it. Both must succeed. Returns their
        outputs.

        A client is refused at once while the server does not listen yet. One with several connections may be refused in part,
        and then its server ends, too: both begin again.
        """
        listening = self.popen(*server, node=nodes[0])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = self.run(*client, node=nodes[1])
            if done.returncode == 0 or not is_refusal(done.stdout):
                break
            assert time.monotonic() < deadline, f"the client is refused for {PATIENCE_S} s: {done.stdout}"
            if listening.poll() is not None:
                listening = self.popen(*server, node=nodes[0])
        return self._checked(listening, done)

    def _checked(self, server: subprocess.Popen[str], client: subprocess.CompletedProcess[str]) -> tuple[str, str]:
        """The outputs of two programs that must succeed. If the client has failed, nobody comes to the server any more."""
        if client.returncode != 0 and server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        output, _ = server.communicate(timeout=PATIENCE_S)
        assert client.returncode == 0, f"client: {client.stdout}\nserver: {output}"
        assert server.returncode == 0, f"server: {output}\nclient: {client.stdout}"
        return output, client.stdout

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


def address_of(node: int) -> str:
    """Of the node, for rdma_cm."""
    return f"10.99.0.{node + 1}"


def is_refusal(output: str) -> bool:
    """Whether a client of rdma_cm says that its server does not listen."""
    return any(each in output for each in _REFUSALS)


def listens(port: int) -> bool:
    """Whether something listens on the TCP port. Does not connect, because a server takes only one client."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False
