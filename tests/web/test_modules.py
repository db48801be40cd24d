"""The page's modules by themselves, in the same browser (unit/*_test.js)."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import REPOSITORY
from web.browser import Browser

_UNIT = Path(__file__).resolve().parent / "unit"


class _Files(http.server.SimpleHTTPRequestHandler):
    """The repository's files."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def files() -> Iterator[str]:
    """The address of the repository's files."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(REPOSITORY)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("module", sorted(path.name for path in _UNIT.glob("*_test.js")))
def test_module(browser: Browser, files: str, module: str) -> None:
    browser.driver.get(f"{files}/tests/web/unit/blank.html")
    results = browser.driver.execute_async_script(
        "const [address, done] = arguments; import(address).then(() => import('/tests/web/unit/harness.js')).then((harness) => harness.run()).then(done, (error) => done([['import', String(error)]]))",
        f"{files}/tests/web/unit/{module}")
    assert results and [result for result in results if result[1]] == []
