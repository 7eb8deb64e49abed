"""The OpenAPI document: whole, the same everywhere, and true."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from httpx import Client
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.routing import Route

from agent.common import timespec
from agent.presentation.schemas.builders import refs
from agent.serving import openapi, routes
from agent.serving.web import answers
from agent.serving.web.auth_middleware import MAX_PARAMETERS, PUBLIC_PATHS, AuthMiddleware
from tests.generate.schemas import OPENAPI, text_of
from tests.unit.serving.openapi.checking import described, resolved
from tests.unit.serving.openapi.scenes import SCENES, served
from tests.unit.serving.routes.replayed import Replayed
from tests.unit.serving.web.made import hashed

DOCUMENT = openapi.openapi()
PATHS = {route.path: route for route in openapi.ROUTES}


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Client]]:
    """One of each scene."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield {
            scene: stack.enter_context(Client(base_url=stack.enter_context(served(scene)), timeout=60))
            for scene in SCENES
        }


def test_the_file_is_what_the_code_says() -> None:
    assert OPENAPI.read_text(encoding="ascii") == text_of(DOCUMENT), "run python -m tests.generate.schemas"


def test_what_is_served_is_that(clients: dict[str, Client]) -> None:
    for scene, client in clients.items():
        answer = client.get(answers.OPENAPI)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), scene
        assert answer.json() == DOCUMENT


def test_it_is_openapi() -> None:
    # Against the specification's own schema of 3.1, which schemathesis carries.
    schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT)).validate()


def test_it_is_whole() -> None:
    # What it refers to is there, what is there is referred to, and each shape is a schema.
    text = json.dumps(DOCUMENT)
    for target in set(refs(DOCUMENT)):
        assert resolved({"$ref": target})
    for kind, parts in DOCUMENT["components"].items():
        for name, part in parts.items():
            assert kind == "securitySchemes" or f'"#/components/{kind}/{name}"' in text, (kind, name)
            if kind == "schemas":
                Draft202012Validator.check_schema(part)
    names = [it["get"]["operationId"] for it in DOCUMENT["paths"].values()]
    assert len(set(names)) == len(names)
    for path, item in DOCUMENT["paths"].items():
        given = {resolved(it)["name"] for it in item["get"].get("parameters", ()) if resolved(it)["in"] == "path"}
        assert given == set(re.findall(r"\{(\w+)\}", path))


def test_it_has_every_address() -> None:
    gate = routes.application(Replayed([]))
    assert isinstance(gate, AuthMiddleware)
    served = gate._routes
    assert isinstance(served, Starlette)
    served_paths = {it.path.replace(":anything", "") for it in served.routes if isinstance(it, Route)}
    # One route answers for a group and what is below it.
    # `/groups` leads to the page of all groups.
    assert served_paths - {"/static/{name}", "/groups"} == {
        it for it in PATHS if not it.endswith(("/timeline", "/rollouts", "/recording"))
    }
    assert {path for path, route in PATHS.items() if route.is_open} == set(PUBLIC_PATHS)


def test_numbers_and_names_are_those_of_the_routes() -> None:
    assert list(openapi.HEADERS) == [routes.COMPLETE_SINCE]
    assert timespec.EXPECTED in openapi.PARAMETERS["since"]["description"]


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("2h", True),  # 1
        ("1h30m", True),  # 2
        ("500ms", True),  # 3
        ("now", True),  # 4
        ("0", True),  # 5: everything
        ("1790000000000", True),  # 6
        ("999999999999w", False),  # 7: too many digits
        ("2 h", False),  # 8
        ("1790000000", False),  # 9: seconds
        ("yesterday", False),  # 10
        ("", False),  # 11
        ("h", False),  # 12
        ("-2h", False),  # 13
    ],
)
def test_times_are_described_as_they_are_read(text: str, is_time: bool) -> None:
    *patterns, now = (it for it in openapi.PARAMETERS["since"]["schema"]["anyOf"] if "format" not in it)
    says = text == now["const"] or any(re.search(it["pattern"], text) for it in patterns)
    try:
        timespec.parse_time(text)
        reads = True
    except ValueError:
        reads = False
    assert (says, reads) == (is_time, is_time)


GROUPS = ("ads-eos", "nobody", "a", "b", "a/b", "a/timeline", "", "..", "\x1b[2J\x1b[H")
QUERIES: tuple[dict[str, Any], ...] = (
    {},
    {"since": "20y"},
    {"since": "1d"},
    {"since": "0", "until": "now", "limit": 3},
    {"since": "now", "until": "0"},
    {"limit": 0},
    {"limit": "x"},
    {"cluster": "east"},
    {"cluster": "west"},
    {"cluster": "nowhere"},
    {"group": "ads-eos", "since": "0"},
)


def addresses() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each address as the document names it, as it is asked for, and with which query."""
    for path, route in PATHS.items():
        names = GROUPS if "{group}" in path else ("",)
        queries = QUERIES if route.parameters else ({},)
        for name in names:
            for query in queries:
                yield path, path.replace("{group}", quote(name, safe="")), query


def test_answers_are_as_described(clients: dict[str, Client]) -> None:
    seen: set[tuple[str, str]] = set()
    for scene, client in clients.items():
        for path, address, query in addresses():
            answer = client.get(address, params=query)
            if address.endswith(("/groups/", "/groups/..", "/groups//timeline", "/groups/../timeline")):
                continue  # no group's address: what clients and servers make of it is another's
            assert [*described(path, answer)] == [], (scene, address, query)
            seen.add((path, str(answer.status_code)))
    for path in PATHS:
        assert (path, "200") in seen
    for path in ("/api/v1/groups/{group}", "/api/v1/groups/{group}/timeline"):
        assert {status for it, status in seen if it == path} == {"200", "400", "404", "503"}


def test_refusals_are_as_described(clients: dict[str, Client]) -> None:
    for path in PATHS:
        address = path.replace("{group}", "ads-eos")
        for method in ("POST", "DELETE", "OPTIONS", "PUT", "PATCH"):
            answer = clients["whole"].request(method, address)
            assert (answer.status_code, [*described(path, answer)]) == (405, []), (method, path)
        answer = clients["whole"].request("GET", address, content=b"{}")
        assert (answer.status_code, [*described(path, answer)]) == (413, []), path
        answer = clients["whole"].get(address + "?" + "&" * MAX_PARAMETERS)
        assert (answer.status_code, [*described(path, answer)]) == (400, []), path


def test_a_password_is_asked_for_as_described(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(f"basic_auth_users:\n  sre: {hashed('right')}\n", encoding="ascii")
    with served("whole", file) as url, Client(base_url=url, timeout=60) as client:
        for path, route in PATHS.items():
            address = path.replace("{group}", "ads-eos")
            for auth, status in ((None, 401), (("sre", "wrong"), 401), (("sre", "right"), 200)):
                answer = client.get(address, auth=auth)
                assert answer.status_code == (200 if route.is_open else status)
                assert [*described(path, answer)] == []
