#!/usr/bin/python3
"""Soak: two hosts in one cluster, many adapters created, connected, loaded and killed at random, local and over TCP.

    tests/soak/soak.py --time 2h [--seed N] [--build build/asan] [--tls]

Each guest is a user-space driver in its own process, which checks exactly-once execution with its peers. From time to time
all guests leave. Then each daemon must have as many descriptors, threads and objects as after the warm-up, and its memory
may exceed that only by a stated slack. Prints a line for each such moment; the report is build/soak/report.json, the logs
are beside it. Exit code 0: no error; 1: an error, reported as a sentence; 2: usage. Needs root, etcd, and the release build
of pvrdmad, pvrdmactl and soak_client.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "cluster"), str(_HERE.parent / "vm"), str(_HERE.parents[1] / "tools")]

from fleet.certificates import Authority  # noqa: E402  (the path above comes first)
from fleet.fleet import Fleet  # noqa: E402
from fleet.host import Host  # noqa: E402
from fleet.until import until  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from soaking.gauge import MIB, Quiet, Slack, difference, growth, objects_of, usage_of  # noqa: E402
from soaking.guest import Broken  # noqa: E402
from soaking.world import World  # noqa: E402

FOLDER = REPOSITORY / "build" / "soak"
_QUIET_GUARD_S = 60.0
_SAMPLE_EVERY_S = 5.0


@dataclass
class Plan:
    """The parameters of a soak."""

    seconds: float
    seed: int
    stay: int = 4          # VMs on each host
    come_and_go: int = 4   # VMs that are deleted and made again
    connections: int = 16  # at once
    pace_ms: int = 10
    tls: bool = False
    slack: Slack = Slack()
    folder: Path = FOLDER

    @property
    def warm_up_s(self) -> float:
        """How long it takes until the daemons have met everything once."""
        return min(300.0, self.seconds / 4)

    @property
    def quiet_every_s(self) -> float:
        """How long all guests work before they leave."""
        return max(15.0, min(240.0, self.seconds / 12))


class Soak:
    """One run of a plan; `report` has its results."""

    def __init__(self, plan: Plan, say: Callable[[str], None] = lambda line: print(line, flush=True)) -> None:
        self._plan = plan
        self._say = say
        self._begin = time.monotonic()
        self._moments: dict[str, list[Quiet]] = {}
        self._next_sample = 0.0
        self.report: dict[str, Any] = {"plan": {**asdict(plan), "folder": str(plan.folder)}, "samples": [], "wrong": []}

    def run(self) -> list[str]:
        """Runs all of it. Returns the errors as sentences."""
        plan = self._plan
        self._say(f"soak: {plan.seconds:.0f} s, seed {plan.seed}, {2 * plan.stay} + {plan.come_and_go} VMs, "
                  f"{plan.connections} connections, logs and report in {plan.folder}")
        with Fleet(plan.folder / "logs", certificates=self._certificates()) as fleet:
            world: World | None = None
            try:
                fleet.follow_the_guide()
                for name in ("VM-01", "VM-02"):
                    fleet[1].ctl_text("vm", "delete", name)
                world = World(fleet, plan.seed, plan.stay, plan.come_and_go, plan.connections, plan.pace_ms)
                self._soak(fleet, world)
                self._stop(fleet)
            except (Broken, AssertionError, RuntimeError) as error:
                self._complain(f"{type(error).__name__}: {error}")
            finally:
                if world is not None:
                    world.close()
                    self._take(world)
        self._save()
        return self.report["wrong"]

    def _soak(self, fleet: Fleet, world: World) -> None:
        self._work(fleet, world, self._plan.warm_up_s)
        self._quiet(fleet, world)
        end = time.monotonic() + self._plan.seconds
        while not self.report["wrong"] and time.monotonic() < end:
            self._work(fleet, world, min(self._plan.quiet_every_s, end - time.monotonic()))
            self._quiet(fleet, world)

    def _work(self, fleet: Fleet, world: World, seconds: float) -> None:
        end = time.monotonic() + seconds
        pause = random.Random(self._plan.seed)
        world.fill()
        while time.monotonic() < end and not world.wrong:
            world.step()
            self._sample(fleet)
            self._expect_alive(fleet)
            time.sleep(pause.uniform(0, 0.2))

    def _quiet(self, fleet: Fleet, world: World) -> None:
        """All guests leave. Each host is checked repeatedly until it is as before, or the guard is over."""
        world.clear()
        self._take(world)
        for host in fleet.hosts.values():
            moments = self._moments.setdefault(host.name, [])
            deadline = time.monotonic() + _QUIET_GUARD_S
            start = moments[0] if moments else self._look(fleet, host)
            while True:
                time.sleep(0.5)
                now = self._look(fleet, host)
                what = difference(host.name, start, now)
                if what is None or time.monotonic() > deadline:
                    break
                if not moments:
                    start = now  # until two checks agree
            moments.append(now)
            for sentence in (what, growth(host.name, moments, self._plan.slack)):
                if sentence is not None:
                    self._complain(sentence)
            self._say(f"{now.at_s:8.0f} s  {host.name}  {now.usage.rss_bytes / MIB:6.1f} MiB "
                      f"({now.usage.own_bytes / MIB:.1f} own)  {now.usage.threads} threads  "
                      f"{now.usage.descriptor_count} descriptors  {now.usage.cpu_s:7.1f} s CPU  rounds {dict(world.rounds)}")

    def _look(self, fleet: Fleet, host: Host) -> Quiet:
        self._expect_settled(fleet, host)
        return Quiet(round(time.monotonic() - self._begin, 1), usage_of(host.pid), objects_of(host))

    def _expect_settled(self, fleet: Fleet, host: Host) -> None:
        """Waits until the guests' ends are in the store and the lanes are up."""
        until(f"all VMs are off for {host.name}", lambda: {vm["power"] for vm in host.ctl("vm", "list")} <= {"off"}, _QUIET_GUARD_S)
        until(f"the lanes of {host.name} stand", lambda: all(
            min(peer["lanes_up"], peer["sessions_up"]) >= fleet.lanes for peer in host.ctl("cluster", "get")["tcp"]["peers"]))
        self._expect_alive(fleet)

    def _expect_alive(self, fleet: Fleet) -> None:
        for host in fleet.hosts.values():
            assert host.running, f"the daemon of {host.name} has ended; its log is {host.log}"

    def _sample(self, fleet: Fleet) -> None:
        now = time.monotonic()
        if now < self._next_sample:
            return
        self._next_sample = now + _SAMPLE_EVERY_S
        for host in fleet.hosts.values():
            used = usage_of(host.pid)
            self.report["samples"].append({"at_s": round(now - self._begin, 1), "host": host.name, "rss_bytes": used.rss_bytes,
                                           "own_bytes": used.own_bytes,
                                           "threads": used.threads, "descriptors": used.descriptor_count, "cpu_s": used.cpu_s,
                                           "objects": objects_of(host)})

    def _stop(self, fleet: Fleet) -> None:
        """Checks that the daemons end in order. With a sanitizer that means without leaks."""
        for host in fleet.hosts.values():
            if (code := host.stop()) != 0:
                self._complain(f"the daemon of {host.name} stopped with {code}; its log is {host.log}")

    def _take(self, world: World) -> None:
        self.report.update(done=dict(world.done), rounds=dict(world.rounds))
        for sentence in world.wrong:
            self._complain(sentence)
        world.wrong.clear()

    def _complain(self, sentence: str) -> None:
        self.report["wrong"].append(sentence)
        self._say(f"WRONG: {sentence}")

    def _certificates(self) -> dict[str, Any] | None:
        if not self._plan.tls:
            return None
        authority = Authority(self._plan.folder / "certificates")
        return {host: authority.issue(host) for host in ("esx-01", "esx-02")}

    def _save(self) -> None:
        self.report["quiet"] = {host: [moment.plain() for moment in moments] for host, moments in self._moments.items()}
        self.report["seconds"] = round(time.monotonic() - self._begin, 1)
        self._plan.folder.mkdir(parents=True, exist_ok=True)
        target = self._plan.folder / "report.json"
        target.write_text(json.dumps(self.report, indent=1), encoding="utf-8")
        verdict = "all as it should be" if not self.report["wrong"] else f"{len(self.report['wrong'])} things are wrong"
        self._say(f"soak: {verdict}; seed {self._plan.seed}, rounds {self.report.get('rounds')}, {target}")


def seconds_of(text: str) -> float:
    """90, 90s, 30m, 2h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no time: say for example 90s, 30m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main() -> int:
    """Parses the command line and runs the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", type=seconds_of, default=seconds_of("10m"), help="after the warm-up; default: 10m")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="of all choices; default: another each time")
    parser.add_argument("--build", help="folder of the build to use; default: build/release")
    parser.add_argument("--tls", action="store_true", help="hosts have certificates")
    parser.add_argument("--stay", type=int, default=Plan.stay, help="VMs on each host")
    parser.add_argument("--come-and-go", type=int, default=Plan.come_and_go, help="VMs that are deleted and made anew")
    parser.add_argument("--connections", type=int, default=Plan.connections, help="connections at once")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("soak: it makes network namespaces: run it as root", file=sys.stderr)
        return 2
    if options.build is not None:
        os.environ["PVRDMA_BUILD"] = str(Path(options.build).resolve())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = Plan(options.time, options.seed, options.stay, options.come_and_go, options.connections, tls=options.tls)
    return 1 if Soak(plan).run() else 0


if __name__ == "__main__":
    sys.exit(main())
