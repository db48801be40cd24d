"""A page that stays open for long, in front of two VMs with traffic: it does not grow."""

from __future__ import annotations

import os
import time

import pytest

from fleet.fleet import Fleet
from web.bridge import Bridge
from web.browser import Browser

_SESSION_S = float(os.environ.get("PVRDMA_SESSION_S", "600"))
_GROWTH_MAX = 1_000_000  # bytes
_VIEWS = ["#/home", "#/vms", "#/vms/VM-01/monitor", "#/connections", "#/connections/VM-01", "#/topology", "#/events", "#/hosts/esx-01/monitor/budgets",
          "#/hosts/esx-02/monitor/budgets", "#/motions"]

# Goes from view to view by itself: each call of the driver leaves some hundred bytes in the page's heap.
_WALK = """
const views = arguments[0];
let at = 0;
window.walk = setInterval(() => { location.hash = views[at++ % views.length]; }, 2000);
"""


@pytest.mark.full
def test_a_long_session(browser: Browser, guided: Fleet, bridge: Bridge) -> None:
    """A visitor goes from view to view. PVRDMA_SESSION_S: for how many seconds."""
    bridge.watches = True
    with guided.checker("VM-01", "VM-02") as checker:
        browser.open(bridge.page)
        browser.run(_WALK, _VIEWS)
        time.sleep(360)  # until every view, and five minutes of every rate, are there
        before = browser.heap_bytes()
        time.sleep(_SESSION_S)
        growth = browser.heap_bytes() - before
        print(f"heap: {before} bytes, after {_SESSION_S:.0f} s {growth:+} bytes")
        assert growth < _GROWTH_MAX
        checker.advance(20)
        browser.run("clearInterval(window.walk)")
    assert "live" in browser.text("#live")
