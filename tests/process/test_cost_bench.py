"""cost_bench.py runs to its end and writes what it measured. The figures are not judged."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

BENCH = Path(__file__).parent / "cost_bench.py"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("lines", ["create_qp,reg_mr_4k,connect,start_warm", pytest.param("reg_mr_1m,start_cold,idle_context,make", marks=pytest.mark.full)])
def test_it_measures(tmp_path: Path, lines: str) -> None:
    out = tmp_path / "costs.json"
    done = _run("--rounds", "1", "--lines", lines, "--out", str(out))
    assert done.returncode == 0, done.stderr
    entries = json.loads(out.read_text())["benchmarks"]
    assert [entry["name"] for entry in entries] == [f"ProcessCosts/{name}" for name in lines.split(",")]
    assert all(len(entry["rounds"]) == 1 and entry["rounds"][0] == entry["median"] for entry in entries), entries
    assert done.stdout.count("aim: below") == len(entries), done.stdout


def test_a_line_that_does_not_exist() -> None:
    refused = _run("--lines", "create_qp,teleport")
    assert refused.returncode == 2 and "there is no line 'teleport'; there are: create_qp, " in refused.stderr, refused.stderr
