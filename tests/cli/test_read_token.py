"""[api] read_token_file: a real daemon, whose clients with this token read everything and change nothing.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_read_token.py
"""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_cli import GUARD_S, PVRDMACTL, adapter, pvrdmad, run, running_daemon
from test_doctor import api_over_tls, member

READ_TOKEN = "fedcba9876543210"


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def api(folder: Path, read_token: str = READ_TOKEN, days: int = 100) -> tuple[str, int]:
    """[api] with both tokens and a certificate that ends in `days`, and its port."""
    table, port = api_over_tls(folder, days)
    (folder / "read_token").write_text(f"{read_token}\n", encoding="ascii")
    return f'{table}read_token_file = "{folder}/read_token"\n', port


def ask(folder: Path, port: int, method: str, path: str, token: str | None = READ_TOKEN, body: str = "") -> tuple[int, str]:
    """The status and the body of an answer over TLS."""
    context = ssl.create_default_context(cafile=str(folder / "api.crt"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=GUARD_S)
    headers = {"Content-Type": "application/json"} if body else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_client_with_the_read_token_reads_and_changes_nothing(folder: Path) -> None:
    table, port = api(folder)
    with running_daemon(folder, adapter(folder, 1) + member(folder) + table) as daemon:
        assert 'pvrdma_adapter_state{adapter="VM-01",state="off"} 1\n' in ask(folder, port, "GET", "/metrics")[1]
        described = json.loads(ask(folder, port, "GET", "/openapi.json")[1])["paths"]
        asked = 0
        for path, operations in described.items():
            path = path.replace("{host}", "self").replace("{adapter}", "VM-01").replace("{", "").replace("}", "")
            for method, operation in operations.items():
                if "text/event-stream" in operation["responses"]["200"]["content"]:
                    continue  # it has no end
                status, text = ask(folder, port, method.upper(), path, body="" if method == "get" else "{}")
                asked += 1
                if method == "get":
                    assert status in (200, 302, 404), f"{path}: {status} {text}"
                else:
                    assert status == 403, f"{method} {path}: {status} {text}"
                    assert "needs the token of [api] token_file" in text
        assert asked > 50
        assert ask(folder, port, "GET", "/v1/version", token=None)[0] == 401
        assert ask(folder, port, "GET", "/v1/version", token=READ_TOKEN[:-1])[0] == 401
        full = "0123456789abcdef"
        assert ask(folder, port, "POST", "/v1/dvs", token=full, body='{"name": "DSwitch"}')[0] == 200
        assert "DSwitch" in ask(folder, port, "GET", "/v1/dvs")[1]

        listed = run(PVRDMACTL, "--server", f"https://127.0.0.1:{port}", "--ca", f"{folder}/api.crt",
                     "--token-file", f"{folder}/read_token", "dvs", "list")
        assert (listed.returncode, listed.stderr) == (0, "") and "DSwitch" in listed.stdout
        code, log = daemon.stop()
    assert code == 0
    assert READ_TOKEN not in log and full not in log


@pytest.mark.parametrize(("token", "sentence"), [
    ("0123456789abcdef", "holds the token of token_file"),
    ("short", "holds no token: its first line must have 16 to 256 visible characters"),
    ("", "is empty: write the secret into its first line"),
])
def test_check_refuses_a_useless_read_token(folder: Path, token: str, sentence: str) -> None:
    table, _ = api(folder, token)
    config = folder / "pvrdmad.toml"
    config.write_text(adapter(folder, 1) + table, encoding="utf-8")
    done = run(*pvrdmad(folder, "--config", str(config), "--check"))
    assert done.returncode == 2
    assert "[api] read_token_file = " in done.stderr and sentence in done.stderr


def test_check_accepts_two_tokens(folder: Path) -> None:
    config = folder / "pvrdmad.toml"
    config.write_text(adapter(folder, 1) + api(folder)[0], encoding="utf-8")
    done = run(*pvrdmad(folder, "--config", str(config), "--check"))
    assert done.returncode == 0, done.stderr
