#!/usr/bin/python3
"""The path roce, compared with its bare link in the same run: `tests/cluster/roce_bench.py [--rounds N] [--kinds tap,xdp]`.

Two daemons, each with one adapter and a link of the kind, treat each other as native endpoints. Their links are connected
as in bench/link_bench: two taps on a bridge, or the ends of a veth pair, in a network namespace. Each round measures both
sides of a comparison one after the other; only the ratio of the medians counts. "Lossy": nftables drops each thousandth
frame on the bridge at random, compared with the same without loss. Prints a table, with the percentage of retransmitted
packets, and writes build/bench/roce.json, of Google Benchmark's shape for bench/compare. Needs root and the release build.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "vm"), str(_HERE.parents[1] / "tools")]

from fleet.awake import awake  # noqa: E402  (the path above comes first)
from fleet.until import until  # noqa: E402
from harness import process  # noqa: E402
from harness.block import Block  # noqa: E402
from harness.daemon import REPOSITORY, binary  # noqa: E402

_KINDS = {"tap": 1, "xdp": 2}  # their numbers in link_bench
_MTUS = {1024: 1500, 4096: 9000}  # of the network, by the path MTU
_BULK = ("--connections", "4", "--depth", "128", "--size", "65536")  # as in tests/cluster/bench.py
_LOSS, _NO_LOSS = (f"numgen random mod 1000 < 1 {verdict}" for verdict in ("drop", "accept"))  # at the same cost


class Pair(Block):
    """A namespace with two daemons whose links are connected."""

    def __init__(self, kind: str, payload: int) -> None:
        self._kind, self._payload = kind, payload
        self._space = f"pvrdma-roce-{os.getpid()}"
        self._temporary = tempfile.TemporaryDirectory(prefix="pvrdma-")
        self._folder = Path(self._temporary.name)
        self._daemons: list[subprocess.Popen[bytes]] = []

    def perf(self, *options: str) -> float:
        """The result of rc_perf, from the first to the second."""
        return float(_output(str(binary("rc_perf", "tests/cluster")), "--a", self._adapter(0), "--b", self._adapter(1), "--path-mtu",
                             str(self._payload), *options))

    def counted(self) -> dict[str, int]:
        """The counters of the first one's path."""
        shown = _output(str(binary("pvrdmactl")), "--api", self._api(0), "--json", "stats")
        return dict(json.loads(shown)["host"]["roce"])

    def filter(self, rule: str) -> None:
        """Sets the nftables rule for frames on the bridge."""
        text = ("table bridge bench\ndelete table bridge bench\n"
                f"table bridge bench {{ chain forward {{ type filter hook forward priority 0; {rule}\n}}\n}}\n")
        subprocess.run(["ip", "netns", "exec", self._space, "nft", "-f", "-"], input=text, text=True, check=True)

    def close(self) -> None:
        """Ends the daemons and removes the namespace."""
        for daemon in self._daemons:
            process.stop(daemon, 10)
        subprocess.run(["ip", "netns", "delete", self._space], check=False, capture_output=True)
        self._temporary.cleanup()

    def _start(self) -> None:
        _output("ip", "netns", "add", self._space)
        mtu = _MTUS[self._payload]
        if self._kind == "xdp":
            self._ip(f"link add end0 mtu {mtu} type veth peer name end1 mtu {mtu}")
        else:
            self._ip(f"link add bridge mtu {mtu} type bridge")
            self._ip("link set bridge up")
            for end in ("end0", "end1"):
                self._ip(f"tuntap add mode tap {end}")
                self._ip(f"link set txqueuelen 8192 master bridge mtu {mtu} {end}")
        for number in (0, 1):
            self._ip(f"link set end{number} up")
            adapter = f"name=end{number},socket={self._adapter(number)},mac=02:00:00:00:00:0{number + 1},hw=18,mtu={mtu}"
            command = ["ip", "netns", "exec", self._space, str(binary("pvrdmad")), "--api-socket", self._api(number), "--adapter", adapter,
                       "--roce-link", f"{self._kind}:end{number}"]
            self._daemons.append(process.start(command, REPOSITORY / "build" / "cluster-logs" / f"roce-bench-{number}.log"))
        for number in (0, 1):
            until(f"daemon {number} serves", lambda number=number: Path(self._adapter(number)).exists() and Path(self._api(number)).exists())

    def _adapter(self, number: int) -> str:
        return str(self._folder / f"adapter{number}.sock")

    def _api(self, number: int) -> str:
        return str(self._folder / f"api{number}.sock")

    def _ip(self, arguments: str) -> None:
        _output("ip", "-n", self._space, *arguments.split())


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"'{' '.join(command)}' ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _bare(benchmark: str) -> dict[str, Any]:
    """One result of link_bench, which makes its own devices."""
    return dict(json.loads(_output(str(binary("link_bench", "bench")), f"--benchmark_filter=^{benchmark}/", "--benchmark_format=json"))
                ["benchmarks"][0])


