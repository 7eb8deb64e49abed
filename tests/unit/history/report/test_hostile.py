"""Names that mean harm are text, in the page's source and in the summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.common.sanitize import printable
from agent.history.report.page.markup import EMPTY, MAX_NAME, shortened
from tests.unit.history.report import hostile
from tests.unit.history.report.reading import Page, summary

TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "nav", "section", "h1", "h2", "h3"),
    *("p", "ul", "li", "a", "code", "dl", "dt", "dd", "div", "span", "small", "bdi", "abbr", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "img"),
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.page(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def read(page: Path) -> Page:
    return Page(page.read_text(encoding="utf-8"))


def test_every_character_of_the_source_can_be_seen(read: Page) -> None:
    assert {char for char in read.source if not char.isprintable()} == {"\n"}


def test_no_tag_is_a_strangers(read: Page) -> None:
    assert read.tags <= TAGS
    assert "<script" not in read.source
    assert " onerror=" not in read.source.replace("x onerror=alert(1)&gt;", "")
    assert read.source.count("<style>") == 1


def test_names_are_shown(read: Page) -> None:
    rows = read.table("All 15 groups by stopped partition time")
    clusters = [printable(it) for it in hostile.CLUSTERS]
    # The longest stand still the longest, in their order; white space at an end is not seen.
    for at, (row, name) in enumerate(zip(rows, hostile.NAMES, strict=True)):
        assert row["Group"] == " ".join(f"{shortened(name) or EMPTY} | {clusters[at % 2]}".split())
    assert len(shortened(hostile.NAMES[5])) == MAX_NAME
    assert all(row["Main cause"] == f"{printable(hostile.CAUSE).replace('_', ' ')} | 50 %" for row in rows)


def test_the_summary_has_names_as_they_are(page: Path) -> None:
    groups = {row["group"] for row in summary(page.parent / "page-summary", "ranking")}
    assert groups == set(hostile.NAMES)
    teams = {row["team"] for row in summary(page.parent / "page-summary", "teams")}
    assert {"", "-", "long", "日本語", "💥"} <= teams


def test_a_cluster_has_findings_as_well(read: Page) -> None:
    (row,) = read.table("Findings opened in the range")
    assert (row["Analyzer"], row["Findings"], row["Groups"]) == (hostile.ANALYZER, "3", "2")


def test_what_a_model_says_is_text(read: Page) -> None:
    rows = read.table("The setting that saves most")
    assert [row["Setting"] for row in rows] == [printable(hostile.SETTING)] * len(hostile.NAMES)
    assert rows[0]["Group"] == f"{hostile.NAMES[0]} | not exact"
    assert rows[0]["Rebalances now → then"] == "9 → 1"
    assert rows[0]["Stopped now → then"] == "1 min 30 s → 0"
