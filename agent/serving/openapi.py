"""The OpenAPI 3.1 description of what an agent answers over HTTP, as plain data.

Owns the description alone: routes, parameters, statuses, headers; the shapes are those of
`agent.presentation.schemas`.
`agent.serving.routes` serves it, docs/schemas/openapi.json is the same as a file, and tests hold the routes to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from agent.common.timespec import EXPECTED
from agent.presentation.schemas.builders import REF, TEXT, Schema, array_of, nullable, ref, refs
from agent.presentation.schemas.documents import DEFS, VERSION, needed_by
from agent.serving.web.answers import COMPLETE_SINCE, DEFAULT_EVENTS, MAX_EVENTS, OPENAPI

COMPONENT = "#/components/schemas/"

DURATION = "^([0-9]{1,9}(ms|s|m|h|d|w))+$"
EPOCH_MS = "^(0|[1-9][0-9]{11,14})$"
_TIME: Schema = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": DURATION},
        {"type": "string", "pattern": EPOCH_MS},
        {"type": "string", "const": "now"},
    ],
}

_JSON, _TEXT, _HTML = "application/json", "text/plain", "text/html"
_OPENMETRICS = "application/openmetrics-text"


class _Route(NamedTuple):
    """An address. `answers`: schema by media type of its 200; `refusals`: statuses of its own."""

    path: str
    name: str
    summary: str
    answers: Mapping[str, Schema]
    parameters: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    tag: str = "api"
    about: str = ""
    is_open: bool = False


def _query(name: str, about: str, schema: Schema = TEXT, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": schema, **more}


PARAMETERS: dict[str, dict[str, Any]] = {
    "group_in_path": {
        "name": "group",
        "in": "path",
        "required": True,
        "description": "The group's name, percent-encoded (a slash is %2F).",
        "schema": TEXT,
    },
    "cluster": _query("cluster", "One of the clusters that the agent reads, by its name. Without it: all of them."),
    "since": _query(
        "since",
        f"Only what was at or after that time: {EXPECTED}. Not later than `until`.",
        _TIME,
        examples={"two hours": {"value": "2h"}, "a time": {"value": "2026-11-21T10:02:00Z"}},
    ),
    "until": _query(
        "until",
        f"Only what was at or before that time: {EXPECTED}.",
        _TIME,
        examples={"a minute ago": {"value": "1m"}},
    ),
    "limit": _query(
        "limit",
        f"How many events at most: the newest. More than {MAX_EVENTS:,} are {MAX_EVENTS:,}.",
        {"type": "integer", "minimum": 1, "maximum": 999_999_999, "default": DEFAULT_EVENTS},
    ),
    "group": _query("group", "Only findings on that group."),
}

_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string", "pattern": "^[0-9]+$"}}}
REFUSALS: dict[str, dict[str, Any]] = {
    "400": {"description": "A parameter is invalid, there are too many, or several clusters have that group."},
    "401": {
        "description": "A user name and password are required (where a web-config file names users).",
        "headers": {"WWW-Authenticate": {"required": True, "schema": TEXT}},
    },
    "404": {"description": "No such group, or no such cluster."},
    "405": {
        "description": "Another method than GET and HEAD.",
        "headers": {"Allow": {"required": True, "schema": TEXT}},
    },
    "413": {"description": "The request has a body."},
    "421": {"description": "The host that the request names is none of this server's (`--allowed-host`)."},
    "429": {"description": "Too many wrong passwords, or too many to check at once.", "headers": _RETRY},
    "500": {"description": "An error in the agent; its log has the details."},
    "503": {
        "description": "Not ready, such as before the topic was read to its end; or too busy: then with Retry-After.",
        "headers": _RETRY,
    },
}
ALWAYS = ("400", "401", "405", "413", "421", "429", "500")
"""What any address may answer. Probes (`is_open`) need no password."""

HEADERS: dict[str, dict[str, Any]] = {
    COMPLETE_SINCE: {
        "description": "From when on (epoch milliseconds) all events are known. Absent: from the log's beginning.",
        "schema": {"type": "string", "pattern": "^-?[0-9]+$"},
    },
}

_api = partial(_Route, refusals=("404", "503"))
_word = partial(_Route, answers={_TEXT: TEXT}, refusals=("503",), tag="monitoring")
_page = partial(_Route, answers={_HTML: TEXT}, parameters=("cluster",), refusals=("404", "503"), tag="people")

ROUTES: tuple[_Route, ...] = (
    _api(
        "/api/v1/groups",
        "groups",
        "Every group's row, by name.",
        {_JSON: array_of(ref("group"))},
        ("cluster",),
    ),
    _api(
        "/api/v1/groups/{group}",
        "group",
        "One group in full: members, assignment, offsets, lag.",
        {_JSON: ref("describe")},
        ("group_in_path", "cluster"),
    ),
    _api(
        "/api/v1/groups/{group}/timeline",
        "timeline",
        "What happened to one group, in order: its newest events.",
        {_JSON: array_of(ref("event"))},
        ("group_in_path", "since", "until", "limit", "cluster"),
        headers=(COMPLETE_SINCE,),
        about="Also for a deleted group, while the agent remembers it.",
    ),
    _api(
        "/api/v1/groups/{group}/rollouts",
        "rollouts",
        "Each rollout of a group's workload and the verdict on it, the oldest first.",
        {_JSON: array_of(ref("rollout"))},
        ("group_in_path", "since", "until", "cluster"),
        headers=(COMPLETE_SINCE,),
        about="As far back as events are remembered; one that may have begun before that is left out. The range is "
        "that of their beginnings.",
    ),
    _api(
        "/api/v1/groups/{group}/recording",
        "recording",
        "What `kshadow whatif` replays: one group's latest generations, members and all.",
        {_JSON: nullable({"type": "object"})},
        ("group_in_path", "cluster"),
        about="For `kshadow --agent` of about the same version: what is in it is no part of what a version promises. "
        "Null where nothing is kept.",
    ),
    _api(
        "/api/v1/findings",
        "findings",
        "Open findings, or the findings of a time range.",
        {_JSON: array_of(ref("finding"))},
        ("since", "until", "group", "cluster"),
        headers=(COMPLETE_SINCE,),
        about=f"The newest event of each; the {MAX_EVENTS:,} newest at most. What was over before "
        f"`{COMPLETE_SINCE}` may be missing.",
    ),
    _api(
        "/api/v1/status",
        "status",
        "The agent's own state.",
        {_JSON: ref("status")},
        ("cluster",),
        about="Of one of several clusters: as of an agent that reads that one alone.",
    ),
    _api(OPENAPI, "openapi", "This description.", {_JSON: {"type": "object"}}, refusals=("503",)),
    _word(
        "/metrics",
        "metrics",
        "Metrics for Prometheus.",
        answers={_TEXT: TEXT, _OPENMETRICS: TEXT},
        refusals=(),
        about="OpenMetrics for clients that accept it. Groups' metrics are absent until the topic has been "
        "read to its end.",
    ),
    _word(
        "/healthz",
        "healthz",
        "Whether the agent is alive.",
        about="200 while the reader runs, else 503; a word or the reason.",
        is_open=True,
    ),
    _word(
        "/readyz",
        "readyz",
        "Whether answers are complete and up to date.",
        about="503 until the topic has been read to its end, when reading has stopped, and while the agent stops.",
        is_open=True,
    ),
    _page("/", "page", "The web page of all groups."),
    _page("/findings", "findings_page", "The web page of findings."),
    _page(
        "/groups/{group}",
        "group_page",
        "The web page of one group.",
        parameters=("group_in_path", "cluster"),
        refusals=("400", "404", "503"),
    ),
)


@cache
def openapi() -> dict[str, Any]:
    """The document. Not to be changed: everybody has the same."""
    answered = refs([schema for route in ROUTES for schema in route.answers.values()])
    shapes = {name: DEFS[name] for name in needed_by(["error", *answered])}
    paths = {it.path: {"get": _operation(it)} for it in ROUTES}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "kshadow",
            "version": str(VERSION),
            "summary": "Why Kafka consumer groups rebalance.",
            "description": (
                "Read-only: GET and HEAD. Within a version there are only additions: pass over fields, types of "
                "events and words that you do not know. JSON is plain ASCII, everything else in it escaped."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "api", "description": "Groups, their history, findings."},
            {"name": "monitoring", "description": "Metrics and probes."},
            {"name": "people", "description": "A page."},
        ],
        "security": [{}, {"password": []}],
        "paths": paths,
        "components": {
            "schemas": shapes,
            "parameters": PARAMETERS,
            "headers": HEADERS,
            "responses": {status: {**it, "content": _ERROR} for status, it in REFUSALS.items()},
            "securitySchemes": {
                "password": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Where a web-config file names users; else nothing is asked.",
                }
            },
        },
    }
    # OpenAPI has its shapes at another place.
    moved: dict[str, Any] = json.loads(json.dumps(document).replace(f'"{REF}', f'"{COMPONENT}'))
    return moved


def _operation(route: _Route) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "200": {
            "description": route.summary,
            "content": {kind: {"schema": schema} for kind, schema in route.answers.items()},
        }
    }
    if route.headers:
        responses["200"]["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in route.headers}
    for status in sorted({*ALWAYS, *route.refusals}):
        responses[status] = {"$ref": f"#/components/responses/{status}"}
    if route.is_open:
        del responses["401"], responses["429"]
    if route.tag != "api":
        # What is busy says so in JSON everywhere; else a page is refused with a page, a probe with a word.
        own = {kind: {"schema": schema} for kind, schema in route.answers.items()}
        for status in route.refusals:
            responses[status] = {**REFUSALS[status], "content": {**own, **_ERROR}}
    operation: dict[str, Any] = {"operationId": route.name, "summary": route.summary, "tags": [route.tag]}
    if route.about:
        operation["description"] = route.about
    if route.parameters:
        operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in route.parameters]
    if route.is_open:
        operation["security"] = []
    return {**operation, "responses": responses}


_ERROR = {_JSON: {"schema": ref("error")}}
