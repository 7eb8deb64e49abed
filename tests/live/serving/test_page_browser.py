"""The pages in a real Chromium: what it finds wrong, what keys do, what happens while a page is open."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from agent.serving.page.frame import POLL_S
from tests.harness.browser import axe, opened, overflow
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import T0
from tests.unit.serving.page.scene import captured, newest_ms
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served
from tests.unit.serving.web.made import guarded, hashed

expect.set_options(timeout=60_000)

GROUP = "/groups/fraud-848?range=all"
CLASSIC = "/groups/loop?range=all"
"""A rollout and a crash loop, with findings, a verdict, and what a replay says beside them."""
PAGES = ("/", GROUP, CLASSIC, "/findings")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Some of the capture, as an agent would have shown it a minute later: axe takes long over many groups."""
    agent = Replayed(of_path(SEGMENTS))
    now_ms = newest_ms(agent) + 60_000
    agent.state.replay_batch(run_of(crash_loop(now_ms - 300_000).records))
    with served(agent, wall_ms=lambda: now_ms) as it:
        yield it


def crash_loop(began_ms: int) -> Log:
    """Two members are replaced; then one comes every 40 s and dies after 12 s; eight more until the group notices."""
    log = Log(partition=49)
    log.now_ms = began_ms
    for number, names in enumerate((("a-0", "c-0"), ("a-1", "c-0"), ("a-1", "c-1")), 1):
        members = [b.member(it, {"t": [at]}, session_ms=8_000) for at, it in enumerate(names)]
        log.add(b.classic_group(number, *members, group="loop", state_ms=log.now_ms + 1_990), after_ms=2_000)
        for step in range(16):
            at_ms = log.now_ms + 2_000
            commits = [b.commit("t", it, 100 * number + step, group="loop", at_ms=at_ms) for it in (0, 1)]
            log.add(*commits, after_ms=2_000)
    for number in range(4, 12):
        is_there = number % 2 == 0
        members = [b.member("a-1", {"t": [0] if is_there else [0, 1]}, session_ms=8_000)]
        members += [b.member(f"b-{number}", {"t": [1]}, session_ms=8_000)] if is_there else []
        log.add(b.classic_group(number, *members, group="loop", state_ms=log.now_ms + 1_990), after_ms=2_000)
        for step in range(9):
            worked = [0, 1] if step < 6 or not is_there else [0]
            at_ms = log.now_ms + 2_000
            commits = [b.commit("t", it, 100 * number + step, group="loop", at_ms=at_ms) for it in worked]
            log.add(*commits, after_ms=2_000)
    return log


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)]
)
def test_nobody_is_shut_out(browser: Browser, url: str, width: int, scheme: Any) -> None:
    with opened(browser, url, width=width, scheme=scheme) as (page, seen):
        for path in PAGES:
            page.goto(url + path)
            if path == CLASSIC:
                expect(page.locator("#settings")).not_to_contain_text("being replayed")
                expect(page.locator("#matrix")).to_contain_text("Since generation 10")
                expect(page.locator("#rollouts")).to_contain_text("harmful")
                expect(page.locator("#rollouts")).not_to_contain_text("being replayed")
            assert axe(page) == [], path
            assert overflow(page) == 0, path
            cut = page.locator(".severity").evaluate_all("all => all.filter(it => it.scrollWidth > it.clientWidth)")
            assert cut == [], f"{path}: a severity is a whole word"
            boxes = [page.locator(it).first.bounding_box() for it in ("header", "main", "footer")]
            for box in boxes:
                assert box is not None
                assert (box["x"] >= 0, box["x"] + box["width"] <= width) == (True, True)
            tops = [box["y"] for box in boxes if box is not None]
            assert tops == sorted(tops), "header, main, footer: none over the other"
    assert seen.wrong() == []
    assert {it.removeprefix(url).split("/")[1] for it in seen.requests if not it.startswith("data:")} <= {
        *("", "groups", "findings", "static", "?live=1", "findings?live=1")
    }


