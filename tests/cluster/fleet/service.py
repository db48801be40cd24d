"""A systemd that runs one service: a separate user manager in its own mount and pid namespaces.

It starts, restarts and keeps descriptors like the machine's systemd, which is not involved.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import process
from harness.daemon import REPOSITORY

_MANAGER = Path("/usr/lib/systemd/systemd")
_READY_GUARD_S = 20.0
_CALL_GUARD_S = 60.0
# The manager expects these on a machine with systemd, and would otherwise share them with the machine's.
_BEGIN = "mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system && {manager} --user; true"
# The lines of the packaged unit that concern systemd's work. A user's manager may not do the confinement.
_LINES = re.compile(r"^(?:Type|NotifyAccess|Restart\w*|FileDescriptor\w+|Environment|Timeout\w+|StartLimit\w+|LimitNOFILE|\[\w+\])(?:=|$)")


class Service:
    """`command` as the service NAME, with packaging/pvrdmad.service. `folder` has a short path. The log is
    appended to."""

    def __init__(self, name: str, command: list[str], folder: Path, log: Path) -> None:
        self._unit = f"{name}.service"
        self._folder = folder
        self._log = log
        self._manager: subprocess.Popen[bytes] | None = None
        units = folder / "config" / "systemd" / "user"
        units.mkdir(parents=True)
        (folder / "run").mkdir(mode=0o711)  # the service notifies the manager by a socket there
        shipped = (REPOSITORY / "packaging" / "pvrdmad.service").read_text(encoding="utf-8").splitlines()
        lines = [line for line in shipped if _LINES.match(line) and line != "[Install]"]
        lines += [f"ExecStart={' '.join(command)}", f"StandardOutput=append:{log}", f"StandardError=append:{log}"]
        (units / self._unit).write_text("\n".join([*lines, ""]), encoding="utf-8")

    def open(self) -> None:
        """Starts the manager."""
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "sh", "-c", _BEGIN.format(manager=_MANAGER)]
        self._manager = process.start(command, self._log.with_suffix(".systemd.log"), self._environment())
        deadline = time.monotonic() + _READY_GUARD_S
        sockets = [self._folder / "run" / "systemd" / name for name in ("notify", "private")]
        while not all(socket.is_socket() for socket in sockets):
            assert self._manager.poll() is None and time.monotonic() < deadline, "systemd has not started"
            time.sleep(0.02)
        sockets[0].chmod(0o777)  # like that of the machine's systemd, whose services have other users

    def close(self) -> None:
        """Ends the manager and its service."""
        if self._manager is not None:
            self._manager.kill()  # this also ends everything in its namespace
            self._manager.wait()
            self._manager = None

    @property
    def running(self) -> bool:
        """Whether the service's process runs."""
        return self._manager is not None and self.show("MainPID") != "0"

    def call(self, verb: str, *options: str) -> None:
        """Runs systemctl VERB and returns when that is done. AssertionError if it has failed."""
        done = self._systemctl(verb, *options, self._unit)
        assert done.returncode == 0, f"systemctl {verb}: {done.stdout}{done.stderr}\n{process.tail(self._log)}"

    @contextmanager
    def slow_start(self, seconds: float) -> Iterator[None]:
        """Each start takes so much longer, as on a busy machine."""
        unit = self._folder / "config" / "systemd" / "user" / self._unit
        before = unit.read_text(encoding="utf-8")
        unit.write_text(f"{before}ExecStartPre=sleep {seconds}\n", encoding="utf-8")
        self._reload()
        try:
            yield
        finally:
            unit.write_text(before, encoding="utf-8")
            self._reload()

    def kill(self) -> None:
        """kill -9 of the service's process."""
        self._inside("kill", "-KILL", self.show("MainPID"))

    def show(self, what: str) -> str:
        """A property of the service."""
        return self._systemctl("show", "--property", what, "--value", self._unit).stdout.strip()

    def _reload(self) -> None:
        done = self._systemctl("daemon-reload")
        assert done.returncode == 0, f"systemctl daemon-reload: {done.stdout}{done.stderr}"

    def _systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._inside("systemctl", "--user", *arguments)

    def _inside(self, *call: str) -> subprocess.CompletedProcess[str]:
        assert self._manager is not None
        children = Path(f"/proc/{self._manager.pid}/task/{self._manager.pid}/children").read_text(encoding="utf-8")
        command = ["nsenter", "--target", children.split()[0], "--mount", "--pid", *call]
        return subprocess.run(command, env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=_CALL_GUARD_S, check=False)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_RUNTIME_DIR": str(self._folder / "run"), "XDG_CONFIG_HOME": str(self._folder / "config")}
