"""A real browser for tests: the system's Chromium, driven by playwright.

One browser for all tests (the fixture `browser`), one `opened(...)` a page: each has a context of its own, so nothing
is shared but the process. `Seen` is what the page did behind our back; `axe` says what would shut people out. Without
a Chromium the fixture skips, and says so; `KSHADOW_CHROMIUM` names another than those on PATH.

    def test_it(browser: Browser) -> None:
        with opened(browser, url, width=360, scheme="dark") as (page, seen):
            assert axe(page) == []
        assert seen.wrong() == []
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_MS = 60_000
"""How long anything may take before it counts as not coming: a machine may stall for seconds."""
SIZES = {360: 740, 1440: 900}
"""Heights of the windows that are looked at, by their width: a phone and a desk."""

Scheme = Literal["light", "dark"]


def chromium_path() -> str | None:
    """The system's Chromium, if there is one."""
    named = os.environ.get("KSHADOW_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, for as long as the block runs. Skips the test where there is none."""
    path = chromium_path()
    if path is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is on PATH, and KSHADOW_CHROMIUM names none")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Root may not have a sandbox; containers have a small /dev/shm; fonts are drawn alike on all machines.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--font-render-hinting=none", "--disable-lcd-text"]
        launched = playwright.chromium.launch(executable_path=path, args=arguments, timeout=PATIENCE_MS)
        try:
            yield launched
        finally:
            launched.close()


@dataclass
class Seen:
    """What a page did: where it asked, what its console said, what it threw."""

    origin: str
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """Requests to anywhere else, warnings and errors of the console (a violated policy is one), exceptions."""
        elsewhere = [f"asked {url}" for url in self.requests if not _same(url, self.origin)]
        return [*elsewhere, *self.console, *self.errors]


def _same(url: str, origin: str) -> bool:
    return url.startswith("data:") or "{0.scheme}://{0.netloc}".format(urlsplit(url)) == origin


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    width: int = 1440,
    height: int | None = None,
    scheme: Scheme = "light",
    script: bool = True,
    motion: bool = False,
    user: tuple[str, str] | None = None,
    scale: float = 1,
) -> Iterator[tuple[Page, Seen]]:
    """A page in a context of its own, with what it did so far. `user`: a name and password for the server."""
    context = browser.new_context(
        viewport={"width": width, "height": height or SIZES.get(width, 900)},
        color_scheme=scheme,
        java_script_enabled=script,
        reduced_motion="no-preference" if motion else "reduce",
        http_credentials=None if user is None else {"username": user[0], "password": user[1]},
        device_scale_factor=scale,
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        seen = Seen("{0.scheme}://{0.netloc}".format(urlsplit(url)))

        def asks(request: Request) -> None:
            seen.requests.append(request.url)

        def says(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                seen.console.append(f"console: {message.text}")

        page.on("request", asks)
        page.on("console", says)
        page.on("pageerror", lambda error: seen.errors.append(f"threw: {error}"))
        page.goto(url)
        yield page, seen
    finally:
        context.close()


def axe(page: Page) -> list[str]:
    """What axe finds: the rule, what it says, and the first of the elements. Everything it knows is looked for."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{it['id']}: {it['help']}: {[str(node['html'])[:200] for node in it['nodes'][:5]]}" for it in found]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
