"""A simulated API of pvrdmad on a UNIX socket, and pvrdmactl run against it."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import socketserver
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PVRDMACTL = os.environ.get("PVRDMACTL", str(ROOT / "build" / "dev" / "src" / "pvrdmactl" / "pvrdmactl"))
GUARD_S = 60  # a hang guard, not a check of speed


def run(*command: str, env: dict[str, str] | None = None, **more: object) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PVRDMA_")}
    return subprocess.run(command, text=True, capture_output=True, timeout=GUARD_S, check=False,  # type: ignore[call-overload]
                          stdin=subprocess.DEVNULL, env={**clean, **(env or {})}, **more)


class Api(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Gives the configured answers and records the requests."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.status = 200
        self.answer: object = {}
        self.asked: list[str] = []
        super().__init__(str(path), Handler)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def ctl(self, line: str, program: str = PVRDMACTL) -> subprocess.CompletedProcess[str]:
        self.asked = []
        return run(program, *shlex.split(line), env={"PVRDMA_API": str(self.path)})


class Handler(http.server.BaseHTTPRequestHandler):
    server: Api

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append(f"{self.command} {self.path} {body}".rstrip())
        content = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass
