"""What Prometheus' own promtool says of the metrics. A part of `make test-full`, because Debian's package of it has 96 MB.

PVRDMAD=... /usr/bin/python3 -m pytest tests/cli/test_promtool.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_cli import GUARD_S, adapter, metrics_of, running_daemon
from test_doctor import api_over_tls, member

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks import metrics  # noqa: E402
from checks.tree import Tree  # noqa: E402


@pytest.fixture
def folder() -> Iterator[Path]:
    """pytest's folder names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        yield Path(name)


def promtool(*arguments: str | Path, text: str = "") -> tuple[int, str]:
    """The exit code of promtool, and what it printed."""
    program = shutil.which("promtool")
    assert program is not None, "there is no promtool: run tools/setup --full"
    done = subprocess.run([program, *arguments], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=GUARD_S, check=False)
    return done.returncode, done.stdout


def test_promtool_accepts_each_metric_of_the_table() -> None:
    text = ""
    for row in metrics.table(Tree(ROOT)):
        labels = ",".join(f'{label}="x"' for label in row.labels)
        text += f"# HELP {row.name} {row.help}\n# TYPE {row.name} {row.type}\n{row.name}{{{labels}}} 1\n"
    assert text.count("# TYPE") > 150
    assert promtool("check", "metrics", text=text) == (0, "")


def test_promtool_accepts_what_a_daemon_answers(folder: Path) -> None:
    table, _ = api_over_tls(folder, days=100)
    with running_daemon(folder, adapter(folder, 1) + member(folder) + table) as daemon:
        text = metrics_of(daemon)
    assert "pvrdma_store_connected 1\n" in text and text.count("# HELP") > 100
    assert promtool("check", "metrics", text=text) == (0, "")


def test_promtool_accepts_the_example_for_prometheus_and_its_alerts(tmp_path: Path) -> None:
    examples = ROOT / "packaging" / "monitoring"
    code, said = promtool("check", "rules", examples / "pvrdma-alerts.yml")
    assert code == 0 and "rules found" in said, said
    for name in ("pvrdma-read-token", "pvrdma-ca.crt"):
        (tmp_path / name).touch()
    shutil.copy(examples / "pvrdma-alerts.yml", tmp_path)
    config = (examples / "prometheus.yml").read_text(encoding="utf-8").replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(config, encoding="utf-8")
    code, said = promtool("check", "config", tmp_path / "prometheus.yml")
    assert code == 0 and "1 rule files found" in said, said


def test_promtool_is_asked_in_earnest() -> None:
    code, said = promtool("check", "metrics", text="# TYPE pvrdma_x_us counter\npvrdma_x_us 1\n")
    assert code != 0 and "no help text" in said and "_total" in said
