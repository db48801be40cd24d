"""Completion of pvrdmactl in real shells, against a simulated API. What is suggested is tested in completion_test.cc.

Run by ctest (label cli), or: PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_completion.py
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_api import GUARD_S, PVRDMACTL, Api, run

SCRIPTS = Path(PVRDMACTL).with_name("completion")  # as installed
HOSTS = [{"name": "esx-01"}, {"name": "storage"}]


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed: see tools/setup")


@pytest.fixture
def environment(tmp_path: Path, api: Api) -> dict[str, str]:
    """Of a shell: pvrdmactl is in the PATH, and the daemon that it asks is `api`."""
    (tmp_path / "bin").mkdir()
    for name in ("pvrdmactl", "esxcli"):
        (tmp_path / "bin" / name).symlink_to(PVRDMACTL)
    api.answer = HOSTS
    return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb",
            "PVRDMA_API": str(api.path), "LC_ALL": "C.UTF-8"}


class Terminal:
    """An interactive shell in a pseudo terminal."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self.seen = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def until(self, is_there: Callable[[], bool]) -> None:
        end = time.monotonic() + GUARD_S
        while not is_there():
            left = end - time.monotonic()
            assert left > 0, f"the shell did not get there: {self.seen!r}"
            if select.select([self.descriptor], [], [], min(left, 0.05))[0]:
                self.seen += os.read(self.descriptor, 4096).decode(errors="replace")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)


START = {"bash": (["bash", "--norc", "--noprofile", "-i"], f"source {shlex.quote(str(SCRIPTS / 'pvrdmactl'))}"),
         "zsh": (["zsh", "-f", "-i"],
                 f"fpath=({shlex.quote(str(SCRIPTS))} $fpath); autoload -Uz compinit; compinit -u -D")}


@pytest.fixture(params=[pytest.param(shell, marks=needs(shell)) for shell in START])
def terminal(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> Iterator[Terminal]:
    command, setup = START[request.param]
    shell = Terminal(command, environment, tmp_path)
    try:
        shell.type(f"{setup}; echo rea''dy\n")
        shell.until(lambda: "ready" in shell.seen)
        yield shell
    finally:
        shell.close()


@pytest.mark.parametrize(("typed", "request_made"), [
    ("pvrdmactl ho\tge\tesx\t", "GET /v1/hosts/esx-01"),
    ("esxcli rdma dev\tli\t--ho\tst\t", "GET /v1/hosts/storage"),
    ("pvrdmactl dvs crea\tDSwitch --upl\t3", 'POST /v1/dvs {"name":"DSwitch","uplinks":3}'),
])
def test_an_interactive_shell_completes_a_command(terminal: Terminal, api: Api, typed: str, request_made: str) -> None:
    """The completed line is run, and the request says what it was."""
    terminal.type(f"{typed}\n")
    terminal.until(lambda: request_made in api.asked)


def test_a_shell_completes_file_names(terminal: Terminal, api: Api, tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("0123456789abcdef0123\n")
    terminal.type("pvrdmactl --token-file tok\t --server https://127.0.0.1:1 version; echo en''d\n")
    terminal.until(lambda: "end" in terminal.seen)
    assert "--token-file token.txt" in terminal.seen
    assert api.asked == []


@needs("fish")
@pytest.mark.parametrize(("typed", "suggested"), [
    ("pvrdmactl ho", ["host\thosts of the cluster"]),
    ("pvrdmactl host get ", ["esx-01", "storage"]),
    ("esxcli rdma device list --host=st", ["--host=storage"]),
    ("pvrdmactl --token-file tok", ["token.txt"]),
    ("pvrdmactl --token-file=tok", ["--token-file=token.txt"]),
])
def test_fish(environment: dict[str, str], tmp_path: Path, typed: str, suggested: list[str]) -> None:
    (tmp_path / "token.txt").touch()
    script = f"source {shlex.quote(str(SCRIPTS / 'pvrdmactl.fish'))}; complete -C {shlex.quote(typed)}"
    done = subprocess.run(["fish", "--no-config", "-c", script], env=environment, cwd=tmp_path, text=True, capture_output=True,
                          timeout=GUARD_S, check=False)
    assert (done.stderr, done.stdout.splitlines()) == ("", suggested)


@pytest.mark.parametrize("answer", [None, {"error": "no cluster"}, [{"name": "$(rm x)"}]])
def test_a_daemon_that_does_not_help_is_not_mentioned(api: Api, tmp_path: Path, answer: object) -> None:
    if answer is None:
        done = run(PVRDMACTL, "--complete", "--api", str(tmp_path / "none.sock"), "vm", "get", "")
    else:
        api.answer = answer
        done = api.ctl("--complete vm get ''")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
