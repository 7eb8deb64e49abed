"""The routes of the history: `timeline` and `findings`. The pages for people: `tests.unit.serving.page`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from httpx import Client

from agent.core.diagnosis.cluster import NO_ANALYZERS
from agent.serving.routes import COMPLETE_SINCE
from tests.unit.cli.hostile import raw
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served
from tests.unit.serving.routes.test_routes import client

TIMELINE = "/api/v1/groups/fraud-848/timeline"


FINDINGS = [
    m.finding("idle_members", T0, group="ads-eos"),
    m.finding("rebalance_storm", T0 + MINUTE, group="fraud-848", severity="critical"),
    m.finding("coordinator_hotspot", T0 + MINUTE, group=None, group_type=None, severity="info"),
    m.finding("idle_members", T0 + 2 * MINUTE, group="ads-eos", state="resolved", since_ms=T0),
]


def with_findings() -> Replayed:
    replayed = Replayed(of_path(SEGMENTS), chosen=NO_ANALYZERS)
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
    assert found(since="2100-01-01") == [], "what is open now may be over by then"
    assert COMPLETE_SINCE not in http.get("/api/v1/findings").headers


def test_findings_of_which_some_are_gone() -> None:
    agent = with_findings()
    group = "ads-eos"
    place = next(
        it for it in agent.recent.partitions.values() if any(one.is_finding for one in it.groups.get(group, ()))
    )
    since = str(place.groups[group][-1].at_ms + 1)
    place.cut(group, len(place.groups[group]))
    with client(agent) as http:
        assert "idle_members" not in http.get("/api/v1/findings", params={"since": 0}).text
        assert http.get("/api/v1/findings", params={"since": 0}).headers[COMPLETE_SINCE] == since
        assert COMPLETE_SINCE not in http.get("/api/v1/findings", params={"since": 0, "group": "fraud-848"}).headers
    with served(agent) as url:
        whole = kshadow("findings", "--agent", url, "--since", "0")
        assert "idle_members" not in whole.stdout
        assert whole.stderr.startswith(
            "(the agent keeps the latest events only: findings that were over before 2026-"
        )
        for said in (("--since", since), ("--since", "0", "--group", "fraud-848"), ()):
            assert kshadow("findings", "--agent", url, *said).stderr == ""


@pytest.mark.parametrize("route", [TIMELINE, "/api/v1/findings"])
@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"since": "soon"}, "a duration before now (15m, 2h, 3d, 1h30m), a time"),  # 1
        ({"until": "15"}, "seconds, or a duration without its unit?"),  # 2
        ({"since": "1h", "until": "2h"}, "the range ends before it begins: since is later than until"),  # 3
        ({"since": "\x1b[2J"}, "got '\\x1b[2J'"),  # 4
        ({"since": ""}, "got ''"),  # 5
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
    assert (answer.status_code, "limit: expected a number from 1 to 10000" in answer.json()["error"]) == (400, True)


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
