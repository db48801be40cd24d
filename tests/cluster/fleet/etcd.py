"""One real etcd in the wire's namespace."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from fleet.network import WIRE_ADDRESS, Network
from harness import process

_READY_GUARD_S = 20.0


class Etcd:
    """Its data is in `folder` and survives kill()."""

    def __init__(self, network: Network, folder: Path, logs: Path) -> None:
        self.endpoint = f"http://{WIRE_ADDRESS}:2379"
        self.log = logs / "etcd.log"
        self._network = network
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it (again) and waits until it answers."""
        command = ["etcd", "--name", "one", "--data-dir", str(self._folder), "--logger", "zap", "--log-level", "warn",
                   "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                   "--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
                   "--initial-cluster", "one=http://127.0.0.1:2380"]
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
        """Goes on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            process.stop(self._process, timeout_s=5.0)

    def _healthy(self) -> bool:
        probe = [*self._network.inside(), "etcdctl", f"--endpoints={self.endpoint}", "--dial-timeout=1s",
                 "--command-timeout=1s", "endpoint", "health"]
        return subprocess.run(probe, capture_output=True, check=False, env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
                              ).returncode == 0
