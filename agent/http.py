"""HTTP: metrics, health and the read-only API.

Owns the routes over whatever answers as an agent does. What strangers wrote (group names, client ids, metadata)
leaves it as ASCII: JSON with escapes, metrics as `agent.metrics.exporter` shows them.
"""

from __future__ import annotations

import json
import time
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agent.history.events import Event
from agent.metrics.exporter import Exporter, Readings
from agent.moments import bounds
from agent.page import HEADERS, page
from agent.runtime import Health

GROUPS = b"/api/v1/groups/"
TIMELINE = b"/timeline"
TIMELINE_EVENTS = 1_000
MOST_EVENTS = 10_000
"""Events of one answer: unless told, and at most. The newest are given."""

COMPLETE_SINCE = "Kshadow-Complete-Since"
"""The header that says from when on (epoch milliseconds) an answer has all events; absent if from the beginning."""


class Answering(Protocol):
    """What is asked of an agent: `agent.runtime.Agent`, or whatever else holds a mirror."""

    @property
    def has_caught_up(self) -> bool:
        """Whether the topic was read to its end once: before that, half an answer is none."""

    def alive(self) -> Health:
        """Whether a restart would not help."""

    def ready(self) -> Health:
        """Whether answers are whole and fresh."""

    def groups(self) -> list[dict[str, object]]:
        """Every group's row, by name."""

    def describe(self, group: str) -> dict[str, object] | None:
        """One group in full, or None."""

    def timeline(
        self, group: str, since_ms: int | None = None, until_ms: int | None = None
    ) -> tuple[list[Event], int | None] | None:
        """A group's events of a range, and from when on these are all; None if it was never heard of."""

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""

    def readings(self) -> Readings:
        """What a scrape needs."""


class Anything(Convertor[str]):
    """The rest of a path: a group's name may hold slashes and line breaks, and starlette's `path` takes no breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("anything", Anything())


class AsciiJSON(JSONResponse):
    """JSON in which every character but plain ASCII is escaped: safe to show in a terminal."""

    def render(self, content: Any) -> bytes:
        """The body. json leaves DEL, which is ASCII, as it is."""
        return json.dumps(content, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")


def application(agent: Answering) -> Starlette:
    """The routes over one agent. Handlers are plain functions: the server runs them in its thread pool."""
    registry = CollectorRegistry()
    registry.register(Exporter(agent.readings))

    def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type})

    def healthz(request: Request) -> Response:
        return _health(agent.alive())

    def readyz(request: Request) -> Response:
        return _health(agent.ready())

    def groups(request: Request) -> Response:
        return _unready(agent) or AsciiJSON(agent.groups())

    def group(request: Request) -> Response:
        unready = _unready(agent)
        if unready is not None:
            return unready
        name = request.path_params["group"]
        # Only the address as it was sent tells the route of `a` from the group `a/timeline`, whose slash is %2F.
        if request.scope.get("raw_path", b"").partition(GROUPS)[2].endswith(TIMELINE):
            return _timeline(agent, name.removesuffix(TIMELINE.decode()), request)
        form = agent.describe(name)
        return _no_such_group() if form is None else AsciiJSON(form)

    def findings(request: Request) -> Response:
        unready = _unready(agent)
        if unready is not None:
            return unready
        try:
            since_ms, until_ms = _range(request)
        except ValueError as error:
            return _bad(error)
        return AsciiJSON(agent.findings(since_ms, until_ms, request.query_params.get("group"))[-MOST_EVENTS:])

    def home(request: Request) -> Response:
        ready = agent.ready()
        if not agent.has_caught_up:
            return HTMLResponse(page([], [], ready, _now_ms()), status_code=503, headers=HEADERS)
        return HTMLResponse(page(agent.groups(), agent.findings(), ready, _now_ms()), headers=HEADERS)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/api/v1/groups", groups),
            Route("/api/v1/groups/{group:anything}", group),
            Route("/api/v1/findings", findings),
        ]
    )


def _timeline(agent: Answering, group: str, request: Request) -> Response:
    try:
        since_ms, until_ms = _range(request)
        limit = _limit(request.query_params.get("limit"))
    except ValueError as error:
        return _bad(error)
    told = agent.timeline(group, since_ms, until_ms)
    if told is None:
        return _no_such_group()
    events, complete_since_ms = told
    if len(events) > limit:
        complete_since_ms = events[-limit - 1]["at_ms"] + 1
        events = events[-limit:]
    headers = {} if complete_since_ms is None else {COMPLETE_SINCE: str(complete_since_ms)}
    return AsciiJSON(events, headers=headers)


def _range(request: Request) -> tuple[int | None, int | None]:
    """`since` and `until`. Raises `ValueError`."""
    return bounds(request.query_params.get("since"), request.query_params.get("until"), _now_ms())


def _limit(text: str | None) -> int:
    if text is None:
        return TIMELINE_EVENTS
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"limit: a number from 1 to {MOST_EVENTS} expected, {text[:100]!r} came")
    return min(int(text), MOST_EVENTS)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _bad(error: ValueError) -> Response:
    return AsciiJSON({"error": str(error)}, status_code=400)


def _no_such_group() -> Response:
    return AsciiJSON({"error": "no such group"}, status_code=404)


def _health(health: Health) -> Response:
    return PlainTextResponse(health.reason + "\n", status_code=200 if health.ready else 503)


def _unready(agent: Answering) -> Response | None:
    """503 unless the topic was read to its end once. An agent that lost its broker later says what it knows."""
    if agent.has_caught_up:
        return None
    return AsciiJSON({"error": agent.ready().reason}, status_code=503)
