"""The man pages: their examples are real, and mdoc understands them as they are meant.

Run by ctest (label cli), or: PVRDMAD=... PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_manual.py
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_api import ROOT
from test_cli import adapter, got, running_daemon

PAGES = ROOT / "docs/man"
MAC = re.compile(r"52:54:00(:[0-9a-f]{2}){3}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def test_the_example_of_a_vm_is_what_the_commands_print(folder: Path) -> None:
    """But for the MAC, which is made from the cluster's id, and the folder of sockets."""
    (block,) = re.findall(r"^\.Bd -literal\n(\$ pvrdmactl dvs create .*?)^\$ eval", (PAGES / "pvrdmactl.1").read_text(encoding="utf-8"),
                          re.MULTILINE | re.DOTALL)
    printed = ""
    with running_daemon(folder, f'[host]\nname = "esx-01"\nsocket_folder = "{folder}"\nvmnics = ["lo"]\n[store]\npath = "{folder}/store.db"\n') as daemon:
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            command, _, silenced = line.partition(" >/dev/null")
            words = shlex.split(command)
            assert words[0] == "pvrdmactl"
            done = daemon.ctl(*words[1:])
            assert done.returncode == 0, done.stderr
            printed += f"$ {line}\n" + (done.stdout if command == line else "")
            assert silenced == ""
    assert MAC.sub("MAC", printed).replace(f"{folder}/", "/run/pvrdma/") == MAC.sub("MAC", block)


def listed_requests(page: str) -> set[str]:
    """The requests of a page's list of the API: "GET /v1/hosts/{}"."""
    requests = set()
    for line in page.splitlines():
        text, glued = "", True
        for word in line.removeprefix(".It ").split():
            if word in ("Ar", "Cm", "Op", "Ns"):
                glued = glued or word == "Ns"
                continue
            text += word if glued else f" {word}"
            glued = False
        for methods, path in re.findall(r"((?:[A-Z]+ ?, )*[A-Z]+) (/v1/[^ ?]*|/metrics)", text):
            requests |= {f"{method} {re.sub('/[A-Z]+', '/{}', path)}" for method in re.split(r" ?, ", methods)}
    return requests


def test_the_list_of_the_api_is_complete(folder: Path) -> None:
    api = (PAGES / "pvrdmad.8").read_text(encoding="utf-8").split("\n.Sh API\n")[1].split("\n.Sh ")[0]
    with running_daemon(folder, adapter(folder, 1)) as daemon:
        paths = json.loads(got(daemon, "/openapi.json"))["paths"]
    served = {f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}" for path, operations in paths.items() for method in operations
              if path.startswith("/v1/") or path == "/metrics"}
    assert listed_requests(api) == served


@pytest.mark.parametrize("page", sorted(PAGES.iterdir()), ids=lambda page: page.name)
def test_mdoc_takes_no_word_for_a_macro(page: Path) -> None:
    """As `.Dq In VMs` would, because In names an include file."""
    shown = subprocess.run(["man", "--local-file", page], env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LANG": "C.UTF-8"},
                           check=True, capture_output=True, text=True).stdout
    assert re.findall(r"[“\"]<.*|\[ *\[ ?\[.*", shown) == []
