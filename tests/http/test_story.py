"""The routes of the history: `timeline`, `findings`, and the page for people."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from httpx import Client

from agent.diagnosis.cluster import NOTHING
from agent.http import COMPLETE_SINCE
from agent.page import MAX_ROWS, page
from agent.plain import printable
from agent.runtime import Health
from tests.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.cli.running import SEGMENTS
from tests.http.replayed import Replayed, of_log, of_path
from tests.http.test_routes import client
from tests.shadow import build as b
from tests.shadow.build import Log
from tests.story import made as m
from tests.story.made import MINUTE, T0

TIMELINE = "/api/v1/groups/fraud-848/timeline"
EVERY = [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()]


FINDINGS = [
    m.finding("idle_members", T0, group="ads-eos"),
    m.finding("rebalance_storm", T0 + MINUTE, group="fraud-848", severity="critical"),
    m.finding("coordinator_hotspot", T0 + MINUTE, group=None, group_type=None, severity="info"),
    m.finding("idle_members", T0 + 2 * MINUTE, group="ads-eos", state="resolved", since_ms=T0),
]


def with_findings() -> Replayed:
    replayed = Replayed(of_path(SEGMENTS), chosen=NOTHING)
    replayed.recent.observe(FINDINGS)
    return replayed


@pytest.fixture(scope="module")
def http() -> Iterator[Client]:
    with client(with_findings()) as it:
        yield it


def test_a_timeline(http: Client) -> None:
    answer = http.get(TIMELINE)
    told = with_findings().timeline("fraud-848")
    assert told is not None
    assert answer.json() == told[0]
    assert COMPLETE_SINCE not in answer.headers
    events = [it for it in answer.json() if it["type"] != "finding"]
    third = events[3]["at_ms"]
    since = http.get(TIMELINE, params={"since": third}).json()
    assert since == [it for it in answer.json() if it["at_ms"] >= third]
    assert http.get(TIMELINE, params={"since": "2026-11-21T07:28:14Z", "until": third}).json() == [
        it for it in events if it["at_ms"] <= third
    ]
    assert http.get(TIMELINE, params={"since": "1m"}).json() == []


def test_the_newest_of_many(http: Client) -> None:
    every, answer = http.get(TIMELINE).json(), http.get(TIMELINE, params={"limit": 2})
    assert answer.json() == every[-2:]
    assert int(answer.headers[COMPLETE_SINCE]) == every[-3]["at_ms"] + 1
    assert http.get(TIMELINE, params={"limit": 999_999_999}).json() == every


def test_findings(http: Client) -> None:
    def found(**params: str | int) -> list[str]:
        return [it["analyzer"] for it in http.get("/api/v1/findings", params=params).json()]

    assert found() == ["coordinator_hotspot", "rebalance_storm"]
    assert found(since=T0, until=T0 + 5) == ["idle_members"]
    assert found(since=T0 + 2 * MINUTE) == ["idle_members", "coordinator_hotspot", "rebalance_storm"]
    assert found(since=T0 + 3 * MINUTE) == ["coordinator_hotspot", "rebalance_storm"]
    assert found(group="fraud-848") == ["rebalance_storm"]
    assert found(group="nobody") == []


@pytest.mark.parametrize("route", [TIMELINE, "/api/v1/findings"])
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"since": "soon"}, "a duration before now (15m, 2h, 3d, 1h30m), a time"),  # 1
        ({"until": "15"}, "seconds, or a duration without its unit?"),  # 2
        ({"since": "1h", "until": "2h"}, "the range ends before it begins: since is later than until"),  # 3
        ({"since": "\x1b[2J"}, "'\\x1b[2J' came"),  # 4
        ({"since": ""}, "'' came"),  # 5
    ],
)
def test_bad_times(http: Client, route: str, params: dict[str, str], said: str) -> None:
    answer = http.get(route, params=params)
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert raw(answer.text) == []


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "x", "9999999999", "\u0663"])
def test_bad_limits(http: Client, limit: str) -> None:
    answer = http.get(TIMELINE, params={"limit": limit})
    assert (answer.status_code, "limit: a number from 1 to 10000" in answer.json()["error"]) == (400, True)


def test_unknown_and_unready() -> None:
    with client(Replayed([])) as it:
        unknown = it.get("/api/v1/groups/nobody/timeline")
        assert (unknown.status_code, unknown.json()) == (404, {"error": "no such group"})
    with client(Replayed([], has_caught_up=False)) as it:
        for route in (TIMELINE, "/api/v1/findings", "/"):
            answer = it.get(route)
            assert answer.status_code == 503
            assert "catching up with the topic" in answer.text


@pytest.mark.parametrize("route", [TIMELINE, "/api/v1/findings", "/"])
def test_read_only(http: Client, route: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert http.request(method, route).status_code == 405
    head = http.head(route)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("group", ["a", "a/timeline", "timeline", "/timeline", "a%2Ftimeline", "..", "a?b#c", ""])
def test_names_that_look_like_routes(group: str) -> None:
    with client(Replayed(of_log(Log().add(b.new_group(group))))) as it:
        address = f"/api/v1/groups/{quote(group, safe='').replace('.', '%2E')}"
        assert it.get(address).json()["group"] == group
        assert [event["group"] for event in it.get(f"{address}/timeline").json()] == [group]


class Reader(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page(http: Client) -> None:
    answer = http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    read = Reader(answer.text)
    assert "6 groups, 2 open findings at " in read.text
    assert read.text.index("critical") < read.text.index("info"), "the worst first"
    links = [attributes["href"] for tag, attributes in read.tags if tag == "a"]
    assert "/api/v1/groups/pricing-poll/timeline" in links
    for link in links:
        assert link is not None
        assert http.get(link).status_code == 200
    assert {tag for tag, _ in read.tags} == {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "thead", "tbody", "tr", "th"),
        *("td", "span", "br", "small", "a"),
    }


def test_nothing_else_may_load(http: Client) -> None:
    answer = http.get("/")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "style=" not in answer.text.replace("<style>", "")


@pytest.mark.parametrize("text", EVERY)
def test_strangers_text_stays_text(text: str) -> None:
    replayed = Replayed(of_log(Log().add(*pairs(text))))
    replayed.recent.observe([m.finding(text, group=text, summary=text, advice=text, severity=text)])
    with client(replayed) as it:
        answer = it.get("/")
        assert answer.status_code == 200
        assert raw(answer.text) == []
        read = Reader(answer.text)
        assert not {"script", "img", "b", "link"} & {tag for tag, _ in read.tags}
        assert all(
            set(attributes) <= {"href", "class", "lang", "charset", "name", "content"} for _, attributes in read.tags
        )
        assert printable(text[:100])[:150] in read.text
        if len(text) > 20_000:
            return  # too long for an address
        group = quote(text, safe="").replace(".", "%2E")
        assert f'href="/api/v1/groups/{group}/timeline"' in answer.text
        assert it.get(f"/api/v1/groups/{group}/timeline").json()[0]["group"] == text


def test_a_name_that_is_no_text_has_no_address() -> None:
    assert "\\udcff" in page([], [m.finding(group="\udcff")], Health(True, "caught up"), T0)


def test_a_page_has_an_end() -> None:
    row = {**Replayed(of_log(Log().add(b.new_group("g")))).groups()[0], "last_commit_ms": None}
    text = page([row] * (MAX_ROWS + 3), [], Health(True, "caught up"), T0)
    assert text.count("<tr>") == MAX_ROWS + 1
    assert "And 3 more: the API has all." in text
    assert "<p>None.</p>" in text, "no findings"
