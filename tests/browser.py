"""A real browser for tests: a page that fails its test on any error, and on any request that leaves the machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OWN = ("file://", "data:", "blob:", "about:")
"""What a page may ask for: itself."""
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),  # Chromium asks for nothing of its own either
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"),
)


class Browser:
    """Opens pages, and remembers what went wrong in them: leaving its ``with`` block fails if anything did.

    Attributes:
        complaints: errors on the console, exceptions, and requests that are not the page's own.
    """

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self._contexts: list[Any] = []
        self.complaints: list[str] = []

    def open(self, page: Path | str, **options: Any) -> Any:
        """Open a file, or a page's text, in a window of its own; ``options`` are those of Playwright's contexts.

        Its viewport is 1280 × 900 if ``viewport`` does not say otherwise; ``color_scheme`` is "light" or "dark".
        """
        context = self._chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self._contexts.append(context)
        opened = context.new_page()
        opened.on("console", self._on_console)
        opened.on("pageerror", lambda error: self.complaints.append(f"an exception: {error}"))
        opened.on("request", self._on_request)
        if isinstance(page, Path):
            opened.goto(page.resolve().as_uri())
        else:
            opened.set_content(page)
        return opened

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, error: type[BaseException] | None, value: object, trace: object) -> None:
        for context in self._contexts:
            context.close()
        assert error is not None or not self.complaints, self.complaints

    def _on_console(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(f"an error on the console: {message.text}")

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(OWN):
            self.complaints.append(f"a request: {request.url[:200]}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window; skips where there is none.

    No longer than a module: while Playwright runs, no other event loop can, and Orbax has one.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = next((found for name in NAMES if (found := shutil.which(name))), None)
    if executable is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)} is on the path")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def browser_page(chromium: Any) -> Iterator[Browser]:
    """Opens pages; the test fails if one of them logs an error, throws, or asks for anything but itself."""
    with Browser(chromium) as browser:
        yield browser
