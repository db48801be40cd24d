#!/usr/bin/python3
"""Host to host, compared with plain TCP over the same wire in the same run: `tests/cluster/bench.py [--rounds N]`.

Each round measures both sides of a comparison one after the other; only the ratio of the medians counts. Prints a table and
writes build/bench/host_to_host.json, of Google Benchmark's shape for bench/compare. Needs root, iperf3, and the release
build of pvrdmad and tests/cluster.

Both sides' latency is measured twice: once with cores that sleep when idle, and once "awake", beside one busy loop per core
that yields to all other threads (SCHED_IDLE). Waking a thread then does not have to wake a core first, so the result shows
the daemons' own work. The scheduler treats a core with such a loop as free, so it places threads as on sleeping cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "vm"), str(_HERE.parents[1] / "tools")]

from fleet.awake import awake  # noqa: E402  (the path above comes first)
from fleet.certificates import Authority  # noqa: E402
from fleet.fleet import Fleet  # noqa: E402
from fleet.host import Certificates  # noqa: E402
from fleet.until import until  # noqa: E402
from harness import process  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402

_PROGRAMS = REPOSITORY / "build" / "release" / "tests" / "cluster"
_LANES = 4
_CONGESTION_CONTROL = "cubic"  # pvrdmad's default, whatever the machine's default is
_SECONDS = 2


def _client(fleet: Fleet, *command: str) -> str:
    """Runs a command on esx-01 and returns its output."""
    done = subprocess.run([*fleet.network.inside("esx-01"), *command], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _with_server(fleet: Fleet, server: list[str], client: Callable[[], float]) -> float:
    """The result of `client` while `server` runs on esx-02."""
    log = fleet.logs / "server.log"
    log.unlink(missing_ok=True)
    running = process.start([*fleet.network.inside("esx-02"), *server], log)
    try:
        until(f"{server[0]} listens", lambda: "listening" in log.read_text(encoding="utf-8").lower(), 10)
        return client()
    finally:
        process.stop(running, 5)


def _rc(fleet: Fleet, *options: str) -> float:
    sockets = [str(fleet.socket_of(name)) for name in ("VM-01", "VM-02")]
    return float(_client(fleet, str(_PROGRAMS / "rc_perf"), "--a", sockets[0], "--b", sockets[1], "--seconds", str(_SECONDS),
                         *options))


def _latency(fleet: Fleet) -> float:
    return _rc(fleet, "--mode", "latency", "--size", "8", "--connections", "1")


def _iperf(fleet: Fleet) -> float:
    command = ["iperf3", "-c", fleet[2].address, "-P", str(_LANES), "-C", _CONGESTION_CONTROL, "-t", str(_SECONDS), "-J"]
    return _with_server(fleet, ["iperf3", "-s", "--forceflush"],
                        lambda: json.loads(_client(fleet, *command))["end"]["sum_received"]["bits_per_second"] / 8)


def _tls(fleet: Fleet, certificates: Certificates) -> float:
    program = str(_PROGRAMS / "tls_copy")
    server = [program, "--server", "--address", fleet[2].address, "--connections", str(_LANES), "--certificate",
              str(certificates.certificate), "--key", str(certificates.key)]
    return _with_server(fleet, server, lambda: float(_client(fleet, program, "--address", fleet[2].address, "--connections",
                                                             str(_LANES), "--seconds", str(_SECONDS))))


def _ping_pong(fleet: Fleet) -> float:
    program = str(_PROGRAMS / "tcp_ping_pong")
    return _with_server(fleet, [program, "--server", "--address", fleet[2].address],
                        lambda: float(_client(fleet, program, "--address", fleet[2].address, "--seconds", str(_SECONDS))))


def _compare(title: str, unit: float, ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> dict[str, object]:
    """One benchmark, named `title`. bench/compare shows its counter of_plain (for times: times_plain)."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    mine, other = (statistics.median(values) / unit for values in zip(*pairs))
    print(f"{title:<58} {mine:9.2f} {other:9.2f} {mine / other:7.2f}", flush=True)
    counter = "times_plain" if title.startswith("us:") else "of_plain"
    return {"name": title, "run_type": "iteration", "ours": mine, "theirs": other, counter: mine / other,
            "rounds": [[a / unit, b / unit] for a, b in pairs]}


def _save(results: list[dict[str, object]], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"benchmarks": results}, indent=2), encoding="utf-8")


def main() -> int:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    results = []
    print(f"{'':<58} {'ours':>9} {'theirs':>9} {'ratio':>7}")
    logs = REPOSITORY / "build" / "cluster-logs"
    bulk = ("--connections", str(_LANES), "--depth", "128")  # as in perftest
    with Fleet(logs / "bench-plain") as fleet:
        fleet.follow_the_guide()
        for size in (65536, 1 << 20):
            results.append(_compare(f"GB/s: {size >> 10} KiB writes, {_LANES} QPs | iperf3 -P {_LANES}", 1e9,
                                    lambda size=size: _rc(fleet, *bulk, "--size", str(size)), lambda: _iperf(fleet), rounds))
        results.append(_compare("us: 8-byte write, cores asleep | TCP ping-pong", 1, lambda: _latency(fleet),
                                lambda: _ping_pong(fleet), rounds))
        with awake():
            results.append(_compare("us: 8-byte write, cores awake | TCP ping-pong", 1, lambda: _latency(fleet),
                                    lambda: _ping_pong(fleet), rounds))
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificates = {host: authority.issue(host) for host in ("esx-01", "esx-02")}
        with Fleet(logs / "bench-tls", certificates=certificates) as fleet:
            fleet.follow_the_guide()
            results.append(_compare(f"GB/s: 64 KiB writes over TLS, {_LANES} QPs | OpenSSL alone", 1e9,
                                    lambda: _rc(fleet, *bulk, "--size", "65536"),
                                    lambda: _tls(fleet, certificates["esx-02"]), rounds))
    _save(results, REPOSITORY / "build" / "bench" / "host_to_host.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
