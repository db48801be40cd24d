#!/usr/bin/python3
"""Takes pictures of the web page on a fleet of two hosts with traffic: light, dark and 420 pixels wide.

    tests/web/pictures.py            every view and dialog, into build/web-pictures/, to be looked at
    tests/web/pictures.py --only monitor   only views whose address or button has this text
    tests/web/pictures.py --docs     the pictures of docs/client.md, into docs/client/

Needs root, the release build, and Debian's chromium.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "web"), str(_TESTS / "cluster"), str(_TESTS / "vm"), str(_TESTS / "cli"), str(_TESTS.parent / "tools")]

from fleet.fleet import Fleet  # noqa: E402  (the path above comes first)
from harness.daemon import REPOSITORY  # noqa: E402
from test_access import DIALOGS, VIEWS  # noqa: E402
from test_migrate import DONE, RUNS  # noqa: E402
from test_monitor import with_nic  # noqa: E402
from test_views import with_device  # noqa: E402
from web.bridge import Bridge  # noqa: E402
from web.browser import Browser  # noqa: E402

_SIZES = {"light": (1280, "light"), "dark": (1280, "dark"), "420": (420, "light")}
_DOCS = {"readiness": ("#/home", ""), "physical_adapters": ("#/hosts/esx-01/configure/physical-adapters", ""), "vms": ("#/vms", ""),
         "new_virtual_machine": ("#/vms", "New Virtual Machine"), "topology": ("#/topology", ""), "budgets": ("#/hosts/esx-01/monitor/budgets", "")}


def _take(browser: Browser, folder: Path, name: str, view: str, button: str) -> None:
    browser.go(view)
    browser.wait("it is drawn", lambda: "Loading" not in browser.text("main"))
    if button:
        browser.click(button)
    browser.wait("nothing moves", lambda: browser.run("return document.getAnimations().length") == 0)
    browser.picture(folder / f"{name}.png")
    if button:
        browser.run("document.querySelector('dialog').close()")
        browser.settle()


def _shown(path: str, answer: Any) -> Any:
    """What no test machine has: an RDMA NIC, and motions of VMs that have a QEMU."""
    return [DONE, RUNS] if path == "/v1/motions" else with_nic(path, with_device(path, answer))


def _everything(browser: Browser, page: str, only: str) -> None:
    states = [(view, button) for view, button in [(view, "") for view in VIEWS] + DIALOGS + [("#/vms/VM-01", "Migrate")] if only in f"{view} {button}"]
    for size, (width, theme) in _SIZES.items():
        browser.open(page, VIEWS[0], theme)
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        for view, button in states:
            if button not in ("Edit Settings", "Migrate") and view.startswith("#/vms/VM-01") and button:
                continue  # VM-01 is on here
            if button and not browser_can(browser, view, button):
                continue
            name = re.sub(r"\W+", "_", f"{view} {button}").strip("_")
            _take(browser, REPOSITORY / "build" / "web-pictures" / size, name, view, button)


def browser_can(browser: Browser, view: str, button: str) -> bool:
    """Whether the view's button can be clicked now."""
    browser.go(view)
    return browser.button(button).is_enabled()


def main() -> None:
    """Starts the fleet with traffic between its VMs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="the pictures of docs/client.md")
    parser.add_argument("--only", default="", metavar="TEXT", help="only views whose address or button has this text")
    arguments = parser.parse_args()
    with Fleet(REPOSITORY / "build" / "web-logs" / "pictures") as fleet, Browser() as browser:
        fleet.follow_the_guide()
        with fleet.checker("VM-01", "VM-02") as checker, Bridge(fleet[1].api) as bridge:
            checker.advance(20)
            if arguments.docs:
                browser.open(bridge.page)
                browser.wait("both VMs are on", lambda: "VM-02 powered on" in browser.text("main"))
                browser.go("#/vms")
                browser.wait("the throughput", lambda: "bit/s" in browser.text("main"))
                for name, (view, button) in _DOCS.items():
                    _take(browser, REPOSITORY / "docs" / "client", name, view, button)
            else:
                bridge.overlay = _shown
                _everything(browser, bridge.page, arguments.only)


if __name__ == "__main__":
    main()
