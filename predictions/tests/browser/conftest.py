"""Chromium on a live site with a small catalogue; every request and message is watched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Machines that build and test are often busy; a page that hangs still fails.
TIMEOUT_MS = 120_000


@dataclass
class Visit:
    """An open page, and what the browser said and asked for while it was open."""

    page: Any
    base: str
    messages: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Load a page of the site."""
        self.page.goto(self.base + path)

    def open_with_chart(self, path: str) -> None:
        """Load a page and wait until its chart is drawn."""
        self.open(path)
        self.page.wait_for_selector(".plot .main-svg")

    def serious_findings(self, *, without: str = "") -> list[tuple[str, list[str]]]:
        """What axe finds on the open page that keeps somebody out: rules, with places.

        ``without`` names the one rule that is not looked at, where we cannot mend it.
        """
        from axe_playwright_python.sync_playwright import Axe

        if self.page.locator(".plot").count():
            self.page.wait_for_selector(".plot .main-svg")
        return [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in Axe().run(self.page).response["violations"]
            if one["impact"] in ("serious", "critical") and one["id"] != without
        ]

    @property
    def width(self) -> int:
        """How wide the page is, which is more than the window where something sticks out."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    @property
    def foreign_addresses(self) -> list[str]:
        """Requests that left the host."""
        return [
            address
            for address in self.addresses
            if not address.startswith((self.base, "data:", "blob:"))
        ]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT_MS)
    # Playwright runs an event loop in this thread, in which Django refuses its ORM otherwise.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS
        )
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def visit(chromium: Any, live_server: Any, catalogue: Any) -> Iterator[Callable[..., Visit]]:
    """Open a window; keyword arguments are those of a browser context."""
    contexts = []

    def start(**options: Any) -> Visit:
        defaults = {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}
        context = chromium.new_context(**{**defaults, **options})
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        found = Visit(context.new_page(), live_server.url)
        found.page.on("console", lambda message: found.messages.append(message.text))
        found.page.on("pageerror", lambda error: found.messages.append(str(error)))
        found.page.on("request", lambda request: found.addresses.append(request.url))
        return found

    yield start
    for context in contexts:
        context.close()
