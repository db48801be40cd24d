"""A TCP port of this machine that leads to a daemon's API socket, as `ssh -L` does, and that can misbehave.

The page and its requests come from the daemon; the bridge passes them on. A test may change answers on their way, to show
hardware that the machine does not have, and may make the API slow, cut or absent.
"""

from __future__ import annotations

import http.client
import http.server
import json
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.block import Block

_GUARD_S = 30.0
_STREAMS = ("text/event-stream", "application/x-pcapng")
NO_SUCH_PATH = "this API has no such path: see pvrdmad(8)"  # what a daemon says of a path that a later one has
_LOOK_S = 0.5  # how often a stream looks for trouble


class _ToSocket(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_GUARD_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_GUARD_S)
        self.sock.connect(str(self._path))


class Bridge(Block):
    """`overlay(path, answer)` returns the JSON to show in place of the daemon's. `trouble(path)` returns how a request fails:
    "" it does not, "cut": the answer ends halfway, "silent": there is none until behave(), "other": another program answers,
    "slow": the answer comes after slow_s, "absent": the daemon has no such path.
    Of the events of /v1/watch only the inventory has an overlay, with that path. One that it changes is told as too large to be told:
    then the page asks.
    """

    def __init__(self, api: Path) -> None:
        self.api = api
        self.overlay: Callable[[str, Any], Any] = lambda _, answer: answer
        self.trouble: Callable[[str], str] = lambda _: ""
        self.asked: list[tuple[str, str]] = []  # method and path of every request
        self.slow_s = 3.0
        self.watches = False  # whether the page learns that the daemon has /v1/watch
        self.streams = 0  # how many flow now
        self._released = threading.Event()
        self._counting = threading.Lock()
        bridge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request, as the API's connections are."""

            def log_message(self, *_: Any) -> None:
                pass

            def do_any(self) -> None:
                bridge._pass_on(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def page(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/ui/"

    def behave(self) -> None:
        """Ends troubles and overlays."""
        self.trouble = lambda _: ""
        self.overlay = lambda _, answer: answer
        self._released.set()
        self._released = threading.Event()

    def close(self) -> None:
        """Ends the port."""
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _start(self) -> None:
        self._thread.start()

    def _pass_on(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self.asked.append((request.command, request.path))
        trouble = self.trouble(request.path)
        if trouble == "silent":
            self._released.wait(_GUARD_S)
            return
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if trouble == "absent":
            self._answer_absent(request)
            return
        upstream = _ToSocket(self.api)
        try:
            passed = {name: value for name, value in request.headers.items() if name.lower() not in ("accept-encoding", "content-length")}
            upstream.request(request.command, request.path, body or None, passed)
            answer = upstream.getresponse()
            is_stream = answer.getheader("Content-Type", "") in _STREAMS
            if is_stream and trouble == "cut":
                request.close_connection = True  # before the head
                return
            if is_stream and trouble in ("", "slow"):
                self._released.wait(self.slow_s if trouble else 0)
                self._pass_stream(request, answer)
                return
            status, data = answer.status, b"" if is_stream else answer.read()
        except OSError:
            request.close_connection = True  # as a forwarded port does: the connection just ends
            return
        finally:
            upstream.close()
        if trouble == "slow":
            self._released.wait(self.slow_s)
        if trouble == "other":
            data = b"<html>a router's login page</html>"
        elif answer.getheader("Content-Type", "").startswith("application/json"):
            told = json.loads(data)
            shown = self.overlay(request.path, json.loads(data))
            if request.path == "/v1/version" and not self.watches:
                shown["features"] = [feature for feature in shown.get("features", []) if feature != "watch"]
            if shown != told:
                status, data = 200, json.dumps(shown).encode()
        request.send_response(status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                request.send_header(name, "text/html" if trouble == "other" and name.lower() == "content-type" else value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        with suppress(OSError):  # the page has left
            request.wfile.write(data[:len(data) // 2] if trouble == "cut" else data)
        request.close_connection = True

    def _answer_absent(self, request: http.server.BaseHTTPRequestHandler) -> None:
        data = json.dumps({"error": NO_SUCH_PATH}).encode()
        request.send_response(404)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        with suppress(OSError):  # the page has left
            request.wfile.write(data)
        request.close_connection = True

    def _pass_stream(self, request: http.server.BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        """Passes a stream on until either end leaves, or the API is in trouble."""
        request.send_response(200)
        request.send_header("Content-Type", answer.getheader("Content-Type", ""))
        request.end_headers()
        request.close_connection = True
        with self._counting:
            self.streams += 1
        with suppress(OSError, http.client.HTTPException):  # either end has left
            self._copy_stream(request, answer)
        with self._counting:
            self.streams -= 1

    def _copy_stream(self, request: http.server.BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
        is_watch, rest = request.path.startswith("/v1/watch"), b""
        while self.trouble(request.path) in ("", "slow"):
            ready, _, _ = select.select([request.connection, answer], [], [], _LOOK_S)
            if request.connection in ready:
                return  # the page has left: so does the daemon's watcher, of which there may be few
            if answer in ready:
                data = answer.read1(65536)
                if not data:
                    return
                if not is_watch:
                    request.wfile.write(data)
                    continue
                *events, rest = (rest + data).split(b"\n\n")
                request.wfile.write(b"".join(self._shown_event(event) + b"\n\n" for event in events))

    def _shown_event(self, event: bytes) -> bytes:
        head, _, data = event.partition(b"\ndata: ")
        if head != b"event: inventory":
            return event
        same = self.overlay("/v1/watch", json.loads(data)) == json.loads(data)
        return event if same else b'event: changed\ndata: {"what":"inventory"}'
