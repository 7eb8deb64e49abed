"""The page in a real Chromium: nothing is asked for, nobody is shut out, nothing is cut off, on paper neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.harness.browser import axe, opened, overflow
from tests.unit.presentation.report.made import of_capture, page_of


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(of_capture(most=3)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_it_is_for_all(browser: Browser, address: str, width: int, scheme: str) -> None:
    with opened(browser, address, width=width, scheme=scheme) as (page, seen):  # type: ignore[arg-type]
        assert overflow(page) == 0
        shown = page.locator("figure svg:visible")
        assert shown.count() == 1 + 3, "of the two widths, the one that fits"
        narrow = page.evaluate("Math.min(...[...document.querySelectorAll('svg')].map(it => it.clientWidth || 9999))")
        assert narrow <= width
        page.locator("details").first.locator("summary").click()
        assert page.locator("details table").first.is_visible()
        assert axe(page) == []
        assert seen.requests == [address]
        assert seen.wrong() == []


def test_it_runs_without_script_and_prints(browser: Browser, address: str) -> None:
    with opened(browser, address, width=703, script=False) as (page, seen):
        page.emulate_media(media="print")
        pdf = page.pdf(prefer_css_page_size=True)
        pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
        assert 3 <= pages - 1 <= 12, "a page before each group"
        assert seen.wrong() == []


def test_nothing_is_cut_off_on_paper(browser: Browser, address: str) -> None:
    with opened(browser, address, width=703, scheme="dark") as (page, _):
        page.emulate_media(media="print")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)", "paper is light"
        wide = page.evaluate(
            "[...document.querySelectorAll('svg, table')].filter(it => it.getClientRects().length)"
            ".map(it => it.getBoundingClientRect().right).filter(it => it > innerWidth)"
        )
        assert wide == []


def test_paths_of_links(browser: Browser, address: str) -> None:
    with opened(browser, address) as (page, _):
        link = page.locator("nav a", has_text="audit-loop")
        link.click()
        target = Path(page.url).name.partition("#")[2]
        assert page.locator(f"#{target} h2").inner_text() == "audit-loop"
