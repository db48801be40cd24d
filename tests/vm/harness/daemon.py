"""The daemon under test: configuration, start, readiness, control through pvrdmactl, stop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import as_unit, process

REPOSITORY = Path(__file__).resolve().parents[3]
_READY_GUARD_S = 20.0
_STOP_GUARD_S = 10.0
_CTL_GUARD_S = 20.0
_REFUSED_CALL = "pvrdmad: sandbox: refused"


@dataclass(frozen=True)
class Adapter:
    """One [[adapter]] of the daemon's configuration."""

    name: str
    socket: Path
    mac: str
    hardware_version: int
    roce: str | None = None
    doorbells: str | None = None
    mtu: int | None = None


class Daemon:
    """pvrdmad serving `adapters`. Binaries come from PVRDMA_BUILD (default: build/release of this repository); adapters
    without a doorbell mode have the mode PVRDMA_DOORBELLS (default: the daemon's). With a `roce_link`, a hub's socket, set
    before it starts, its adapters may reach native endpoints there; with `fault_injection` faults may be injected.
    """

    def __init__(self, adapters: list[Adapter], run_folder: Path, logs: Path) -> None:
        self.adapters = adapters
        self.api = run_folder / "api.sock"
        self._run_folder = run_folder
        self.log = logs / "pvrdmad.log"
        self.config = logs / "pvrdmad.toml"
        self.roce_link: Path | None = None
        self.fault_injection = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the daemon runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id, once started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Writes the configuration, starts the daemon and waits until it serves every adapter and the API."""
        self.config.write_text(self._toml(), encoding="utf-8")
        as_unit.give(self.config)
        as_unit.give_folder(self._run_folder)
        readable = [self.config] + ([self.roce_link.parent] if self.roce_link is not None else [])
        command = as_unit.command(binary("pvrdmad"), "--config", str(self.config), writable=[self._run_folder], readable=readable)
        self._process = process.start(command, self.log)
        deadline = time.monotonic() + _READY_GUARD_S
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                state = "is not ready" if self.running else f"ended with {self._process.wait()}"
                raise RuntimeError(f"pvrdmad {state}; {self.log}:\n{process.tail(self.log)}")
            time.sleep(0.02)

    def stop(self) -> int:
        """Sends SIGTERM. Returns the exit code, which is 0 after a clean stop."""
        assert self._process is not None
        return process.stop(self._process, _STOP_GUARD_S)

    def ctl(self, *arguments: str) -> Any:
        """The parsed output of `pvrdmactl --json ARGUMENTS`."""
        return json.loads(self._ctl("--json", *arguments))

    def ctl_text(self, *arguments: str) -> str:
        """The output of `pvrdmactl ARGUMENTS`, for people."""
        return self._ctl(*arguments)

    def _ctl(self, *arguments: str) -> str:
        command = [str(binary("pvrdmactl")), "--api", str(self.api), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=_CTL_GUARD_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _ready(self) -> bool:
        if not all(adapter.socket.is_socket() for adapter in self.adapters):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self.api)) == 0

    def _toml(self) -> str:
        lines = ["[daemon]", f'api_socket = "{self.api}"', 'log_level = "info"']
        if self.fault_injection:
            lines.append("fault_injection = true")
        for adapter in self.adapters:
            lines += ["", "[[adapter]]", f'name = "{adapter.name}"', f'socket = "{adapter.socket}"',
                      f'mac = "{adapter.mac}"', f"hardware_version = {adapter.hardware_version}"]
            if adapter.roce is not None:
                lines.append(f'roce = "{adapter.roce}"')
            if doorbells := adapter.doorbells or os.environ.get("PVRDMA_DOORBELLS"):
                lines.append(f'doorbells = "{doorbells}"')
            if adapter.mtu is not None:
                lines.append(f"mtu = {adapter.mtu}")
        if self.roce_link is not None:
            lines += ["", "[[roce]]", f'link = "stream:{self.roce_link}"']
        return "\n".join([*lines, ""])


def expect_quiet_sandboxes(logs: Path, since: float) -> None:
    """Checks that no daemon with a log below `logs` that grew since `since` was refused a system call: all run
    confined."""
    for log in logs.rglob("*.log"):
        if log.stat().st_mtime >= since:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            refused = [line for line in lines if _REFUSED_CALL in line]
            assert not refused, f"the sandbox refused the daemon what it needs, or was right to; {log}: {refused}"


def binary(name: str, folder: str | None = None) -> Path:
    """The path of a program built in `folder` (default: src/NAME). RuntimeError names the build command if it
    does not exist."""
    build = Path(os.environ.get("PVRDMA_BUILD") or REPOSITORY / "build" / "release")
    path = build / (folder or f"src/{name}") / name
    if not path.is_file():
        raise RuntimeError(f"{path} does not exist; build it with: "
                           "cmake --preset release && cmake --build --preset release")
    return path
