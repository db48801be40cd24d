"""The page over the API's TLS listener: tokens, roles."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.daemon import binary

os.environ.setdefault("PVRDMAD", str(binary("pvrdmad")))  # test_cli reads them when it is imported
os.environ.setdefault("PVRDMACTL", str(binary("pvrdmactl")))

from test_cli import adapter, running_daemon  # noqa: E402
from test_doctor import member  # noqa: E402
from test_read_token import READ_TOKEN, api  # noqa: E402
from web.browser import Browser  # noqa: E402

TOKEN = "0123456789abcdef"


@pytest.fixture
def page(shared_browser: Browser) -> Iterator[str]:
    """The page of a daemon of one host, over TLS. The browser leaves it before the daemon ends."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        folder = Path(name)
        table, port = api(folder)
        with running_daemon(folder, adapter(folder, 1) + member(folder) + table):
            yield f"https://127.0.0.1:{port}/ui/"
            shared_browser.driver.get("about:blank")


def log_in(browser: Browser, token: str) -> None:
    """Types a token into the login page."""
    field = browser.wait("the login page", lambda: browser.run("return document.getElementById('token')"))
    field.clear()
    field.send_keys(token)
    browser.click("Log In")


def test_tokens_and_roles(page: str, browser: Browser) -> None:
    browser.driver.get(f"{page}#/networking")
    browser.wait("it asks for a token", lambda: "Token" in browser.text("main"))
    assert browser.violations() == []
    log_in(browser, "wrong-token-0123")
    browser.wait("it says why not", lambda: "has other tokens" in browser.text("main .alert-danger"))
    assert browser.violations() == []
    assert browser.text("header").split("\n") == ["pvrdma", "not logged in", "◐"]
    log_in(browser, READ_TOKEN)
    browser.wait("the view that was asked for", lambda: browser.text("main h1") == "Distributed Switches")
    assert "Read-only" in browser.text("header")
    assert not browser.button("New Distributed Switch").is_enabled() and "read-only token" in browser.text("main")
    assert READ_TOKEN not in browser.driver.current_url
    browser.run("document.querySelector('[aria-label=\"Log out\"]').click()")
    log_in(browser, TOKEN)
    browser.wait("it is live", lambda: "live" in browser.text("#live"))
    assert "Administrator" in browser.text("header")
    browser.click("New Distributed Switch")
    browser.finish()
    assert browser.wait("the switch", lambda: browser.text("main h1")) == "DSwitch"
    browser.run("sessionStorage.clear()")
    assert [message for message in browser.messages() if "status of 401" not in message] == []


def test_the_read_token_sees_what_runs_and_acts_on_nothing(page: str, browser: Browser) -> None:
    browser.driver.get(f"{page}#/captures")
    log_in(browser, READ_TOKEN)
    for view, button in (("#/captures", "Capture"), ("#/hosts/esx-01/monitor/hca", "Measure"), ("#/vms/VM-01/monitor", "Capture")):
        browser.go(view)
        browser.wait(f"the button {button}", lambda button=button: not browser.button(button).is_enabled())
        assert "You are logged in with the read-only token." in browser.text("main"), view
    browser.go("#/faults")
    browser.wait("why there are none", lambda: "This daemon injects no faults" in browser.text("main"))
    browser.go("#/hosts/esx-01/monitor/budgets")
    assert [row["Adapter"] for row in browser.grid("Budgets")] == ["VM-01"]
    browser.run("document.querySelector('[aria-label=\"Log out\"]').click()")
    browser.wait("the login page", lambda: browser.run("return document.getElementById('token')"))
    assert [message for message in browser.messages() if "status of 401" not in message] == []  # 401: before and after the token


def test_a_wizard_keeps_what_was_typed_while_the_tokens_change(browser: Browser) -> None:
    """Once by itself, and once at its own request."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        folder = Path(name)
        table, port = api(folder)
        config = adapter(folder, 1) + member(folder) + table
        with running_daemon(folder, config):
            browser.driver.get(f"https://127.0.0.1:{port}/ui/#/networking")
            log_in(browser, TOKEN)
            browser.click("New Distributed Switch")
            browser.type("name", "Typed")
            browser.next()
            browser.choose("version", "7.0.3")
        (folder / "notify").unlink()
        (folder / "token").write_text("another-token-01\n", encoding="ascii")
        with running_daemon(folder, config):
            browser.wait("it asks for the new token", lambda: "has other tokens" in browser.text("main .alert-danger"))
            assert browser.run("return document.querySelector('dialog')") is None
            log_in(browser, "another-token-01")
            browser.wait("the wizard", lambda: browser.step == "Select version")
            assert browser.field("version").find_element("css selector", "option:checked").text == "7.0.3"
            assert browser.run("return document.querySelector('dialog').contains(document.activeElement)")
            browser.run("sessionStorage.setItem('pvrdma-token', 'x'.repeat(16))")
            browser.button("Next", "dialog").click()
            log_in(browser, "another-token-01")
            browser.wait("the wizard", lambda: browser.step == "Select version")
            assert browser.refusal == ""
            browser.click("Back", "dialog")
            assert browser.field("name").get_property("value") == "Typed"
            browser.finish()
            browser.wait("the switch", lambda: browser.text("main h1") == "Typed")
            assert browser.facts()["Version"] == "7.0.3"
            browser.driver.get("about:blank")
    assert [message for message in browser.messages() if not re.search("status of 401|ERR_", message)] == []
