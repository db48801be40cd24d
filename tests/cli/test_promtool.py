"""What Prometheus and its promtool say of the metrics and of packaging/monitoring/. A part of `make test-full`, because Debian's package of it has 96 MB.

PVRDMAD=... /usr/bin/python3 -m pytest tests/cli/test_promtool.py
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_cli import GUARD_S, adapter, got, running_daemon
from test_doctor import member
from test_read_token import api

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "packaging" / "monitoring"
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
    table, _ = api(folder)
    with running_daemon(folder, adapter(folder, 1) + member(folder) + table) as daemon:
        text = got(daemon, "/metrics")
    assert "pvrdma_store_connected 1\n" in text and text.count("# HELP") > 100
    assert promtool("check", "metrics", text=text) == (0, "")


def test_promtool_accepts_the_example_for_prometheus_and_its_alerts(tmp_path: Path) -> None:
    code, said = promtool("check", "rules", EXAMPLES / "pvrdma-alerts.yml")
    assert code == 0 and "rules found" in said, said
    for name in ("pvrdma-read-token", "pvrdma-ca.crt"):
        (tmp_path / name).touch()
    shutil.copy(EXAMPLES / "pvrdma-alerts.yml", tmp_path)
    config = (EXAMPLES / "prometheus.yml").read_text(encoding="utf-8").replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(config, encoding="utf-8")
    code, said = promtool("check", "config", tmp_path / "prometheus.yml")
    assert code == 0 and "1 rule files found" in said, said


def test_promtool_is_asked_in_earnest() -> None:
    code, said = promtool("check", "metrics", text="# TYPE pvrdma_x_us counter\npvrdma_x_us 1\n")
    assert code != 0 and "no help text" in said and "_total" in said


class Prometheus:
    """Prometheus with the example's configuration, which asks one daemon each second."""

    def __init__(self, folder: Path, daemon_port: int) -> None:
        program = shutil.which("prometheus")
        assert program is not None, "there is no prometheus: run tools/setup --full"
        shutil.copy(folder / "api.crt", folder / "pvrdma-ca.crt")
        shutil.copy(folder / "read_token", folder / "pvrdma-read-token")
        shutil.copy(EXAMPLES / "pvrdma-alerts.yml", folder)
        config = (EXAMPLES / "prometheus.yml").read_text(encoding="utf-8")
        for old, new in (("/etc/prometheus", str(folder)), ("esx-01.example.com:8443", f"127.0.0.1:{daemon_port}"),
                         ("          - esx-02.example.com:8443\n", ""), (" 15s", " 1s")):
            assert old in config
            config = config.replace(old, new)
        (folder / "prometheus.yml").write_text(config, encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                         f"--web.listen-address=127.0.0.1:{self.port}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str) -> dict[str, object]:
        """The `data` of an answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=GUARD_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[object]:
        """The samples. urllib.error.HTTPError: Prometheus does not understand the expression."""
        return self.ask("query?query=" + urllib.parse.quote(expression))["result"]  # type: ignore[return-value]

    def evaluated_rules(self) -> list[dict[str, object]]:
        """The alerts, after each was evaluated."""
        end = time.monotonic() + GUARD_S
        while True:
            rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]  # type: ignore[attr-defined]
            if all(rule["health"] != "unknown" for rule in rules) or time.monotonic() > end:
                return rules
            time.sleep(0.2)

    def state_of(self, alert: str) -> object:
        """`inactive`, `pending` or `firing`."""
        (rule,) = (rule for rule in self.evaluated_rules() if rule["name"] == alert)
        return rule["state"]

    def wait_for(self, expression: str) -> None:
        """Until the expression has a sample."""
        end = time.monotonic() + GUARD_S
        while time.monotonic() < end:
            try:
                if self.query(expression):
                    return
            except (urllib.error.URLError, ConnectionError):
                pass  # it has not started yet
            time.sleep(0.2)
        pytest.fail(f"Prometheus has no sample of {expression}")


def test_prometheus_evaluates_the_examples_with_a_daemon(folder: Path) -> None:
    table, port = api(folder)
    with running_daemon(folder, adapter(folder, 1) + member(folder) + table):
        prometheus = Prometheus(folder, port)
        try:
            prometheus.wait_for('up{job="pvrdma"} == 1')
            prometheus.wait_for("rate(pvrdma_shard_turns_total[10s])")
            dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text(encoding="utf-8"))
            empty = set()
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    expression = target["expr"].replace("$__rate_interval", "10s").replace("$host", ".*").replace("$vm", ".*")
                    if not prometheus.query(expression):
                        empty.add(panel["title"])
            assert empty == {"Requests that a budget refused", "Lanes to peers", "RDMA NICs reach the peer",
                             "Pause of a motion, mean of the last hour"}, "a single host without traffic has nothing else to show"
            rules = prometheus.evaluated_rules()
            assert len(rules) > 10
            assert [rule for rule in rules if rule["health"] != "ok" or rule["state"] != "inactive"] == []
        finally:
            prometheus.stop()


def test_alerts_fire_about_a_certificate_that_ends_soon_and_a_dead_daemon(folder: Path) -> None:
    table, port = api(folder, days=5)
    with running_daemon(folder, member(folder) + table) as daemon:
        prometheus = Prometheus(folder, port)
        try:
            prometheus.wait_for('ALERTS{alertname="PvrdmaCertificateEnds", alertstate="firing", use="api"}')
            assert prometheus.state_of("PvrdmaHostDown") == "inactive"
            assert daemon.stop()[0] == 0
            prometheus.wait_for('ALERTS{alertname="PvrdmaHostDown", alertstate="pending"}')  # it fires after two minutes of this
        finally:
            prometheus.stop()
