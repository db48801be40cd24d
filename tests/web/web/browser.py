"""Debian's Chromium, headless, as an ordinary user with its own sandbox. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from fleet.until import until
from harness.block import Block

_AXE = Path(__file__).resolve().parents[1] / "axe" / "axe.min.js"
_USER = "nobody"
_ARGUMENTS = ("--headless=new", "--window-size=1280,800", "--disable-dev-shm-usage", "--disable-background-networking", "--force-color-profile=srgb")

# Rows of the grid with this label, as pairs of column title and text: read at once, for rows change at any time.
_READ_GRID = """
const grid = [...document.querySelectorAll('[role=grid]')].find((each) => each.getAttribute('aria-label') === arguments[0]);
if (!grid) return null;
const titles = [...grid.querySelectorAll('thead th button')].map((each) => each.innerText.replace(/ [▾▴]$/, ''));
return [...grid.querySelectorAll('tbody tr[role=row]')].map((row) => [...row.cells].map((cell, at) => [titles[at], cell.innerText.trim()]));
"""
# The rules of axe-core that may find something else in another theme.
_COLOURS = ("color-contrast", "link-in-text-block")
_SHOW_THEME = "document.body.setAttribute('cds-theme', arguments[0]); document.getAnimations().forEach((each) => each.finish())"
_READ_FACTS = """
return Object.fromEntries([...document.querySelectorAll(`${arguments[0]} dl.facts dt`)].map((each) => [each.innerText.trim(), each.nextElementSibling.innerText.trim()]));
"""


class Browser(Block):
    """One tab. open() begins each test with an empty storage."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pvrdma-browser-"))
        self._driver: webdriver.Chrome | None = None

    def close(self) -> None:
        """Ends the browser."""
        if self._driver is not None:
            self._driver.quit()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        options.accept_insecure_certs = True  # the tests' own certificates
        for argument in (*_ARGUMENTS, f"--user-data-dir={self._folder}/profile"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self._driver = webdriver.Chrome(service=Service(self._launcher()), options=options)
        self._driver.set_script_timeout(30)

    def _launcher(self) -> str:
        """chromedriver, and Chromium with it, as an ordinary user."""
        if os.geteuid() != 0:
            return "/usr/bin/chromedriver"
        shutil.chown(self._folder, _USER)
        launcher = self._folder.with_suffix(".sh")
        launcher.write_text(f"#!/bin/sh\nrm -f '{launcher}'\ncd '{self._folder}'\nexec setpriv --reuid={_USER} --regid=nogroup --clear-groups --no-new-privs "
                            f"env HOME='{self._folder}' /usr/bin/chromedriver \"$@\"\n", encoding="ascii")
        launcher.chmod(0o755)
        return str(launcher)

    @property
    def driver(self) -> webdriver.Chrome:
        """Selenium's driver."""
        assert self._driver is not None
        return self._driver

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def open(self, page: str, address: str = "#/home", theme: str = "light") -> None:
        """Opens the page as a new visitor does, and waits for its first data."""
        self.driver.get("about:blank")
        self.messages()
        # Before any script of the page: a page that is loaded and left at once asks the daemon for more or less, by chance.
        storage = f"localStorage.clear(); sessionStorage.clear(); localStorage.setItem('pvrdma-theme', '{theme}')"
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": storage})
        self.driver.get(page + address)
        self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
        until("the page is live", lambda: "live" in self.text("#live"))

    def go(self, address: str) -> None:
        """Another view of the open page."""
        self.run("location.hash = arguments[0]", address)
        self.settle()

    def follow(self, name: str, *links: str) -> None:
        """Clicks an entry of the inventory, then links of the view: tabs, and entries of the list beside it."""
        script = """return [...document.querySelectorAll(`${arguments[0]} a`)].find((each) => each.title === arguments[1] || each.textContent.trim() === arguments[1]) ?? null"""
        for place, text in [("nav.tree", name), *(("main nav", link) for link in links)]:
            until(f"the link {text}", lambda place=place, text=text: self.run(script, place, text), accept=lambda found: found is not None).click()
            self.settle()

    def visit(self, address: str) -> None:
        """As go(), and waits for the view's data."""
        self.go(address)
        self.wait(f"{address} is drawn", lambda: self.text("main h1") and "Loading" not in self.text("main"))

    def settle(self) -> None:
        """Waits until what has changed is drawn."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def text(self, selector: str) -> str:
        """The text of the first such element; empty without one."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def grid(self, label: str) -> list[dict[str, str]]:
        """The rows of a grid, once it is there."""
        rows = until(f"the grid {label}", lambda: self.run(_READ_GRID, label), accept=lambda found: found is not None)
        return [dict(row) for row in rows]

    def facts(self, selector: str = "main") -> dict[str, str]:
        """Names and values of a view."""
        return self.run(_READ_FACTS, selector)

    def button(self, label: str, inside: str = "body") -> WebElement:
        """The button with this text, once it is there."""
        script = "return [...document.querySelectorAll(`${arguments[0]} button`)].find((each) => each.textContent.trim() === arguments[1]) ?? null"
        return until(f"the button {label}", lambda: self.run(script, inside, label), accept=lambda found: found is not None)

    def click(self, label: str, inside: str = "body") -> None:
        """Clicks a button, once it can be clicked."""
        until(f"the button {label} is enabled", lambda: self.button(label, inside).is_enabled())
        self.button(label, inside).click()
        self.settle()

    def field(self, name: str) -> WebElement:
        """A field of the open dialog."""
        return until(f"the field {name}", lambda: self.run("return document.getElementById(`field-${arguments[0]}`)", name), accept=lambda found: found is not None)

    def type(self, name: str, text: str) -> None:
        """Replaces the text of a field."""
        field = self.field(name)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text or Keys.DELETE)
        self.settle()

    def choose(self, name: str, title: str) -> None:
        """Chooses from a list."""
        self.field(name).find_element(By.XPATH, f".//option[normalize-space(.)='{title}']").click()
        self.settle()

    def tick(self, name: str, on: bool) -> None:
        """Sets a box."""
        field = self.field(name)
        if field.is_selected() != on:
            field.send_keys(Keys.SPACE)
        self.settle()

    @property
    def refusal(self) -> str:
        """The sentence with which the dialog was refused; empty without one."""
        return self.text("dialog .alert-danger")

    def ok(self, label: str = "OK") -> None:
        """Ends the dialog. AssertionError with the refusal, if there is one."""
        self.click(label, "dialog")
        self.wait(f"the dialog ends ({label})", lambda: self.refusal != "" or not self.run("return document.querySelector('dialog') !== null"))
        assert self.refusal == "", self.refusal

    def next(self, times: int = 1) -> None:
        """Goes on in a wizard. AssertionError with the refusal, if there is one."""
        for _ in range(times):
            before = self.step
            self.click("Next", "dialog")
            self.wait("the next step", lambda: self.refusal != "" or self.step != before)
            assert self.refusal == "", self.refusal

    @property
    def step(self) -> str:
        """The step of the wizard that is shown."""
        return self.text("dialog .wizard-steps .active")

    def finish(self) -> None:
        """Ends a wizard from any step: its last one shows what changes. AssertionError with the refusal, if there is one."""
        while self.step != "Ready to complete":
            self.next()
        assert self.text("dialog table.changes")
        self.ok("Finish")

    def wait(self, what: str, look: Callable[[], Any], guard_s: float = 30.0) -> Any:
        """Waits for the page."""
        return until(what, look, guard_s)

    def messages(self) -> list[str]:
        """Warnings and errors of the console since the last call, reports of the content security policy among them."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def asked(self) -> list[str]:
        """Addresses of all requests since the last call."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def violations(self, *rules: str) -> list[str]:
        """What axe-core finds, one line each, by these of its rules or by all. It is injected past Trusted Types."""
        if not self.run("return 'axe' in window"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": _AXE.read_text(encoding="utf-8"), "silent": True})
        found = self.driver.execute_async_script(
            "const [rules, done] = arguments; const only = rules.length ? {runOnly: {type: 'rule', values: rules}} : {};"
            "axe.run({resultTypes: ['violations'], ...only}).then((result) => done(result.violations), (error) => done([{id: String(error), nodes: []}]))", rules)
        return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']][:3]} {[(node.get('any') or [{}])[0].get('message') for node in each['nodes']][:1]}" for each in found]

    def violations_of_both_themes(self) -> list[str]:
        """What axe-core finds in the light theme, which is shown, and what it finds in the dark one's colours."""
        light = self.violations()
        self.run(_SHOW_THEME, "dark")
        dark = [f"dark: {each}" for each in self.violations(*_COLOURS)]
        self.run(_SHOW_THEME, "light")
        return light + dark

    def force_colours(self, on: bool) -> None:
        """Whether the system's few colours take the place of the page's, as a contrast theme of Windows has it."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "forced-colors", "value": "active" if on else "none"}]})

    def counters(self) -> dict[str, float]:
        """The page's counters of Chromium's Performance domain, by name. Seconds are CPU time of its main thread."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        return {each["name"]: each["value"] for each in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}

    def heap_bytes(self) -> int:
        """Bytes of the page's heap after a collection."""
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return int(self.counters()["JSHeapUsedSize"])

    def picture(self, file: Path) -> None:
        """A screenshot."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.settle()
        time.sleep(0.2)  # for transitions of the style sheet
        file.write_bytes(self.driver.get_screenshot_as_png())
