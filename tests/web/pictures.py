#!/usr/bin/python3
"""Takes pictures of the web page on a fleet of two hosts with traffic: light, dark, 420 pixels wide, and in forced colours.

    tests/web/pictures.py            every view and dialog, into build/web-pictures/, to be looked at
    tests/web/pictures.py --only monitor   only views whose address or button has this text
    tests/web/pictures.py --size 420       only one of the four sorts
    tests/web/pictures.py --docs     the pictures of docs/client.md, into docs/client/

Needs root, the release build, and Debian's chromium.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "web"), str(_TESTS / "cluster"), str(_TESTS / "vm"), str(_TESTS / "cli"), str(_TESTS.parent / "tools")]

from fleet.certificates import Authority  # noqa: E402  (the path above comes first)
from fleet.fleet import Fleet  # noqa: E402
from fleet.host import Host  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from states import STATES, State  # noqa: E402
from test_access import DIALOGS, VIEWS, WIZARDS  # noqa: E402
from test_migrate import DONE, RUNS  # noqa: E402
from test_monitor import with_nic  # noqa: E402
from test_views import with_device  # noqa: E402
from web.bridge import Bridge  # noqa: E402
from web.browser import Browser  # noqa: E402
from web.monitor import FakeMonitor  # noqa: E402

_MORE_VIEWS = ["#/hosts/esx-02/summary", *(f"#/hosts/esx-02/monitor/{page}" for page in ("budgets", "neighbours", "native", "connections/VM-02")),
              "#/hosts/esx-02/configure/rdma-adapters", "#/hosts/esx-01/monitor/connections", "#/vms/VM-02/summary", "#/events/vm/VM-01"]
_HEIGHT = 800
_SIZES = {"light": (1280, "light", False), "dark": (1280, "dark", False), "420": (420, "light", False), "forced": (1280, "light", True)}
_DOCS = {"readiness": ("#/home", ""), "physical_adapters": ("#/hosts/esx-01/configure/physical-adapters", ""), "vms": ("#/vms", ""),
         "topology": ("#/topology", ""), "budgets": ("#/hosts/esx-01/monitor/budgets", ""), "firewall": ("#/hosts/esx-02/configure/firewall", "Edit"),
         "new_virtual_machine": ("#/vms", "New Virtual Machine")}  # last: a click leaves the pointer over the page


def _keep(browser: Browser, folder: Path, name: str, whole: bool = True) -> None:
    """Takes the whole page, or what is in sight: of a dialog, and without `whole`."""
    browser.wait("nothing moves", lambda: browser.run("return document.getAnimations().length") == 0)
    file = folder / f"{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}.png"
    whole = whole and not browser.run("return document.querySelector('dialog') !== null")
    width, height = browser.run("return [innerWidth, document.documentElement.scrollHeight]")
    if whole:
        _resize(browser, width, height)
    browser.picture(file)
    if whole:
        _resize(browser, width)


def _resize(browser: Browser, width: int, height: int = _HEIGHT) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": max(height, _HEIGHT), "deviceScaleFactor": 1, "mobile": False})


def _take(browser: Browser, folder: Path, view: str, button: str, name: str = "") -> None:
    """A view; with `button` the dialog that it opens, and a wizard's further steps."""
    browser.visit(view)
    if not button:
        _keep(browser, folder, name or view, whole=not name)
        return
    if not browser.button(button).is_enabled():
        return
    browser.click(button)
    _keep(browser, folder, name or f"{view} {button}")
    if button in WIZARDS and not name:
        WIZARDS[button](browser)
        while browser.step != "Ready to complete":
            browser.next()
            _keep(browser, folder, f"{view} {button} {browser.step}")
    browser.run("document.querySelector('dialog').close()")
    browser.settle()


def _shown(path: str, answer: Any) -> Any:
    """What no test machine has: an RDMA NIC, and motions of VMs that have a QEMU."""
    return [DONE, RUNS] if path == "/v1/motions" else with_nic(path, with_device(path, answer))


