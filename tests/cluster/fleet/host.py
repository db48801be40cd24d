"""One host of the fleet: its pvrdmad and pvrdmactl."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.network import Network
from fleet.service import Service
from harness import as_unit, process
from harness.daemon import binary

_READY_GUARD_S = 20.0
_STOP_GUARD_S = 15.0
_CTL_GUARD_S = 120.0  # motions are over by then


@dataclass(frozen=True)
class Certificates:
    """PEM files for [tcp]."""

    ca: Path
    certificate: Path
    key: Path


class Refused(AssertionError):
    """pvrdmactl ended with 1; the text is its output."""


class Host:
    """`store` is the [store] table's text, and `state` the folder of a SQLite store that is not in `folder`."""

    def __init__(self, name: str, address: str, network: Network, store: str, folder: Path, logs: Path,
                 certificates: Certificates | None = None, lanes: int = 4, state: Path | None = None, shards: int = 1) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.api = folder / "api.sock"
        self.log = logs / f"{name}.log"
        self.config = logs / f"{name}.toml"
        self._network = network
        self.program = binary("pvrdmad")
        self.ctl_environment: dict[str, str] | None = None  # pvrdmactl's environment; None: the caller's
        self._process: subprocess.Popen[bytes] | None = None
        self._service: Service | None = None
        folder.mkdir()
        as_unit.give_folder(folder)
        self._writable = [folder] if state is None else [folder, state]
        as_unit.give(*self._writable)
        self._readable: list[Path] = []
        tcp = [f"lanes = {lanes}"]
        if certificates is not None:
            tcp += [f'ca = "{certificates.ca}"', f'certificate = "{certificates.certificate}"',
                    f'key = "{certificates.key}"']
            self.give(certificates.ca, certificates.certificate, certificates.key)
        self.config.write_text("\n".join([
            "[daemon]", f'api_socket = "{self.api}"', "fault_injection = true", f"shards = {shards}", "[host]", f'name = "{name}"', 'vmnics = ["eth1", "eth2"]',
            f'socket_folder = "{folder}"', "[store]", store, "[tcp]", *tcp, ""]), encoding="utf-8")
        self.give(self.config)

    def add_to_store(self, lines: str) -> None:
        """Adds lines to [store], before start()."""
        text = self.config.read_text(encoding="utf-8")
        self.config.write_text(text.replace("[store]\n", f"[store]\n{lines}\n", 1), encoding="utf-8")

    def add_lines(self, lines: str) -> None:
        """Adds lines at the end of the configuration, before start()."""
        with open(self.config, "a", encoding="utf-8") as config:
            config.write(lines + "\n")

    def give(self, *paths: Path) -> None:
        """Lets the daemon read files or folders of its own from its next start on."""
        as_unit.give(*paths)
        self._readable += paths

    @property
    def running(self) -> bool:
        """Whether the daemon runs."""
        if self._service is not None:
            return self._service.running
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The daemon's process id; the command that starts it becomes it."""
        assert self._process is not None
        return self._process.pid

    def start(self, wait: bool = True) -> None:
        """Starts the daemon. With `wait` it returns when the API answers."""
        self._process = process.start(self._command(), self.log)
        if wait:
            self.wait_ready()

    def become_service(self) -> Service:
        """Stops the daemon, and starts it as a service of its own systemd, which manages it afterwards."""
        self.stop()
        self._process = None
        self._service = Service("pvrdmad", self._command(), self.folder / "service", self.log)
        self._service.open()
        self._service.call("start")
        return self._service

    def _command(self) -> list[str]:
        has_xdp = 'link = "xdp:' in self.config.read_text(encoding="utf-8")
        return [*self._network.inside(self.name), *as_unit.command(self.program, "--config", str(self.config), writable=self._writable,
                                                                   readable=self._readable, xdp=has_xdp)]

    def wait_ready(self) -> None:
        """Waits until the API answers."""
        deadline = time.monotonic() + _READY_GUARD_S
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                state = "is not ready" if self.running else "has ended"
                raise RuntimeError(f"pvrdmad of {self.name} {state}; {self.log}:\n{process.tail(self.log)}")
            time.sleep(0.02)

    def wait_end(self, guard_s: float = _STOP_GUARD_S) -> int:
        """Waits until the daemon has ended by itself. Returns its exit code."""
        assert self._process is not None
        return self._process.wait(guard_s)

    def stop(self) -> int:
        """Sends SIGTERM. Returns the exit code, which is 0 after a clean stop."""
        assert self._process is not None
        return process.stop(self._process, _STOP_GUARD_S)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the daemon if it runs."""
        if self._service is not None:
            self._service.call("stop")
            self._service.close()
        elif self.running:
            self.resume()
            self.stop()

    def ctl_text(self, *arguments: str) -> str:
        """The output of `pvrdmactl ARGUMENTS`. Refused with its sentence if it ends with 1."""
        command = [str(binary("pvrdmactl")), "--api", str(self.api), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CTL_GUARD_S,
                              check=False, env=self.ctl_environment)
        if done.returncode == 1:
            raise Refused(done.stderr.strip())
        if done.returncode != 0:
            raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def ctl(self, *arguments: str) -> Any:
        """The parsed output of `pvrdmactl --json ARGUMENTS`."""
        return json.loads(self.ctl_text("--json", *arguments))

    def ctl_outcome(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output of `pvrdmactl ARGUMENTS`."""
        done = subprocess.run([str(binary("pvrdmactl")), "--api", str(self.api), *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=_CTL_GUARD_S, check=False)
        return done.returncode, done.stdout

    def refusal(self, *arguments: str) -> str:
        """The sentence with which `pvrdmactl ARGUMENTS` is refused. AssertionError if it is not."""
        try:
            printed = self.ctl_text(*arguments)
        except Refused as refused:
            return str(refused)
        raise AssertionError(f"pvrdmactl {' '.join(arguments)} was not refused; it printed:\n{printed}")

    def logged(self) -> str:
        """The daemon's whole log."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self.api)) == 0
