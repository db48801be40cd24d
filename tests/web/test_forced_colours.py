"""A contrast theme, as Windows has: the system's few colours take the place of the page's, and backgrounds and shadows are gone. What is told by a
colour or a background has one of the system's colours for drawing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet.fleet import SWITCH
from test_monitor import with_nic
from test_views import with_device
from web.bridge import Bridge
from web.browser import Browser

# [[selector, pseudo-element, property]] -> their values.
_LOOK = "return arguments[0].map(([selector, part, name]) => getComputedStyle(document.querySelector(selector), part || undefined).getPropertyValue(name))"
_SYSTEM = """
const probe = document.body.appendChild(document.createElement('i'));
const colours = arguments[0].map((name) => { probe.style.color = name; probe.style.forcedColorAdjust = 'none'; return getComputedStyle(probe).color; });
probe.remove();
return colours;
"""


@pytest.fixture
def forced(browser: Browser, bridge: Bridge) -> Iterator[Browser]:
    """The page in forced colours, of a host with an RDMA NIC."""
    bridge.overlay = lambda path, answer: with_nic(path, with_device(path, answer))
    browser.force_colours(True)
    browser.open(bridge.page)
    yield browser
    browser.force_colours(False)


def system(browser: Browser, *names: str) -> list[str]:
    """The system's colours with these names."""
    return browser.run(_SYSTEM, names)


def look(browser: Browser, *parts: tuple[str, str, str]) -> list[str]:
    """Values of properties: a selector, a pseudo-element, the property."""
    for selector, _, _ in parts:
        browser.wait(selector, lambda selector=selector: browser.run("return document.querySelector(arguments[0]) !== null", selector))
    return browser.run(_LOOK, parts)


def test_what_is_chosen_and_what_has_the_focus(forced: Browser) -> None:
    forced.visit("#/hosts/esx-01/configure/physical-adapters")
    [highlight] = system(forced, "Highlight")
    for selector in ("tr.chosen", ".tree a.active", ".side a.active"):
        assert look(forced, (selector, "", "outline-style"), (selector, "", "outline-color")) == ["solid", highlight], selector
    assert look(forced, (".nav-link.active", "::before", "border-bottom-color"), (".nav-link:not(.active)", "::before", "border-bottom-width")) == [highlight, "0px"]
    forced.run("document.getElementById('search').focus()")
    assert look(forced, ("#search", "", "outline-style"), ("#search", "", "outline-color")) == ["solid", highlight]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_drawings(forced: Browser, theme: str) -> None:
    """In both themes: what has no system's colour keeps the theme's."""
    forced.run("document.body.setAttribute('cds-theme', arguments[0])", theme)
    canvas, text, link = system(forced, "Canvas", "CanvasText", "LinkText")
    assert canvas not in (text, link)
    forced.visit("#/hosts/esx-01/monitor/hca")
    assert look(forced, (".bar-part", "", "fill"), (".bar-whole", "", "stroke"), (".bar-whole", "", "fill")) == [text, text, canvas]
    forced.visit("#/vms/VM-01/monitor")
    assert look(forced, (".sparkline polyline", "", "stroke"), (".sparkline", "", "border-bottom-color")) == [text, text]
    forced.visit("#/topology")
    assert look(forced, (".topology-line", "", "stroke"), (".legend .path-none", "", "stroke"), (".topology-title", "", "fill"), (".topology-box rect", "", "stroke"),
                (".topology-box rect", "", "fill"), (".box-text", "", "color")) == [text, text, text, text, canvas, link]


def test_controls(forced: Browser) -> None:
    """The system draws ticks, circles and lists: Clarity's are backgrounds and shadows. What is disabled looks so."""
    forced.visit("#/vms/VM-01")
    [grey] = system(forced, "GrayText")
    assert not forced.button("Migrate").is_enabled()
    assert look(forced, (".title-line button:disabled", "", "color")) == [grey]
    forced.click("Edit Settings")
    assert look(forced, ("#field-reserve", "", "appearance"), ("#field-reserve", "::before", "display"), ("#field-network", "", "appearance")) == ["auto", "none", "auto"]
    assert look(forced, ("#field-connect + label", "", "color")) == [grey]
    forced.click("Cancel", "dialog")
    forced.visit(f"#/networking/{SWITCH}/configure/hosts")
    forced.click("Add and Manage Hosts")
    assert look(forced, ("#field-task-add", "", "appearance"), ("#field-task-add", "::before", "display")) == ["auto", "none"]