def _everything(browser: Browser, bridge: Bridge, only: str, only_size: str) -> None:
    views = [(view, button) for view, button in [(view, "") for view in VIEWS + _MORE_VIEWS] + DIALOGS + [("#/vms/VM-01", "Migrate")] if only in f"{view} {button}"]
    for size, (width, theme, forced) in _SIZES.items():
        if only_size not in ("", size):
            continue
        folder = REPOSITORY / "build" / "web-pictures" / size
        bridge.overlay = _shown
        browser.open(bridge.page, VIEWS[0], theme)
        browser.force_colours(forced)
        _resize(browser, width)
        for view, button in views:
            _take(browser, folder, view, button)
        for state in STATES:
            if only in f"{state.view} {state.name}":
                _take_state(browser, bridge, folder, state)
        _take_absence(browser, bridge, folder, only)


def _take_absence(browser: Browser, bridge: Bridge, folder: Path, only: str) -> None:
    """A daemon outside a cluster, one that goes away, and one that is not there when the page is opened."""
    def alone(path: str, answer: Any) -> Any:
        return answer | {"host": None} if path == "/v1/version" else answer

    def cut(path: str) -> str:
        return "cut" if path.startswith("/v1/") else ""
    for name, overlay, trouble, begins_anew, text in (("away", _shown, cut, False, "no updates"), ("first_load_fails", _shown, cut, True, "no answer yet"),
                                                      ("outside", alone, None, False, "not a member of a cluster")):
        if only not in f"#/home {name}":
            continue
        browser.visit("#/home")
        bridge.overlay = overlay
        bridge.trouble = trouble or (lambda _: "")
        if begins_anew:
            browser.driver.refresh()
        browser.wait(name, lambda text=text: text in browser.text("body"))
        _keep(browser, folder, f"state {name}")
        bridge.behave()
        browser.wait("it is live again", lambda: "live" in browser.text("#live"))


def _take_state(browser: Browser, bridge: Bridge, folder: Path, state: State) -> None:
    bridge.overlay = lambda path, answer: state.shown(path, _shown(path, answer))
    state.enter(browser)
    _keep(browser, folder, f"state {state.name}")
    state.undo(browser)


def _take_docs(browser: Browser, bridge: Bridge, host: Host) -> None:
    folder = REPOSITORY / "docs" / "client"
    browser.open(bridge.page)
    browser.wait("both VMs are on", lambda: "VM-02 active" in browser.text("main"))
    browser.go("#/vms")
    browser.wait("the throughput", lambda: "bit/s" in browser.text("main"))
    with FakeMonitor(host, "VM-01"), ThreadPoolExecutor(1) as side:
        ended = side.submit(host.refusal, "vm", "migrate", "VM-01", "--to", "esx-02")
        browser.go("#/motions")
        browser.wait("it runs", lambda: browser.facts().get("State") == "runs")
        _take(browser, folder, "#/motions", "", "motions")
        host.ctl_text("vm", "migrate", "VM-01", "--cancel")
        ended.result()
    for name, (view, button) in _DOCS.items():
        _take(browser, folder, view, button, name)


def main() -> None:
    """Starts the fleet with traffic between its VMs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="the pictures of docs/client.md")
    parser.add_argument("--size", default="", choices=["", *_SIZES], help="only these")
    parser.add_argument("--only", default="", metavar="TEXT", help="only views whose address or button has this text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        _run(arguments, {host: authority.issue(host) for host in ("esx-01", "esx-02")})


def _run(arguments: argparse.Namespace, certificates: dict[str, Any]) -> None:
    with Fleet(REPOSITORY / "build" / "web-logs" / "pictures", certificates=certificates) as fleet, Browser() as browser:
        fleet.follow_the_guide()
        with fleet.checker("VM-01", "VM-02") as checker, Bridge(fleet[1].api) as bridge:
            checker.advance(20)
            if arguments.docs:
                _take_docs(browser, bridge, fleet[1])
            else:
                _everything(browser, bridge, arguments.only, arguments.size)


if __name__ == "__main__":
    main()