def test_pictures(browser: Browser, url: str) -> None:
    """The same page is the same picture; dark is another, and has a dark ground."""
    shots = {}
    for scheme in ("light", "dark"):
        with opened(browser, url + GROUP, scheme=scheme) as (page, _):
            page.keyboard.press("p")  # no news meanwhile
            expect(page.locator("#live")).to_contain_text("Paused")
            page.evaluate("document.getElementById('live').hidden = true")
            shots[scheme] = [page.locator("main").screenshot(animations="disabled") for _ in range(2)]
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(")
            assert (sum(map(int, ground.strip(")").split(","))) < 3 * 128) == (scheme == "dark")
            lanes = page.locator("#lanes svg.lanes >> visible=true")
            expect(lanes).to_have_count(1)
            box = lanes.bounding_box()
            assert box is not None
            assert box["width"] > 800
    assert shots["light"][0] == shots["light"][1]
    assert shots["light"][0] != shots["dark"][0]


def names(page: Page) -> list[str]:
    return page.locator("#rows th.name a").all_inner_texts()


def test_keys(browser: Browser, url: str) -> None:
    with opened(browser, url) as (page, seen):
        everyone = names(page)
        page.keyboard.press("/")
        page.keyboard.type("fraud")
        expect(page.locator("#rows tr")).to_have_count(1)
        expect(page).to_have_url(url + "/?q=fraud")
        expect(page.locator("#q")).to_be_focused()
        expect(page.locator("#announce")).to_contain_text("1 of ")
        page.keyboard.press("Escape")
        expect(page.locator("#rows tr")).to_have_count(len(everyone))
        expect(page).to_have_url(url + "/")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        first = page.evaluate("document.activeElement.getAttribute('href')")
        page.keyboard.press("j")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("k")
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.getAttribute('href')") == first
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "where the focus is shows"
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        assert axe(page) == []
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("Enter")
        page.wait_for_url(url + first)
        page.keyboard.press("f")
        page.wait_for_url(url + "/findings")
        page.keyboard.press("h")
        page.wait_for_url(url + "/")
        page.keyboard.press("t")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark", "it was chosen"
        page.emulate_media(media="print")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(247, 248, 249)", "paper is light"
        page.emulate_media(media="screen")
        page.keyboard.press("?")
        page.locator("#keys-on").uncheck()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        # A dialog tells that it was closed a moment after it is hidden.
        page.wait_for_function("!document.getElementById('keys').contains(document.activeElement)")
        page.keyboard.press("f")
        page.keyboard.press("/")
        assert (page.url, page.evaluate("document.activeElement.tagName")) == (url + "/", "BODY"), "they are off"
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_hidden()
        page.locator("#help").click()
        page.locator("#keys-on").check()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("f")
        page.wait_for_url(url + "/findings")
    assert seen.wrong() == []


def test_what_a_reader_asks_for_outlives_polls_and_failures(browser: Browser, url: str) -> None:
    """Though the pointer is on a row, which holds rows where they are while news come."""
    with opened(browser, url) as (page, _):
        held: list[Route] = []
        page.route(re.compile(r"\?q=fraud&live=1"), lambda it: held.append(it))
        page.locator("#rows tr").first.hover()
        page.locator("#q").fill("fraud")
        page.wait_for_timeout(1_000 * POLL_S + 1_500)
        assert len(held) == 1, "a poll did not take its place"
        held[0].continue_()
        expect(page.locator("#rows tr")).to_have_count(1)
        expect(page.locator("#announce")).to_contain_text("1 of ")
        page.route(re.compile(r"\?q=loop&live=1"), lambda route: route.abort(), times=1)
        page.locator("#rows tr").first.hover()
        page.locator("#q").fill("loop")
        expect(page.locator("#rows tr[data-key*=loop]").first).to_be_visible()
        expect(page.locator("#rows tr:not([data-key*=loop])")).to_have_count(0)


def test_sorting_is_in_the_address(browser: Browser, url: str) -> None:
    with opened(browser, url) as (page, seen):
        trouble = names(page)
        page.evaluate("window.mine = 1")
        page.get_by_role("link", name="Group", exact=True).click()
        expect(page.locator("th[aria-sort=ascending]")).to_have_text("Group↑")
        expect(page).to_have_url(url + "/?sort=group")
        assert names(page) == sorted(trouble)
        page.go_back()
        expect(page.locator("th[aria-sort]")).to_have_count(0)
        assert names(page) == trouble
        assert page.evaluate("window.mine") == 1, "nothing was loaded anew"
    with opened(browser, url + "/?sort=-group&q=f") as (page, _):
        assert names(page) == sorted((it for it in trouble if it in names(page)), reverse=True)
    assert seen.wrong() == []


def test_a_range_and_a_generation_are_in_the_address(browser: Browser, url: str) -> None:
    with opened(browser, url + CLASSIC) as (page, seen):
        page.evaluate("window.mine = 1")
        page.get_by_role("link", name="Link to this").click()
        expect(page).to_have_url(re.compile(r"since=.*Z&until=.*Z$"))
        expect(page.locator("#ranges a[aria-current]")).to_contain_text(" to ")
        oldest = page.locator("#generations").get_by_role("link").last
        number = oldest.inner_text()
        oldest.click()
        expect(page.locator("#moves")).to_contain_text(f"Generation {number},")
        expect(page).to_have_url(re.compile(rf"since=.*Z&until=.*Z&generation={number}$"))
        assert page.evaluate("window.mine") == 1, "nothing was loaded anew"
    assert seen.wrong() == []


def test_without_script(browser: Browser, url: str) -> None:
    with opened(browser, url, script=False, width=360) as (page, seen):
        assert overflow_without_script(page) <= 360
        page.locator("#q").fill("fraud")
        page.get_by_role("button", name="Filter").click()
        expect(page).to_have_url(re.compile(re.escape(url + "/?q=fraud")))
        assert names(page) == ["fraud-848"]
        page.get_by_role("link", name="fraud-848").last.click()
        page.get_by_role("link", name="24 h").click()
        expect(page).to_have_url(url + "/groups/fraud-848?range=24h")
        expect(page.get_by_role("heading", name="What happened")).to_be_visible()
        for hidden in ("#pause", "#theme", "#help"):
            expect(page.locator(hidden)).to_be_hidden()
        page.goto(url + "/findings")
        page.get_by_label("Severity").select_option("info")
        page.get_by_role("button", name="Show").click()
        expect(page).to_have_url(re.compile("severity=info"))
    assert seen.wrong() == []


def overflow_without_script(page: Page) -> float:
    box = page.locator("main").bounding_box()
    assert box is not None
    return box["x"] + box["width"]


class Growing(Replayed):
    """One that goes on while it is asked."""

    def __init__(self, log: Log) -> None:
        self.log, self.lock = log, threading.RLock()
        super().__init__(of_log(log))

    def groups(self) -> list[dict[str, object]]:
        with self.lock:
            return super().groups()

    def describe(self, group: str) -> dict[str, object] | None:
        with self.lock:
            return super().describe(group)

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Any:
        with self.lock:
            return super().timeline(group, since_ms, until_ms)

    def findings(self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None) -> Any:
        with self.lock:
            return super().findings(since_ms, until_ms, group)

    def add(self, *batch: b.Pair) -> None:
        with self.lock:
            self.log.add(*batch)
            self.state.replay_batch(run_of(self.log.records[-len(batch) :]))


def crowd() -> Log:
    return Log().add(*(b.new_group(f"group-{at:02d}") for at in range(60)))


def generation(number: int, *members: str, group: str = "group-59") -> b.Pair:
    them = [b.member(it, {"t": [at]}) for at, it in enumerate(members)]
    return b.classic_group(number, *them, group=group, state_ms=T0)


def test_news_come_by_themselves_and_move_nothing(browser: Browser) -> None:
    agent = Growing(crowd())
    with served(agent, wall_ms=lambda: agent.log.now_ms) as url, opened(browser, url) as (page, seen):
        page.evaluate("window.mine = 1")
        page.locator("#rows a").nth(30).focus()
        place = page.evaluate("[document.activeElement.textContent, scrollY]")
        assert place[1] > 0
        agent.add(generation(1, "a-1", "b-1"))
        row = page.locator("tr[data-key='/groups/group-59']")
        expect(row).to_contain_text("Stable")
        assert page.evaluate("[document.activeElement.textContent, scrollY]") == place
        assert names(page)[59] == "group-59", "somebody is in the table: rows stay where they are"
        page.evaluate("document.activeElement.blur()")
        agent.recent.observe([m.finding(at_ms=agent.log.now_ms, group="group-59", severity="critical")])
        expect(page.locator("#rows tr").first).to_contain_text("rebalance_storm")
        expect(page.locator("#headline")).to_have_text("1 of 60 groups needs attention")
        expect(page.locator("#announce")).to_contain_text("1 of 60 groups needs attention")
        page.goto(f"{url}/groups/group-59")
        page.evaluate("window.mine = 2")
        expect(page.locator("#members tbody tr")).to_have_count(2)
        agent.add(generation(2, "a-1", "b-1", "c-1"))
        expect(page.locator("#members tbody tr")).to_have_count(3)
        expect(page.locator("#entries tr.new").first).to_contain_text("generation 2")
        assert page.evaluate("window.mine") == 2, "nothing was loaded anew"
        page.locator("#pause").click()
        agent.add(generation(3, "a-1"))
        expect(page.locator("#live")).to_contain_text("Paused. Data is ")
        page.wait_for_timeout(4_000)
        expect(page.locator("#members tbody tr")).to_have_count(3)
        page.locator("#pause").click()
        expect(page.locator("#members tbody tr")).to_have_count(1)
    assert seen.wrong() == []


def test_one_that_hears_nothing_says_so(browser: Browser, url: str) -> None:
    with opened(browser, url) as (page, seen):
        page.context.set_offline(True)
        expect(page.locator("#live")).to_contain_text("Disconnected: the agent does not answer. Data is ")
        expect(page.locator("#announce")).to_contain_text("Disconnected")
        assert names(page), "what was known is there"
        page.context.set_offline(False)
        expect(page.locator("#live")).to_have_text("Live")
    assert {it for it in seen.wrong() if "ERR_INTERNET_DISCONNECTED" not in it} == set()


def test_one_that_hangs_is_not_called_live(browser: Browser, url: str) -> None:
    """Its port takes connections as before, and nothing fails for as long as an answer may still come."""
    with opened(browser, url) as (page, _):
        held: list[Route] = []
        page.route("**/*live=1*", lambda it: held.append(it), times=1)
        expect(page.locator("#live")).to_have_text(re.compile(r"^Waiting for an answer. Data is \d+ s old$"))
        held[0].abort()
        expect(page.locator("#live")).to_have_text("Live")


def test_it_shows_up_once_there_is_something(browser: Browser) -> None:
    agent = captured(has_caught_up=False)
    with served(agent) as url, opened(browser, url) as (page, seen):
        expect(page.locator("main")).to_contain_text("12 records to go")
        assert axe(page) == []
        agent.has_caught_up = True
        expect(page.locator("#rows tr").first).to_be_visible()
    assert [it for it in seen.wrong() if "503" not in it] == []


def test_hostile_names_show_as_text(browser: Browser) -> None:
    log = Log()
    for text in {**TEXTS, **LETTERS}.values():
        log.add(*pairs(text))
    agent = Growing(log)
    agent.recent.observe(m.finding(it, group=it, summary=it, advice=it, severity=it) for it in TEXTS.values())
    with served(agent, wall_ms=lambda: log.now_ms) as url, opened(browser, url, width=360) as (page, seen):
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
        assert page.get_by_role("link", name="<script>alert(1)</script>").count() >= 1
        links = page.locator("#rows th a").evaluate_all("all => all.map(it => it.getAttribute('href'))")
        assert len(links) > 25
        for path in ("/", "/findings", *[it for it in links if len(it) < 5_000][:4]):
            page.goto(url + path)
            assert page.locator("script").count() == 2
            assert page.locator("img, iframe, object, style").count() == 0
            assert overflow(page) == 0, path
        page.goto(url)
        agent.add(*pairs("<img src=x onerror=alert(1)>"))
        expect(page.get_by_role("link", name="<img src=x onerror=alert(1)>", exact=True)).to_have_count(1)
    assert seen.wrong() == []


def test_behind_a_password(browser: Browser, tmp_path: Path) -> None:
    with guarded(tmp_path, f"basic_auth_users:\n  sre: {hashed('word')}\n") as url:
        with opened(browser, url, user=("sre", "word")) as (page, seen):
            assert names(page)
            page.keyboard.press("/")
            page.keyboard.type("fraud")
            expect(page.locator("#rows tr")).to_have_count(1)
            assert page.evaluate("getComputedStyle(document.querySelector('.top')).position") == "sticky"
        assert seen.wrong() == []
