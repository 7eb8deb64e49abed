"""Names that mean harm are text, in the page's source and in a browser, and no request leaves the page."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agent.common.sanitize import printable
from agent.history.report.page.markup import EMPTY, MAX_NAME, shortened
from agent.tools.spark_submit.jobs import Report
from spark_jobs.report.job import run
from tests.live.spark_jobs.report import hostile, made
from tests.live.spark_jobs.report.browser import CHROMIUM, Browser, browser
from tests.live.spark_jobs.report.reading import Page, summary

TAGS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "nav", "section", "h1", "h2", "h3"),
    *("p", "ul", "li", "a", "code", "dl", "dt", "dd", "div", "span", "small", "bdi", "abbr", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "img"),
}


@pytest.fixture(scope="module")
def page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("hostile")
    middle = made.BEGIN_MS + 2 * made.DAY_MS
    job = Report(
        rollups=str(hostile.rows().write(where / "rollups")),
        out=str(where / "page.html"),
        what_if=str(hostile.what_if(where / "what-if")),
        before=(made.BEGIN_MS, middle),
        after=(middle, middle + 2 * made.DAY_MS),
    )
    assert run(job) == 0
    return where / "page.html"


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
    (row,) = read.table("Findings that began to fire")
    assert (row["Analyzer"], row["Findings"], row["Groups"]) == (hostile.ANALYZER, "3", "2")


def test_what_a_model_says_is_text(read: Page) -> None:
    rows = read.table("The setting that would have saved")
    assert [row["Setting"] for row in rows] == [printable(hostile.SETTING)] * len(hostile.NAMES)
    assert rows[0]["Group"] == f"{hostile.NAMES[0]} | not exact"
    assert rows[0]["Rebalances now → then"] == "9 → 1"
    assert rows[0]["Stopped now → then"] == "1 min 30 s → 0"


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


DARK = [{"name": "prefers-color-scheme", "value": "dark"}]
LEAK = "http://leak.test/x"


def asked(tmp_path: Path, look: Callable[[Browser], None]) -> tuple[bytes, str]:
    """What a proxy was sent while a browser showed a page, and the browser's own log of the network.

    A browser asks its maker this and that as well: what counts is whether anything of the page is among it.
    """
    log = tmp_path / "net.json"
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        listener = threading.Thread(target=_listen, args=(proxy, sent))
        listener.start()
        options = [
            f"--proxy-server=127.0.0.1:{proxy.getsockname()[1]}",
            "--proxy-bypass-list=<-loopback>",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--log-net-log={log}",
        ]
        try:
            with browser(tmp_path / "home", options) as it:
                look(it)
        finally:
            proxy.shutdown(socket.SHUT_RDWR)
            listener.join(30)
    return b"".join(sent), log.read_text(encoding="utf-8")


def _listen(proxy: socket.socket, sent: list[bytes]) -> None:
    """A proxy that hangs up on everybody, until it is shut down."""
    while True:
        try:
            connection, _ = proxy.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.settimeout(5)
            sent.append(connection.recv(1 << 16))


@needs_chromium
def test_a_request_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "leaks.html"
    page.write_text(f"<img src={LEAK}>")

    def look(it: Browser) -> None:
        it.open(page, 1440)
        assert LEAK in it.addresses()
        assert it.complaints()

    sent, log = asked(tmp_path, look)
    assert LEAK.encode() in sent
    assert LEAK in log


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(1440, False), (360, True)])
def test_in_a_browser(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    def look(it: Browser) -> None:
        it.open(page, width, dark=dark)
        assert it.complaints() == []
        assert {url.partition(":")[0] for url in it.addresses()} == {"file", "data"}
        assert it.run("document.querySelectorAll('script, iframe, object, embed, svg').length") == 0
        assert it.run("Array.from(document.images).every(it => it.complete && it.naturalWidth > 0)")
        assert it.run("document.images.length") >= 3
        assert it.run("document.documentElement.scrollWidth") <= width
        ground = it.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
        # The policy holds, should anything slip through.
        it.run("window.made = document.createElement('script'); made.text = 'window.ran = 1'; 1")
        it.run(f"document.body.append(made); new Image().src = '{LEAK}'; 1")
        assert it.run("window.ran") is None
        # On paper plots are the light ones, whatever the screen shows.
        shown = (
            "Array.from(document.images).filter(it => it.checkVisibility() && it.className).map(it => it.className)"
        )
        size = "wide" if width > 640 else "narrow"
        assert set(it.run(shown)) == {f"{size} {'dark' if dark else 'light'}"}
        it.ask("Emulation.setEmulatedMedia", media="print", features=DARK if dark else [])
        assert set(it.run(shown)) == {"wide light"}
        it.pdf(tmp_path / "page.pdf")

    sent, log = asked(tmp_path, look)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert b"leak.test" not in sent
    # What the page holds as text is in no address.
    assert "leak.test" not in log
