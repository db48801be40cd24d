"""The examples for CI do what they say: the action's steps as its runner would run them, and pytest's fixture."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml
from machine import PVRDMA_RUN, REPOSITORY, Machine

EXAMPLES = REPOSITORY / "examples/ci"
TEST = """
import subprocess


def test_two_nodes(pvrdma_node):
    server = pvrdma_node(1).popen(["ib_write_bw", "-F", "-p", "{port}", "-n", "100"], stdout=subprocess.PIPE)
    client = f"until ib_write_bw -F -p {port} -n 100 127.0.0.1; do sleep 0.1; done"
    assert pvrdma_node(0).popen(["sh", "-c", client]).wait(timeout=60) == 0
    assert "BW average" in server.communicate(timeout=60)[0]


def test_what_a_test_leaves_running_ends(pvrdma_node):
    pvrdma_node(0).popen(["sleep", "1000"])
    assert pvrdma_node(2).address == "10.99.0.3"
"""


@pytest.fixture(name="path")
def _path(machine: Machine) -> str:
    return f"{PVRDMA_RUN.parent}:{machine.environment['PATH']}"


def test_the_action_starts_the_nodes(machine: Machine, path: str) -> None:
    action = yaml.safe_load((EXAMPLES / "action.yml").read_text(encoding="utf-8"))
    install, start = action["runs"]["steps"]
    assert install["run"].endswith('"$PACKAGE" ibverbs-providers ibverbs-utils perftest')
    assert start["env"] == {"NODES": "${{ inputs.nodes }}"}
    nodes = action["inputs"]["nodes"]["default"]
    # As GitHub's runner calls bash.
    done = machine.run_plainly("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", start["run"], PATH=path, NODES=nodes)
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout
    assert set(machine.processes()) == {"pvrdmad", "node0", "node1"}
    device = machine.run_plainly("pvrdma-run", "--node", "1", "ibv_devinfo", "-v", PATH=path)
    assert "::ffff:10.99.0.2" in device.stdout, device.stdout


def test_the_fixture_runs_programs_on_nodes(machine: Machine, path: str, port: str) -> None:
    shutil.copy(EXAMPLES / "conftest.py", machine.folder)
    (machine.folder / "test_two.py").write_text(TEST.replace("{port}", port), encoding="utf-8")
    done = machine.run_plainly("/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", str(machine.folder), PATH=path)
    assert "2 passed" in done.stdout, done.stdout
    assert not machine.run_plainly("pgrep", "-u", str(machine.user.get("user", os.getuid())), "-f", "^sleep 1000$").stdout
