"""The pages as they are sent, without a browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from httpx import Client

from agent.common.sanitize import printable
from agent.core.diagnosis.cluster import NO_ANALYZERS
from agent.core.events.recent import RecentEvents
from agent.core.queries import AmbiguousGroup, Capabilities, Health
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.sampled_mirror import SampledMirror
from agent.presentation.narrative.sampling import LIMITATIONS
from agent.presentation.narrative.words import clock
from agent.serving.page.group_page import GroupData, swimlane_section
from agent.serving.page.static import SOURCES, static_address, static_files
from tests.unit.analyzers.story import Story
from tests.unit.analyzers.test_origins import PodsByClient
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.unit.core.inference.test_origin_evidence import hostile_origin
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.core.shadow.looks import T0 as LOOKED_MS
from tests.unit.core.shadow.looks import Looks, seen
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0
from tests.unit.serving.page.scene import Reader, captured, client, newest_ms
from tests.unit.serving.routes.replayed import Replayed, of_log
from tests.unit.serving.routes.test_story import with_findings
from tests.waiting import until

EVERY = [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()]
PAGES = ("/", "/groups/fraud-848", "/groups/fraud-848?range=all", "/findings", "/?sort=-lag&q=f&page=2")


@pytest.fixture(scope="module")
def http() -> Iterator[Client]:
    with client(with_findings(), lambda: T0 + 3 * MINUTE) as it:
        yield it


def test_the_fleet(http: Client) -> None:
    answer = http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    read = Reader(answer.text)
    assert "1 of 6 groups needs attention" in read.text
    assert read.text.index("critical") < read.text.index("info"), "the worst first"
    assert read.rows()[0] == "/groups/fraud-848", "not by name: those in trouble first"


@pytest.mark.parametrize("path", PAGES)
def test_each_link_leads_somewhere(http: Client, path: str) -> None:
    for link in Reader(http.get(path).text).links():
        assert link.startswith("#") or http.get(link).status_code == 200, link


@pytest.mark.parametrize("path", PAGES)
def test_nothing_else_may_load(http: Client, path: str) -> None:
    answer = http.get(path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    read = Reader(answer.text)
    for tag, attributes in read.tags:
        assert not [it for it in attributes if it == "style" or it.startswith("on")]
        assert tag not in ("style", "iframe", "object", "base")
        source = attributes.get("src") or (attributes.get("href") if tag == "link" else None)
        assert source is None or source.startswith(("/static/", "data:image/svg+xml,"))
    assert re.search(r"<script[^>]*>[^<]", answer.text) is None, "no script in the page"


def test_one_heading_each_landmark_once(http: Client) -> None:
    for path in PAGES:
        read = Reader(http.get(path).text)
        tags = [tag for tag, _ in read.tags]
        assert (tags.count("h1"), tags.count("main"), tags.count("header"), tags.count("footer")) == (1, 1, 1, 1)
        ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
        assert len(ids) == len(set(ids))


def test_filter_sort_and_pages(http: Client) -> None:
    def keys(query: str) -> list[str]:
        return [it.removeprefix("/groups/") for it in Reader(http.get(f"/?{query}").text).rows()]

    everyone = keys("sort=group")
    assert everyone == sorted(everyone)
    assert keys("sort=-group") == everyone[::-1]
    assert keys("q=FRAUD") == ["fraud-848"]
    assert keys("q=storm") == ["fraud-848"], "by what is found"
    assert keys("q=fraud+nothing") == []
    assert keys("sort=nonsense&page=-7&q=") == keys("")
    assert keys("page=999999") == keys(""), "there is but one"
    nothing = http.get("/?q=<script>alert(1)</script>").text
    assert "No group matches <q>&lt;script&gt;" in nothing
    assert '<table class="groups rows">' in nothing


def test_a_group(http: Client) -> None:
    read = Reader(http.get("/groups/fraud-848?range=all").text)
    for words in ("rebalance_storm", "find out who leaves", "What happened", "Lag by topic", "joined"):
        assert words in read.text
    assert [it for it in read.links() if "range=15m" in it] == ["/groups/fraud-848?range=15m"]


def test_a_range_that_shows_something_is_chosen() -> None:
    replayed = captured()
    newest = newest_ms(replayed)

    def chosen(hours: float) -> str:
        with client(replayed, lambda: newest + round(hours * 3_600_000)) as it:
            said = it.get("/groups/fraud-848").text
        found = re.search(r'<a href="[^"]*range=(\w+)"[^>]*aria-current', said)
        assert found is not None
        return found[1]

    assert [chosen(hours) for hours in (0.01, 0.5, 3, 12, 60)] == ["15m", "1h", "6h", "24h", "all"]


def test_a_link_to_a_range_goes_on_showing_it() -> None:
    log = Log()
    for number, members in enumerate(("a-1", "a-1 b-1", "a-1"), 1):
        them = [b.member(it, {"t": [at]}) for at, it in enumerate(members.split())]
        log.add(b.classic_group(number, *them, group="orders", state_ms=log.now_ms), after_ms=60_000)
    replayed, now = Replayed(of_log(log)), [log.now_ms]
    replayed.recent.observe([m.finding(at_ms=now[0], group="orders")])
    with client(replayed, lambda: now[0]) as it:
        first = Reader(it.get("/groups/orders?range=all").text)
        (fixed,) = (link for link in first.links() if "since=" in link)
        now[0] += 86_400_000
        later = Reader(it.get(fixed).text)
        for words in ("generation 1", "generation 2", "generation 3"):
            assert (words in first.text, words in later.text) == (True, True), "a day later as well"
        assert fixed in later.links(), "it says which range is shown"
        end_ms = log.records[1].timestamp_ms
        part = it.get(f"/groups/orders?since={end_ms - 1_000}&until={end_ms}").text
        table = part.partition('id="entries"')[2].partition("</table>")[0]
        assert ("generation 2" in table, "generation 1" in table, "generation 3" in table) == (True, False, False)
        assert "rebalance_storm" in part, "what is open now is shown whatever the range"
        until(lambda: "being replayed" not in it.get("/groups/orders?since=2h").text)
        tag = it.get("/groups/orders?since=2h").headers["etag"]
        now[0] += 1_000
        again = it.get("/groups/orders?since=2h&live=1", headers={"If-None-Match": tag})
        assert again.status_code == 304, "two hours before now are the same a second later"


@pytest.mark.parametrize(
    "query", ["since=<b>", "since=2026-01-02&until=2026-01-01", "until=99999999999999999999", "range=<b>", "range="]
)
def test_what_is_no_range_is_said(http: Client, query: str) -> None:
    answer = http.get(f"/groups/fraud-848?{query}")
    assert (answer.status_code, "The address has no valid range" in answer.text) == (200, True)
    assert "<b>&#39; came" not in answer.text
    assert "'<b>" not in answer.text


def test_an_address_with_nothing_is_a_page_for_people_and_json_for_programs(http: Client) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = http.get("/nope", headers=browser)
    assert (page.status_code, "There is nothing at this address." in page.text) == (404, True)
    for program in (http.get("/nope"), http.get("/api/v1/nope", headers=browser)):
        assert (program.status_code, program.json()) == (404, {"error": "not found"})


def test_findings(http: Client) -> None:
    def found(query: str) -> list[str]:
        text = http.get(f"/findings?{query}").text
        return re.findall(r'class="analyzer">(\w+)<', text)

    assert found("") == ["rebalance_storm", "coordinator_hotspot", "idle_members"], "the resolved ones last"
    assert found("severity=critical") == ["rebalance_storm"]
    assert found("analyzer=idle_members") == ["idle_members"]
    assert found("severity=nonsense") == found("")
    assert found("analyzer=%3Cb%3E") == []
    open_ones = re.findall(r"open for <time.*?</time>, as of <time[^>]*>([0-9:]+)</time>", http.get("/findings").text)
    assert open_ones == [clock(T0 + MINUTE)] * 2


def test_only_what_changed_is_sent(http: Client) -> None:
    for path in PAGES:
        live = f"{path}{'&' if '?' in path else '?'}live=1"
        answer = http.get(live)
        assert answer.text.startswith('<main id="main"')
        Reader(answer.text)
        again = http.get(live, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = http.get(live, headers={"If-None-Match": 'W/"other"'})
        assert other.status_code == 200
        assert (
            f'data-etag="{answer.headers["etag"]}"'.replace('W/"', "W/&quot;").replace('""', '&quot;"') in answer.text
        )


def test_news_change_the_version() -> None:
    log = Log().add(b.new_group())
    replayed = Replayed(of_log(log))
    with client(replayed, lambda: T0) as it:
        before = {path: it.get(path).headers["etag"] for path in ("/groups/orders?live=1", "/findings?live=1")}
        replayed.recent.observe([m.finding(group="orders")])
        after = {path: it.get(path).headers["etag"] for path in before}
    assert not set(before.values()) & set(after.values())


def test_unknown_and_unready() -> None:
    with client(Replayed([])) as it:
        assert "No groups are known" in it.get("/").text
        for path in ("/groups/nobody", "/groups/", "/?cluster=x", "/groups/a?cluster=x", "/findings?cluster=x"):
            answer = it.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
            Reader(answer.text)
        assert 'data-poll="3"' in it.get("/groups/nobody?live=1").text, "it may come, or come again"
    with client(Replayed([], has_caught_up=False)) as it:
        for path in PAGES:
            answer = it.get(path)
            assert answer.status_code == 503
            assert "12 records to go" in answer.text
            assert 'data-poll="3"' in answer.text, "it shows up by itself"


def test_one_that_lost_its_broker_says_so() -> None:
    with client(captured(stopped="reading has stopped: <b>no</b> \x1b broker")) as it:
        for path in PAGES:
            answer = it.get(path)
            assert answer.status_code == 200
            assert "This agent is not up to date." in answer.text
            assert "&lt;b&gt;no&lt;/b&gt; \\u001b broker" in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_read_only(http: Client, path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert http.request(method, path).status_code == 405
    head = http.head(path)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("text", EVERY)
def test_strangers_text_stays_text(text: str) -> None:
    replayed = Replayed(of_log(Log().add(*pairs(text))))
    replayed.recent.observe([m.finding(text, group=text, summary=text, advice=text, severity=text)])
    with client(replayed, lambda: T0 + MINUTE) as it:
        paths = ["/", "/findings"]
        if len(text) < 20_000:  # else too long for an address
            paths += [f"/groups/{quote(it, safe='').replace('.', '%2E')}" for it in (text, f"{text}848")]
        for path in paths:
            answer = it.get(path)
            assert answer.status_code == 200
            assert raw(answer.text) == []
            read = Reader(answer.text)
            assert not {"img", "b>", "object"} & {tag for tag, _ in read.tags}
            assert [tag for tag, _ in read.tags].count("script") == 2
            assert printable(text[:100])[:60] in read.text
            assert not [it for _, attributes in read.tags for it in attributes if it.startswith("on")]
            for link in read.links():
                assert link.startswith(("/", "#")), link


def test_strangers_text_in_origins_stays_text() -> None:
    clients = {f"c{number}": hostile_origin(text) for number, text in enumerate(TEXTS.values())}
    log = Story("g").change(["a", *clients]).work(20).lose(*clients).change(clients).log
    now_ms = log.now_ms
    with client(Replayed(of_log(log), origin_source=PodsByClient(clients, clients)), lambda: now_ms) as it:
        for path in ("/", "/groups/g", "/groups/g?range=all", "/findings"):
            answer = it.get(path)
            assert answer.status_code == 200
            assert raw(answer.text) == []
            read = Reader(answer.text)
            assert [tag for tag, _ in read.tags].count("script") == 2
            assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
            assert "OOM-killed" in read.text
            assert 'class="kind"' not in read.text, "no markup of ours is taken for text"


@pytest.mark.parametrize("group", ["a", "a/b", "/", "a%2Fb", "..", ".", "...", "a?b#c", "a b", "a\n", "", "größe"])
def test_names_that_mean_something_in_an_address(group: str) -> None:
    with client(Replayed(of_log(Log().add(b.new_group(group))))) as it:
        found = [link for link in Reader(it.get("/").text).links() if link.startswith("/groups/")]
        assert len(found) == 1
        # As a browser does it: dots that are folders are gone before anything is asked.
        read = Reader(it.get(found[0]).text)
        assert f"{group}: Empty" in next(str(it["data-says"]) for tag, it in read.tags if tag == "main").replace(
            "\\u000a", "\n"
        )


def test_a_name_that_is_no_text_has_no_address() -> None:
    replayed = Replayed([])
    replayed.recent.observe([m.finding(group="\udcff")])
    with client(replayed, lambda: T0) as it:
        assert "<bdi>\\udcff</bdi></span>" in it.get("/").text


def test_static_files() -> None:
    with client(Replayed([])) as it:
        for name, (kind, _) in SOURCES.items():
            answer = it.get(static_address(name))
            assert answer.headers["content-type"] == kind
            assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
            assert answer.headers["content-encoding"] == "gzip"
            plain = it.get(static_address(name), headers={"Accept-Encoding": "gzip;q=0, identity"})
            assert plain.content == answer.content
            assert "content-encoding" not in plain.headers
            assert (
                gzip.decompress(static_files()[static_address(name).removeprefix("/static/")].zipped) == plain.content
            )
        for path in ("/static/kshadow.js", "/static/..%2f..%2fpage%2f__init__.py", "/static/", "/static/x/y"):
            assert it.get(path).status_code == 404
        assert {
            it.get(static_address("kshadow.js")).status_code,
            it.head(static_address("theme.js")).status_code,
        } == {200}


class Looking(Replayed):
    """One that reads no topic, and looks at groups through the Admin API."""

    def ready(self) -> Health:
        return Health(True, LIMITATIONS)


def test_what_looks_do_not_tell_is_not_made_up() -> None:
    looks = Looks("a").look(0, "Stable", seen("m", 0), positions={0: 1})
    looks.state(1_000, "PreparingRebalance").look(2_000, "Stable", seen("m", 0), seen("n", 1), positions={})
    replayed = Looking([looks.batch()], mirror_class=SampledMirror)
    with client(replayed, lambda: LOOKED_MS + 60_000) as it:
        for path in ("/", "/groups/a", "/findings"):
            answer = it.get(path)
            assert answer.status_code == 200
            assert "None" not in Reader(answer.text).text
            assert LIMITATIONS[1:] in answer.text
        page = it.get("/groups/a").text
        assert '<tr data-key="n-1">' in page
        assert '<dt>Generation</dt><dd><span class="unknown" title="not known">' in page
        assert "The committed offsets were read 58 s ago; what the group" in Reader(page).text
        assert "a member joined" in page.lower() or "joined" in page


class Two(Replayed):
    """Two clusters, one of them behind."""

    capabilities = Capabilities(clusters=("east", "west"))

    def of_cluster(self, cluster: str) -> Replayed | None:
        logs = {"east": Log().add(b.new_group("a")), "west": Log().add(b.new_group("a"))}
        return Replayed(of_log(logs[cluster]), has_caught_up=cluster == "east") if cluster in logs else None

    def groups(self) -> list[dict[str, object]]:
        return [{**row, "cluster": "east"} for row in super().groups()]

    def describe(self, group: str) -> dict[str, object] | None:
        raise AmbiguousGroup("several clusters have this group: east, west; ?cluster=NAME chooses one")


def test_several_clusters() -> None:
    with client(Two(of_log(Log().add(b.new_group("a"))))) as it:
        links = Reader(it.get("/").text).links()
        assert {"/?cluster=east", "/?cluster=west", "/groups/a?cluster=east"} <= set(links)
        assert it.get("/?cluster=east").status_code == 200
        assert [it.get(f"{path}?cluster=west").status_code for path in ("/", "/groups/a", "/findings")] == [503] * 3
        assert it.get("/groups/a?cluster=east").status_code == 200
        asked = it.get("/groups/a")
        assert asked.status_code == 400
        assert "/groups/a?cluster=east" in Reader(asked.text).links()


class One(Replayed):
    """An agent of one cluster, which has a name."""

    def of_cluster(self, cluster: str) -> Replayed | None:
        return self if cluster == "eu" else None


def test_one_cluster_by_its_name() -> None:
    with client(One(of_log(Log().add(b.new_group("a"))))) as it:
        assert "/groups/a" in Reader(it.get("/?cluster=eu").text).links()
        assert [it.get(f"{path}?cluster=eu").status_code for path in ("/groups/a", "/findings")] == [200, 200]
        assert it.get("/?cluster=us").status_code == 404


def test_a_range_of_which_not_all_events_are_kept() -> None:
    """The picture begins where it was asked to; what is said is of what is known."""
    log = Log()
    for number in range(1, 9):
        them = [b.member(it, {"t": [at]}) for at, it in enumerate(("a-1", "b-1")[: 2 - number % 2])]
        log.add(b.classic_group(number, *them, group="orders", state_ms=log.now_ms), after_ms=600_000)
    replayed, mirror = Replayed(of_log(log), chosen=NO_ANALYZERS), PartitionMirror(log.partition)
    replayed.recent = RecentEvents(per_group=8)
    replayed.recent.observe(change for record in log.records for change in mirror.replay(record))
    began_ms = log.records[0].timestamp_ms
    with client(replayed, lambda: log.now_ms) as it:
        part = Reader(it.get(f"/groups/orders?since={began_ms}").text).text
        nothing = Reader(it.get(f"/groups/orders?since={began_ms}&until={began_ms + 1_200_000}").text).text
    assert "2026-09-21, from 15:13:20 to 15:33:20 UTC (20 min), the group rebalanced twice" in part
    assert "2026-09-21 14:23:20 to 14:43:20" in nothing
    for words in ("is not known: the agent keeps only the latest events", "No events of this range are kept"):
        assert words in nothing
    assert "did not" not in nothing
    assert "the agent has later events only" in part
    nobody = GroupData("orders", m.form(members=[]), [], T0, [], [])
    assert "No members are known in this range" in swimlane_section(nobody, T0 - MINUTE, T0, "")
    assert "had no members in this range" in swimlane_section(nobody, T0, T0 + MINUTE, "")
