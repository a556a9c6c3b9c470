"""A real browser for the tests of pages; without one they are left out, and pytest says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

TIMEOUT = 600_000  # milliseconds; a busy machine is slow, and no test measures time
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def executable() -> str | None:
    """The browser of this machine: $DSSL_BROWSER, or the first that is installed."""
    return os.environ.get("DSSL_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


def serious(said: Any) -> bool:
    """Whether a line on the console is a problem of the page; that a test reads the map back is none."""
    return said.type in ("error", "warning") and "GPU stall due to ReadPixels" not in said.text


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = executable()
    if path is None:
        pytest.skip(
            "no browser on this machine: the tests of pages are left out (install chromium, or set DSSL_BROWSER)"
        )
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # Root has no sandbox to offer, as in most containers; the graphics may be a program's.
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"]
        running = playwright.chromium.launch(executable_path=path, args=options, timeout=TIMEOUT)
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address and wait until all is read; at the end, nothing may have gone wrong on any page."""
    contexts: list[Any] = []
    problems: list[str] = []

    def opened(address: str, *, before: str = "", wait: str = "body[data-ready]", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        page.on("console", lambda said: problems.append(said.text) if serious(said) else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
        if before:
            page.add_init_script(before)
        page.goto(address)
        page.wait_for_selector(wait)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []
