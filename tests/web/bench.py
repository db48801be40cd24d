#!/usr/bin/python3
"""What the web page costs: the browser, the daemon, and the messages of a program while six watchers read /v1/watch.

Prints each figure beside its aim, and writes build/bench/web.json, of Google Benchmark's shape for bench/compare. A figure that
cannot be measured ends it with exit code 1. Script and tasks are counted in CPU time of the page's main thread, because another
program on the machine stretches wall time. Needs root, the release build, perftest, and Debian's chromium.
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.common.exceptions import WebDriverException

sys.dont_write_bytecode = True
_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / part) for part in ("web", "cluster", "vm", "process", "cli")] + [str(_TESTS.parent / "tools")]

from comparison import idle, report  # noqa: E402  (the path above comes first)
from fleet.fleet import Fleet  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from machine import Machine, listens  # noqa: E402
from web.bridge import Bridge  # noqa: E402
from web.byte_port import BytePort  # noqa: E402
from web.browser import Browser  # noqa: E402

_LAT_PORTS = range(23917, 24017)  # the first free one is used
_LAT_MESSAGES = 20_000
_AFTER_DATA = {"/v1/faults"}  # asked for by the first drawing that has data, if the daemon may inject faults


class Figures:
    """Prints figures and keeps them."""

    def __init__(self) -> None:
        self.benchmarks: list[dict[str, Any]] = []

    def add(self, name: str, value: float, aim: float | None, unit: str) -> None:
        """`aim`: the most that it should be; None: there is no aim."""
        verdict = "" if aim is None else f"  at most {aim:g}: {'reached' if value <= aim else 'not reached'}"
        print(f"{name:<58}{value:>10.4g} {unit:<10}{verdict}", flush=True)
        self.benchmarks.append({"name": f"Web/{name}", "run_type": "iteration", "unit": unit, "cost": value, "aim": aim})


def _size(api: Path, path: str) -> int:
    """Bytes of an asset as the daemon sends it to a browser."""
    done = subprocess.run(["curl", "-sf", "-H", "Accept-Encoding: gzip", "--unix-socket", api, f"http://localhost{path}"], capture_output=True, check=True)
    return len(done.stdout)


def _load(browser: Browser, go: Callable[[], None]) -> tuple[list[str], float]:
    """Goes to the page. Returns the paths that it asked for until it had its first data, and after how many ms it had them."""
    browser.asked()
    go()
    browser.wait("it is live", lambda: "live" in browser.text("#live"))
    paths = {urlsplit(address).path for address in browser.asked()} - _AFTER_DATA
    loads = browser.run("return performance.getEntriesByType('resource').map(({ name, responseEnd }) => [new URL(name).pathname, responseEnd])")
    ended_ms = dict(reversed(loads))  # the first one of each path
    return sorted(paths), max(float(ended_ms[path]) for path in paths if path.startswith("/v1/") and path != "/v1/watch")


def first_page(browser: Browser, api: Path, address: str, figures: Figures) -> None:
    """Requests, bytes and time until the page has data: with an empty cache, from another site, and loaded again.

    From another site Chromium starts a process for the page. An image of the daemon, opened the same way, tells what that takes.
    """
    def visit(address: str) -> None:
        browser.driver.get("about:blank")
        browser.driver.get(address)

    def image_ms() -> float:
        visit(favicon)
        return float(browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd"))
    browser.driver.get("about:blank")
    browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    page = f"{address}#/hosts"
    paths, first_ms = _load(browser, lambda: browser.driver.get(page))
    assets = [path for path in paths if path.startswith("/ui/")]
    [icon] = [path for path in assets if "favicon" in path]
    favicon = "{0.scheme}://{0.netloc}{1}".format(urlsplit(address), icon)
    figures.add("assets, files", len(assets), 4, "")
    figures.add("assets, compressed", sum(_size(api, path) for path in assets) / 1000, 80, "kB")
    figures.add("first page, requests", len(paths), 8, "")
    figures.add("first page", first_ms, 500, "ms")
    figures.add("an image from another site, median of 5", statistics.median(image_ms() for _ in range(5)), None, "ms")
    figures.add("the page from another site, median of 5", statistics.median(_load(browser, lambda: visit(page))[1] for _ in range(5)), 200, "ms")
    figures.add("the page loaded again, median of 5", statistics.median(_load(browser, browser.driver.refresh)[1] for _ in range(5)), 200, "ms")


def ticks(browser: Browser, figures: Figures, name: str, aims: tuple[float, float], seconds: float) -> None:
    """The work of a page that is only looked at: script for each round of requests, and the share of a core."""
    time.sleep(5)  # until what was opened is drawn
    before, began = browser.counters(), time.monotonic()
    time.sleep(seconds)
    after, took_s = browser.counters(), time.monotonic() - began
    figures.add(f"{name}, script for 2 s", (after["ScriptDuration"] - before["ScriptDuration"]) * 2000 / took_s, aims[0], "ms")
    figures.add(f"{name}, of a core", (after["TaskDuration"] - before["TaskDuration"]) * 100 / took_s, aims[1], "%")


def five_thousand_vms(path: str, answer: Any) -> Any:
    """5,000 VMs, made of the first one. The stream does not tell that many."""
    if path == "/v1/watch":
        return None
    return [answer[0] | {"name": f"VM-{number:04}"} for number in range(5000)] if path == "/v1/vms" else answer


def changes(browser: Browser, fleet: Fleet, figures: Figures) -> None:
    """How long a change by pvrdmactl takes to be on the screen, from the moment when pvrdmactl has ended."""
    for number, aim in ((1, 300), (2, 1000)):
        took = []
        for at in range(10):
            browser.go("#/networking")
            name = f"Bench-{number}-{at}"
            fleet[number].ctl("dvs", "create", name)
            began = time.monotonic()
            while name not in browser.text("main"):
                assert time.monotonic() < began + 30, f"{name} does not appear"
            took.append((time.monotonic() - began) * 1000)
            fleet[number].ctl_text("dvs", "delete", name)
        figures.add(f"a change by {'this' if number == 1 else 'another'} host, median of 10", statistics.median(took), aim, "ms")


@contextmanager
def watchers(api: Path) -> Iterator[None]:
    """Six readers of /v1/watch: a listener has six places, four of them for one user. Four are root's, two the daemon's own user's."""
    command = ["curl", "-sN", "-o", "/dev/null", "--unix-socket", str(api), "http://localhost/v1/watch"]
    started = [subprocess.Popen(command, user=user) for user in (0, 0, 0, 0, *(api.stat().st_uid,) * 2)]
    try:
        time.sleep(1)
        assert all(each.poll() is None for each in started), "a watcher has ended"
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def daemon_cpu(fleet: Fleet, figures: Figures, seconds: float) -> None:
    """The daemon's CPU time without watchers and with six."""
    alone = idle.percent_of_core(fleet[1].pid, seconds)
    with watchers(fleet[1].api):
        with_six = idle.percent_of_core(fleet[1].pid, seconds)
    figures.add("daemon without watchers, of a core", alone, None, "%")
    figures.add("six watchers, more of a core", with_six - alone, 0.5, "%")


