"""Fixtures of the tests of the web page: a fleet of two hosts, a browser, and a bridge between them."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "web"), str(_TESTS / "cluster"), str(_TESTS / "vm"), str(_TESTS / "cli"), str(_TESTS.parent / "tools")]

from fleet.certificates import Authority  # noqa: E402  (the path above comes first)
from fleet.fleet import Fleet  # noqa: E402
from fleet.host import Host  # noqa: E402
from harness.daemon import REPOSITORY  # noqa: E402
from web.bridge import Bridge  # noqa: E402
from web.browser import Browser  # noqa: E402

LOGS = REPOSITORY / "build" / "web-logs"
_REFUSED = "the server responded with a status of 409"  # Chromium logs each; the page shows the sentence


def pytest_configure() -> None:
    """Makes SIGTERM end the run like Ctrl-C: in order, with everything cleaned up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        pytest.exit("the tests of the web page make network namespaces: run them as root", returncode=2)


@pytest.fixture(scope="session")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts with certificates, set up by the deployment guide, with VM-01 and VM-02 off. A test must leave them as it found
    them."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    with Fleet(LOGS / "guided", certificates={host: authority.issue(host) for host in ("esx-01", "esx-02")}) as fleet:
        fleet.follow_the_guide()
        yield fleet


@pytest.fixture(scope="session")
def empty() -> Iterator[Fleet]:
    """Two hosts with nothing configured and no certificates, for the walk by clicks and the walk by keys. A test must leave them so."""
    with Fleet(LOGS / "empty") as fleet:
        yield fleet


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[Browser]:
    """The browser behind `browser`."""
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    """The browser. At the end of the test its console holds no error and no report of the content security policy; a test that
    expects some reads them with messages()."""
    shared_browser.messages()
    yield shared_browser
    assert [message for message in shared_browser.messages() if _REFUSED not in message] == []


@pytest.fixture
def downloads(browser: Browser) -> Iterator[Path]:
    """The folder to which the browser saves files."""
    with tempfile.TemporaryDirectory(prefix="pvrdma-") as name:
        Path(name).chmod(0o777)
        browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": name})
        yield Path(name)
        browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "deny"})


@contextmanager
def bridge_to(host: Host, browser: Browser) -> Iterator[Bridge]:
    """A port that leads to the host's API. The page leaves before it ends."""
    with Bridge(host.api) as bridge:
        yield bridge
        browser.driver.get("about:blank")


@pytest.fixture
def bridge(guided: Fleet, shared_browser: Browser) -> Iterator[Bridge]:
    """A port that leads to the API of `guided`'s esx-01."""
    with bridge_to(guided[1], shared_browser) as bridge:
        yield bridge


@pytest.fixture
def empty_bridge(empty: Fleet, shared_browser: Browser) -> Iterator[Bridge]:
    """A port that leads to the API of `empty`'s esx-01."""
    with bridge_to(empty[1], shared_browser) as bridge:
        yield bridge
