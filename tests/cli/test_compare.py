"""bench/compare: the files that it reads and those that it refuses."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def compare(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs bench/compare."""
    return subprocess.run([ROOT / "bench" / "compare", *map(str, arguments)], text=True, capture_output=True, timeout=60,
                          check=False)


def host_to_host() -> ModuleType:
    """tests/cluster/bench.py, which writes one of the files."""
    spec = importlib.util.spec_from_file_location("host_to_host", ROOT / "tests" / "cluster" / "bench.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(folder: Path, cpu_time: float, bandwidth: float, latency: float) -> Path:
    """The files that make bench writes."""
    folder.mkdir()
    entry = {"name": "Doorbell", "run_type": "iteration", "cpu_time": cpu_time}
    (folder / "some_bench.json").write_text(json.dumps({"context": {}, "benchmarks": [entry]}))
    bench = host_to_host()
    bench._save([bench._compare("GB/s: writes", 1e9, lambda: bandwidth, lambda: 4e9, 3),
                 bench._compare("us: a write", 1, lambda: latency, lambda: 10.0, 3)], folder / "host_to_host.json")
    neighbour = {"name": "Neighbour/idle/read", "run_type": "iteration", "p50_us": 1.0, "p999_us": latency, "worst_us": cpu_time}
    died = {"name": "Neighbour/vm-dies/read", "run_type": "iteration", "error_occurred": True, "error_message": "daemon died",
            "p999_us": latency}
    in_vms = {"name": "VmToVm/write_bw", "run_type": "iteration", "gain_over_trapped": bandwidth}
    idle = {"name": "VmToVm/idle/2 VMs", "run_type": "iteration", "percent_of_core": cpu_time}
    (folder / "vm_to_vm.json").write_text(json.dumps({"benchmarks": [in_vms, idle]}))
    in_process = {"name": "Process/write_bw", "run_type": "iteration", "gain_over_shared_memory": bandwidth}
    (folder / "process.json").write_text(json.dumps({"benchmarks": [in_process]}))
    (folder / "neighbour_bench.json").write_text(json.dumps({"benchmarks": [neighbour, died]}))
    return folder


def test_all_that_make_bench_writes_is_compared(tmp_path: Path) -> None:
    before = run_of(tmp_path / "before", 8.0, 2e9, 20.0)
    after = run_of(tmp_path / "after", 4.0, 4e9, 10.0)
    done = compare(before, after)
    assert done.returncode == 0, done.stderr
    lines = {line.split("  ")[0]: line.split()[-4:] for line in done.stdout.splitlines()[1:]}
    assert "vm-dies" not in done.stdout, "what was not measured to its end is not compared"
    neighbour = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("Neighbour/idle/read")]
    assert neighbour == [["p999_us", "20", "10", "2.00"], ["worst_us", "8", "4", "2.00"]]
    assert lines["Doorbell"] == ["cpu_time", "8", "4", "2.00"]
    assert lines["VmToVm/write_bw"] == ["gain_over_trapped", "2G", "4G", "2.00"]
    assert lines["Process/write_bw"] == ["gain_over_shared_memory", "2G", "4G", "2.00"]
    assert lines["VmToVm/idle/2 VMs"] == ["percent_of_core", "8", "4", "2.00"], "less is better"
    assert lines["GB/s: writes"] == ["of_plain", "0.5", "1", "2.00"]
    assert lines["us: a write"] == ["times_plain", "2", "1", "2.00"], "less time is better"
    assert compare(after, before, "--fail-below", "0.8").returncode == 1


def test_other_json_is_refused_with_a_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("[1]")
    done = compare(other, other)
    assert done.returncode == 1
    assert done.stderr.startswith(f"compare: {other} is no Google Benchmark JSON: ")
    assert "Traceback" not in done.stderr