def latency(figures: Figures, rounds: int) -> None:
    """The 99th percentile of ib_send_lat between two process adapters, by turns without watchers and with six."""
    machine = Machine()
    try:
        for node in (0, 1):
            started = machine.run("--start", node=node)
            assert started.returncode == 0, started.stdout

        def p99_us() -> float:
            port = next(port for port in _LAT_PORTS if not listens(port))
            words = ("ib_send_lat", "-F", "-s", "8", "-n", str(_LAT_MESSAGES), "-p", str(port))
            _, told = machine.pair(words, (*words, "127.0.0.1"), (1, 0))
            [row] = re.findall(r"^ *8 +\d+ (.*)$", told, re.MULTILINE)
            return float(row.split()[5])

        def with_watchers() -> float:
            with watchers(machine.api):
                return p99_us()
        ways: dict[str, Callable[[], float]] = {"without watchers": p99_us, "with six watchers": with_watchers}
        seen: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                seen[name].append(way())
        for name, values in seen.items():
            figures.add(f"ib_send_lat p99 {name}, median of {rounds}", statistics.median(values), None, "us")
        print(f"  least and most: {', '.join(f'{name} {min(values):.2f} to {max(values):.2f}' for name, values in seen.items())}")
    finally:
        machine.close()


def page(fleet: Fleet, figures: Figures, seconds: float) -> None:
    """What the browser needs."""
    api = fleet[1].api
    with Browser() as browser, BytePort(api) as port:
        first_page(browser, api, port.page, figures)
        with Bridge(api) as bridge:
            bridge.watches = True
            bridge.overlay = five_thousand_vms
            browser.open(bridge.page, "#/vms")
            ticks(browser, figures, "5,000 VMs", (10, 5), seconds)
            figures.add("5,000 VMs, heap", browser.heap_bytes() / 1e6, 60, "MB")
            browser.driver.get("about:blank")
        browser.open(port.page, "#/vms")
        with fleet.checker("VM-01", "VM-02") as checker:
            checker.advance(20)
            ticks(browser, figures, "6 VMs, one with traffic", (10, 1), seconds)
        figures.add("6 VMs, heap", browser.heap_bytes() / 1e6, 60, "MB")
        changes(browser, fleet, figures)


def measure(figures: Figures, seconds: float, rounds: int) -> None:
    """Everything, one after the other."""
    with Fleet(REPOSITORY / "build" / "web-logs" / "bench") as fleet:
        fleet.folder.chmod(0o755)  # for watchers of another user
        fleet.follow_the_guide()
        for number in range(3, 7):
            fleet.define_vm(f"VM-0{number}", 1)
        page(fleet, figures, seconds)
        daemon_cpu(fleet, figures, seconds)
    latency(figures, rounds)


def main() -> int:
    """Exit code 0, or 1 if a figure cannot be measured. SIGTERM ends it like Ctrl-C, with everything cleaned up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for each figure that is a share of time")
    parser.add_argument("--rounds", type=int, default=7, help="of ib_send_lat")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench" / "web.json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    context = report.beginning()
    figures = Figures()
    try:
        measure(figures, options.seconds, options.rounds)
    except (AssertionError, OSError, RuntimeError, ValueError, WebDriverException, subprocess.SubprocessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    report.save(context, figures.benchmarks, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
