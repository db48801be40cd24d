"""One real etcd in the wire's namespace."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
from pathlib import Path

from fleet.network import WIRE_ADDRESS, Network
from harness import process

_READY_GUARD_S = 20.0


class Etcd:
    """An etcd with its data in `folder`, which survives kill()."""

    def __init__(self, network: Network, folder: Path, logs: Path, options: list[str] | None = None) -> None:
        self.endpoint = f"http://{WIRE_ADDRESS}:2379"
        self.log = logs / "etcd.log"
        self._network = network
        self._folder = folder
        self._options = options or []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it (again) and waits until it answers."""
        command = ["etcd", "--name", "one", "--data-dir", str(self._folder), "--logger", "zap", "--log-level", "warn",
                   "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                   "--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
                   "--initial-cluster", "one=http://127.0.0.1:2380", "--unsafe-no-fsync", *self._options]
        self._process = process.start([*self._network.inside(), *command], self.log)
        deadline = time.monotonic() + _READY_GUARD_S
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"etcd is not ready; {self.log}:\n{process.tail(self.log)}")
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stops answering without closing anything, until resume()."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues after pause()."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            process.stop(self._process, timeout_s=5.0)

    def etcdctl(self) -> list[str]:
        """The etcdctl command for this etcd."""
        return [*self._network.inside(), "etcdctl", f"--endpoints={self.endpoint}"]

    def ctl(self, *arguments: str) -> str:
        """The output of etcdctl. AssertionError if it fails."""
        done = self._run(*arguments)
        assert done.returncode == 0, f"etcdctl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def try_ctl(self, *arguments: str) -> str:
        """The error of etcdctl; empty if it succeeds."""
        done = self._run(*arguments)
        return done.stderr.strip() or "it failed" if done.returncode != 0 else ""

    def records(self, prefix: str) -> list[tuple[str, str]]:
        """Keys and values below `prefix`."""
        found = json.loads(self.ctl("get", "--prefix", prefix, "--write-out=json")).get("kvs", [])
        return [(base64.b64decode(each["key"]).decode(), base64.b64decode(each.get("value", "")).decode()) for each in found]

    def revision(self) -> int:
        """The number of changes so far."""
        return int(json.loads(self.ctl("get", "x", "--write-out=json"))["header"]["revision"])

    def _healthy(self) -> bool:
        done = self._run("--dial-timeout=1s", "--command-timeout=1s", "endpoint", "health")
        return done.returncode == 0

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.etcdctl(), *arguments], capture_output=True, text=True, check=False,
                              env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})
