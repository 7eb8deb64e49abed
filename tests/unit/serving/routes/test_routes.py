"""Each route, in each state that the agent may be in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from httpx import Client

from agent import __version__
from agent.core.queries import AmbiguousGroup
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served

ROUTES = ("/metrics", "/healthz", "/readyz", "/api/v1/groups", "/api/v1/groups/ads-eos")
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@contextmanager
def client(replayed: Replayed) -> Iterator[Client]:
    """A client of a real server: the one that the agent runs."""
    with served(replayed) as url, Client(base_url=url) as made:
        yield made


@pytest.fixture(scope="module")
def caught_up() -> Iterator[Client]:
    with client(Replayed(of_path(SEGMENTS))) as it:
        yield it


@pytest.fixture(scope="module")
def behind() -> Iterator[Client]:
    with client(Replayed(of_path(SEGMENTS), has_caught_up=False)) as it:
        yield it


@pytest.fixture(scope="module")
def stopped() -> Iterator[Client]:
    with client(Replayed(of_path(SEGMENTS), stopped="reading has stopped: the brokers are gone")) as it:
        yield it


def test_caught_up(caught_up: Client) -> None:
    assert [caught_up.get(route).status_code for route in ROUTES] == [200] * 5
    assert caught_up.get("/readyz").text == "caught up\n"
    replayed = Replayed(of_path(SEGMENTS))
    assert caught_up.get("/api/v1/groups").json() == replayed.groups()
    assert caught_up.get("/api/v1/groups/ads-eos").json() == replayed.describe("ads-eos")


def test_half_an_answer_is_none(behind: Client) -> None:
    assert [behind.get(route).status_code for route in ROUTES] == [200, 200, 503, 503, 503]
    assert behind.get("/readyz").text == "catching up with the topic's end: 12 records to go\n"
    assert behind.get("/api/v1/groups/nobody").json() == {
        "error": "catching up with the topic's end: 12 records to go"
    }


def test_an_agent_that_lost_its_broker_says_what_it_knows(stopped: Client) -> None:
    assert [stopped.get(route).status_code for route in ROUTES] == [200, 200, 503, 200, 200]
    assert stopped.get("/readyz").text == "reading has stopped: the brokers are gone\n"
    unknown = stopped.get("/api/v1/groups/nobody")
    assert (unknown.status_code, unknown.json()) == (404, {"error": "no such group"})


def test_why_an_unknown_group_may_be_there() -> None:
    class Hidden(Replayed):
        def unseen_reason(self, group: str) -> str | None:
            return f"{group} is hidden"

    with client(Hidden([])) as http:
        for path in ("g", "g/timeline", "g/rollouts", "g/recording"):
            unknown = http.get(f"/api/v1/groups/{path}")
            assert (unknown.status_code, unknown.json()) == (404, {"error": "no such group is known: g is hidden"})


def test_a_reason_may_quote_a_broker() -> None:
    with client(Replayed([], stopped="reading has stopped: \x1b[2J\nevil größe")) as http:
        assert http.get("/readyz").content == "reading has stopped: \\u001b[2J\\u000aevil größe\n".encode()
        assert raw(http.get("/api/v1/status").text) == []


@pytest.mark.parametrize("route", ROUTES)
def test_read_only(caught_up: Client, route: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        response = caught_up.request(method, route)
        assert response.status_code == 405
        assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert caught_up.get(route).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
def test_head_is_get_without_a_body(caught_up: Client, route: str) -> None:
    head, get = caught_up.head(route), caught_up.get(route)
    assert (head.status_code, head.content) == (200, b"")
    if route != "/metrics":  # the process is never twice the same
        assert head.headers["content-length"] == get.headers["content-length"]
    assert head.headers["content-type"] == get.headers["content-type"]


def test_elsewhere(caught_up: Client) -> None:
    for route in ("/api/v1/groups/nobody", "/api/v1/groups/", "/api/v1/groups/a/b", "/api/v2/groups", "/metrics/x"):
        answer = caught_up.get(route)
        assert answer.status_code == 404
        assert answer.json()["error"].partition(";")[0] in ("no such group", "not found")
    assert caught_up.post("/api/v1/groups").json() == {"error": "method not allowed"}


def test_near_misses_of_a_groups_address(caught_up: Client) -> None:
    """The addresses beside it are named; a plain name is just unknown."""
    for route in ("", "ads-eos/", "ads-eos/time", "a/b/c"):
        error = caught_up.get(f"/api/v1/groups/{route}").json()["error"]
        assert error.startswith("no such group; all groups are at /api/v1/groups, below a group are /timeline")
    assert caught_up.get("/api/v1/groups/a%2Fb").json() == {"error": "no such group"}


def test_groups_without_a_name_are_all_of_them(caught_up: Client) -> None:
    answer = caught_up.get("/groups?q=f", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "./?q=f")


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),  # 1: who asks for nothing
        ("*/*", TEXT),  # 2: curl
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT),  # 3: a browser
        ("text/plain;version=0.0.4", TEXT),  # 4: an old Prometheus
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", OPEN_METRICS),  # 5: a newer one
    ],
)
def test_what_is_asked_for_is_sent(caught_up: Client, accept: str, content_type: str) -> None:
    response = caught_up.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"] == content_type
    assert response.text.endswith("# EOF\n") == (content_type == OPEN_METRICS)


def test_the_status(caught_up: Client, behind: Client, stopped: Client) -> None:
    said = [it.get("/api/v1/status").json() for it in (caught_up, behind, stopped)]
    assert [it["ready"] for it in said] == [True, False, False]
    assert [it["reason"].split(":")[0] for it in said] == [
        "caught up",
        "catching up with the topic's end",
        "reading has stopped",
    ]
    assert {it["version"] for it in said} == {__version__}
    assert all(it["uptime_s"] >= 0 for it in said)


class Telling(Replayed):
    """One that has more to say of itself, and answers for several clusters."""

    def status(self) -> dict[str, object]:
        return {"clusters": ["east", "west"], "reason": "two clusters"}

    def of_cluster(self, cluster: str) -> Replayed | None:
        logs = {"east": Log().add(b.new_group("a")), "west": Log().add(b.new_group("b"))}
        return Replayed(of_log(logs[cluster]), has_caught_up=cluster == "east") if cluster in logs else None

    def describe(self, group: str) -> dict[str, object] | None:
        raise AmbiguousGroup("group is in east and west: choose with ?cluster=")


def test_several_clusters(caught_up: Client) -> None:
    assert caught_up.get("/api/v1/groups", params={"cluster": "east"}).json() == {"error": "no such cluster"}
    with client(Telling(of_path(SEGMENTS))) as http:
        status = http.get("/api/v1/status").json()
        assert (status["clusters"], status["reason"], status["ready"]) == (["east", "west"], "two clusters", True)
        assert [http.get("/api/v1/status", params={"cluster": it}).json()["ready"] for it in ("east", "west")] == [
            True,
            False,
        ]
        assert len(http.get("/api/v1/groups").json()) == len(caught_up.get("/api/v1/groups").json())
        assert [it["group"] for it in http.get("/api/v1/groups?cluster=east").json()] == ["a"]
        assert http.get("/api/v1/groups/a?cluster=east").json()["group"] == "a"
        assert http.get("/api/v1/groups/a/timeline?cluster=east").status_code == 200
        assert http.get("/api/v1/findings?cluster=east").json() == []
        assert http.get("/api/v1/groups?cluster=west").status_code == 503
        for name in ("north", "", "\x1b"):
            for path in ("/api/v1/groups", "/api/v1/status"):
                answer = http.get(path, params={"cluster": name})
                assert (answer.status_code, answer.json()) == (404, {"error": "no such cluster"})
        answer = http.get("/api/v1/groups/a")
        assert (answer.status_code, answer.json()["error"][:25]) == (400, "group is in east and west")


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**TEXTS, **LETTERS}.items()])
def test_hostile_names(text: str) -> None:
    with client(Replayed(of_log(Log().add(*pairs(text))))) as http:
        listed = http.get("/api/v1/groups")
        assert {row["group"] for row in listed.json()} == {text, f"{text}848"}
        assert listed.content.isascii()
        assert raw(listed.text) == []
        if len(text) > 20_000:
            return  # too long for an address
        for group in (text, f"{text}848"):
            response = http.get(f"/api/v1/groups/{quote(group, safe='')}")
            assert response.status_code == 200
            assert raw(response.text) == []
            assert json.loads(response.content)["group"] == group
            assert response.json()["offsets"][0]["metadata"] == text


@pytest.mark.parametrize("group", ["a/b", "a//b/", "/", "a?b#c", "..", "../../etc", "%2e", "a b", "a\n", ""])
def test_names_that_mean_something_in_an_address(group: str) -> None:
    with client(Replayed(of_log(Log().add(b.new_group(group))))) as http:
        address = quote(group, safe="").replace(".", "%2E")
        assert http.get(f"/api/v1/groups/{address}").json()["group"] == group