def _bare_rate(kind: str, payload: int) -> float:
    return float(_bare(f"Rate/kind:{_KINDS[kind]}/payload:{payload}")["payload_gbps"])


def _bare_round_trip(kind: str) -> float:
    return float(_bare(f"RoundTrip/kind:{_KINDS[kind]}")["real_time"]) / 1e3


class Bench:
    """Measures and prints; keeps the JSON's contents."""

    def __init__(self, rounds: int, seconds: float) -> None:
        self.benchmarks: list[dict[str, Any]] = []
        self._rounds, self._seconds = rounds, str(seconds)
        print(f"{'':<58} {'ours':>9} {'theirs':>9} {'ratio':>7} {'again %':>8}")

    def compare(self, title: str, pair: Pair, ours: Callable[[], float], theirs: Callable[[], float]) -> None:
        """One line of the table."""
        before = pair.counted()
        values = [(ours(), theirs()) for _ in range(self._rounds)]
        after = pair.counted()
        counted = {name: after[name] - before.get(name, 0) for name in after}
        again = 100 * counted.get("repeated", 0) / max(1, counted["sent_pkts"])
        mine, other = (statistics.median(side) for side in zip(*values))
        print(f"{title:<58} {mine:9.2f} {other:9.2f} {mine / other:7.2f} {again:8.3f}", flush=True)
        counter = "times_plain" if title.startswith("us:") else "of_plain"
        self.benchmarks.append({"name": title, "run_type": "iteration", "ours": mine, "theirs": other, counter: mine / other,
                                "repeated_percent": again, "rounds": values})

    def bulk(self, pair: Pair) -> float:
        """64 KiB writes over 4 QPs, Gb/s."""
        return pair.perf("--mode", "bandwidth", *_BULK, "--seconds", self._seconds) * 8e-9

    def filtered_bulk(self, pair: Pair, rule: str) -> float:
        """The same through a rule on the bridge."""
        pair.filter(rule)
        return self.bulk(pair)

    def latencies(self, kind: str, pair: Pair) -> None:
        """Two lines: one with cores that sleep when idle, and one without, as in tests/cluster/bench.py."""
        for name, state in (("asleep", contextlib.nullcontext()), ("awake", awake())):
            with state:
                self.compare(f"us: 8-byte write, cores {name}, {kind} | bare round trip", pair, lambda: self._latency(pair),
                             lambda: _bare_round_trip(kind))

    def _latency(self, pair: Pair) -> float:
        return pair.perf("--mode", "latency", "--connections", "1", "--size", "8", "--seconds", self._seconds)


def main() -> int:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement of ours")
    parser.add_argument("--kinds", default=",".join(_KINDS))
    parser.add_argument("--payloads", default="1024,4096", help="path MTUs")
    options = parser.parse_args()
    bench = Bench(options.rounds, options.seconds)
    for kind in options.kinds.split(","):
        for payload in map(int, options.payloads.split(",")):
            with Pair(kind, payload) as pair:
                bench.compare(f"Gb/s: 64 KiB writes, 4 QPs, {kind}, path MTU {payload} | bare", pair, lambda: bench.bulk(pair),
                              lambda: _bare_rate(kind, payload))
                if payload == 1024:
                    bench.latencies(kind, pair)
                if kind == "tap":
                    bench.compare(f"Gb/s: the same writes, {kind}, path MTU {payload}, lossy | lossless", pair,
                                  lambda: bench.filtered_bulk(pair, _LOSS), lambda: bench.filtered_bulk(pair, _NO_LOSS))
    target = REPOSITORY / "build" / "bench" / "roce.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"benchmarks": bench.benchmarks}, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
