"""Two daemons that treat each other as native endpoints, without VMs: rc_checker drives both adapters."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .daemon import Adapter, Daemon, binary
from .hub import Hub

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")  # rc_checker's
_GUARD_S = 120


@dataclass(frozen=True)
class NativeDaemons:
    """Their adapters are VM-a and VM-b, on one Ethernet."""

    hub: Hub
    daemons: tuple[Daemon, Daemon]

    def check(self, *options: str) -> None:
        """Runs rc_checker to the end of its rounds. AssertionError with its output if a request is not executed
        exactly once."""
        a, b = (str(daemon.adapters[0].socket) for daemon in self.daemons)
        command = [str(binary("rc_checker", "tests/cluster")), "--a", a, "--b", b, *options]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GUARD_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def native_daemons(logs: Path, version: str = "v2", *, fault_injection: bool = False) -> Iterator[NativeDaemons]:
    """Starts the two daemons, with their logs below the folder."""
    with ExitStack() as stack:
        run = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pvrdma-")))
        hub = Hub(run / "ethernet.sock", MACS)
        stack.callback(hub.close)
        daemons = []
        for name, mac in zip("ab", MACS):
            for made in (run / name, logs / name):
                made.mkdir(parents=True, exist_ok=True)
            adapter = Adapter(f"VM-{name}", run / name / "vm.sock", mac, hardware_version=18, roce=version)
            daemon = Daemon([adapter], run / name, logs / name)
            daemon.roce_link = hub.link
            daemon.fault_injection = fault_injection
            daemon.start()
            stack.callback(daemon.stop)
            daemons.append(daemon)
        yield NativeDaemons(hub, (daemons[0], daemons[1]))
