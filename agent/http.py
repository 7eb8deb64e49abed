"""HTTP: metrics, health and the read-only API.

Owns the routes over whatever answers as an agent does. What strangers wrote (group names, client ids, metadata)
leaves it as ASCII: JSON with escapes, metrics as `agent.metrics.exporter` shows them. Whatever may be large is made
in a thread, a few at a time; health is answered at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agent import __version__
from agent.metrics.exporter import Exporter, Source
from agent.metrics.readings import Readings
from agent.moments import bounds
from agent.openapi import PATH as OPENAPI
from agent.openapi import openapi
from agent.page import Pages
from agent.page.fleet import Told
from agent.plain import printable
from agent.runtime import Health
from agent.web.accepting import exposition
from agent.web.answers import AsciiJSON, Large, Places, error
from agent.web.errors import Ambiguous
from agent.web.files import WebFiles
from agent.web.gate import KNOWN, Gate

GROUPS = b"/api/v1/groups/"
TIMELINE = b"/timeline"
TIMELINE_EVENTS = 1_000
MOST_EVENTS = 10_000
"""Events of one answer: unless told, and at most. The newest are given."""

COMPLETE_SINCE = "Kshadow-Complete-Since"
"""The header that says from when on (epoch milliseconds) an answer has all events; absent if from the beginning."""


class Answering(Told, Protocol):
    """What is asked of an agent: `agent.runtime.Agent`, or whatever else holds a mirror.

    It may have two more. `status() -> dict[str, object]`: what /api/v1/status says besides. `of(cluster: str) ->
    Answering | None`: who answers for one of the clusters, which `?cluster=` chooses; without it a cluster's name is
    an error. Where none is chosen and several have the group asked for, `describe` and `timeline` raise
    `agent.web.errors.Ambiguous`.
    """

    def alive(self) -> Health:
        """Whether a restart would not help."""

    def readings(self) -> Readings:
        """What a scrape needs."""


class Anything(Convertor[str]):
    """The rest of a path: a group's name may hold slashes and line breaks, and starlette's `path` takes no breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("anything", Anything())


def application(
    agent: Answering,
    *,
    exporter: Exporter | None = None,
    files: WebFiles | None = None,
    stopping: Callable[[], bool] = lambda: False,
    wall_ms: Callable[[], int] = lambda: _now_ms(),
) -> ASGIApp:
    """The routes over one agent.

    `exporter` makes the metrics, of that agent alone unless told. `files` say who may ask; where `stopping`, /readyz
    sends clients elsewhere. `wall_ms` is the clock of the page for people, epoch milliseconds.
    """
    places = Places()
    pages = Pages(agent, wall_ms)
    metered = exporter or Exporter([Source(None, agent.readings)])
    began = time.monotonic()

    def metrics(request: Request) -> Response:
        wanted = exposition(request.headers.get("accept", ""))
        text = b"".join(metered.render(wanted.openmetrics))
        return Response(text, headers={"Content-Type": wanted.content_type})

    # In the event loop, not in a thread: probes are answered whatever else is asked.
    async def healthz(request: Request) -> Response:
        return _health(agent.alive(), request)

    async def readyz(request: Request) -> Response:
        return _health(Health(False, "stopping") if stopping() else agent.ready(), request)

    def status(request: Request) -> Response:
        ready = agent.ready()
        more: dict[str, object] = getattr(agent, "status", dict)()
        form = {"version": __version__, "ready": ready.ready and not stopping(), "reason": ready.reason}
        return AsciiJSON({**form, "uptime_s": round(time.monotonic() - began, 3), **more})

    def group_page(request: Request) -> Response:
        try:
            return pages.group(request)
        except Ambiguous as several:
            return pages.ambiguous(request, str(several))

    def asked(answer: Callable[[Answering, Request], Response]) -> Callable[[Request], Response]:
        """An answer of whoever has the cluster that is asked for, once it has one."""

        def made(request: Request) -> Response:
            whom: Answering | None = agent
            cluster = request.query_params.get("cluster")
            if cluster is not None:
                whom = agent.of(cluster) if hasattr(agent, "of") else None
            if whom is None:
                return error(404, "no such cluster")
            if not whom.has_caught_up:
                # An agent that lost its broker later says what it knows.
                return error(503, whom.ready().reason)
            try:
                return answer(whom, request)
            except Ambiguous as several:
                return error(400, str(several))

        return made

    large: dict[str, Callable[[Request], Response]] = {
        "/": pages.home,
        "/findings": pages.findings,
        "/groups/{group:anything}": group_page,
        "/metrics": metrics,
        "/api/v1/status": status,
        OPENAPI: lambda request: AsciiJSON(openapi()),
        "/api/v1/groups": asked(_groups),
        "/api/v1/groups/{group:anything}": asked(_group),
        "/api/v1/findings": asked(_findings),
    }
    routes = [Route(path, Large(make, places), methods=["GET"]) for path, make in large.items()]
    routes += [Route("/healthz", healthz), Route("/readyz", readyz)]
    routes += [Route("/static/{name}", pages.static, methods=["GET"])]
    return Gate(Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed}), files)


async def _refused(request: Request, refusal: Exception) -> Response:
    """What starlette refuses: an unknown address, another method than GET and HEAD."""
    assert isinstance(refusal, HTTPException)
    return error(refusal.status_code, refusal.detail.lower(), headers=refusal.headers)


async def _failed(request: Request, failure: Exception) -> Response:
    """A mistake of ours, which the server logs: what it says may be nobody else's business."""
    return error(500, "internal error; the agent's log says more")


def _groups(agent: Answering, request: Request) -> Response:
    return AsciiJSON(agent.groups())


def _group(agent: Answering, request: Request) -> Response:
    name = request.path_params["group"]
    # Only the address as it was sent tells the route of `a` from the group `a/timeline`, whose slash is %2F.
    if request.scope.get("raw_path", b"").partition(GROUPS)[2].endswith(TIMELINE):
        return _timeline(agent, name.removesuffix(TIMELINE.decode()), request)
    form = agent.describe(name)
    return _no_such_group() if form is None else AsciiJSON(form)


def _findings(agent: Answering, request: Request) -> Response:
    try:
        since_ms, until_ms = _range(request)
    except ValueError as problem:
        return error(400, str(problem))
    return AsciiJSON(agent.findings(since_ms, until_ms, request.query_params.get("group"))[-MOST_EVENTS:])


def _timeline(agent: Answering, group: str, request: Request) -> Response:
    try:
        since_ms, until_ms = _range(request)
        limit = _limit(request.query_params.get("limit"))
    except ValueError as problem:
        return error(400, str(problem))
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


def _no_such_group() -> Response:
    return error(404, "no such group")


def _health(health: Health, request: Request) -> Response:
    """The reason is for those who may know; a probe without a password gets a word."""
    # A reason may quote a broker's words.
    reason = printable(health.reason) if request.scope["state"][KNOWN] else ("yes" if health.ready else "no")
    return PlainTextResponse(reason + "\n", status_code=200 if health.ready else 503)
