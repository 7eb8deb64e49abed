"""Each route, in each state that the agent may be in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from httpx import Client

from tests.cli.hostile import LETTERS, TEXTS, pairs, raw
from tests.cli.running import SEGMENTS
from tests.http.replayed import Replayed, of_log, of_path, served
from tests.shadow import build as b
from tests.shadow.build import Log

ROUTES = ("/metrics", "/healthz", "/readyz", "/api/v1/groups", "/api/v1/groups/ads-eos")
TEXT = "text/plain; version=1.0.0; charset=utf-8"
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
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.headers["content-type"] == get.headers["content-type"]


def test_elsewhere(caught_up: Client) -> None:
    for route in ("/api/v1/groups/nobody", "/api/v1/groups/", "/api/v1/groups/a/b", "/api/v2/groups", "/metrics/x"):
        assert caught_up.get(route).status_code == 404


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),  # 1: who asks for nothing
        ("*/*", TEXT),  # 2: curl
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT),  # 3: a browser
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),  # 4: an old Prometheus
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", OPEN_METRICS),  # 5: a newer one
    ],
)
def test_what_is_asked_for_is_sent(caught_up: Client, accept: str, content_type: str) -> None:
    response = caught_up.get("/metrics", headers={"Accept": accept})
    kind, _, rest = response.headers["content-type"].partition("; ")
    expected, _, parameters = content_type.partition("; ")
    assert kind == expected
    assert "charset=utf-8" in rest
    if accept and accept != "*/*" and not accept.startswith("text/html"):
        assert parameters.split("; ")[0] in rest
    assert response.text.endswith("# EOF\n") == (expected != "text/plain")


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
