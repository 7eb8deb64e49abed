"""HTTP: metrics, health and the read-only API.

Owns the routes over whatever answers as an agent does. What strangers wrote (group names, client ids, metadata)
leaves it as ASCII: JSON with escapes, metrics as `agent.serving.metrics.exporter` shows them. Whatever may be
large is made in a thread, a few at a time; scrapes have a thread of their own, health is answered at once. What only
the page and rarer answers need is imported for the first of them, since an agent that starts is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agent import __version__
from agent.common import clock
from agent.common.sanitize import printable
from agent.common.timespec import parse_range
from agent.core.queries import (
    NO_KNOWN_GROUP,
    NO_SUCH_CLUSTER,
    NO_SUCH_GROUP,
    AmbiguousGroup,
    GroupQueries,
    Health,
)
from agent.serving.metrics.exporter import Exporter, MetricsSource
from agent.serving.queries import ServedQueries
from agent.serving.replays import Replays
from agent.serving.scrapes import Scrapes
from agent.serving.web.allowed_hosts import AllowedHosts
from agent.serving.web.answers import (
    COMPLETE_SINCE,
    DEFAULT_EVENTS,
    MAX_EVENTS,
    OPENAPI,
    AnswerSlots,
    AsciiJSONResponse,
    LargeAnswer,
    error_response,
)
from agent.serving.web.auth_middleware import IS_AUTHENTICATED, AuthMiddleware
from agent.serving.web.config_file import WebConfigFile

if TYPE_CHECKING:
    from agent.serving.page import Pages

GROUPS = b"/api/v1/groups/"
TIMELINE, ROLLOUTS, RECORDING = b"/timeline", b"/rollouts", b"/recording"
NO_SUCH_ADDRESS = (
    "; all groups are at /api/v1/groups, below a group are /timeline, /rollouts and /recording, and / in a"
    " group's name is %2F"
)
"""What is added where the address may be meant as another than a group's."""


class AnyPath(Convertor[str]):
    """The rest of a path: a group's name may hold slashes and line breaks, and starlette's `path` takes no breaks."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """The rest of the path, unchanged."""
        return value


register_url_convertor("anything", AnyPath())


def application(
    agent: ServedQueries,
    *,
    exporter: Exporter | None = None,
    files: WebConfigFile | None = None,
    hosts: AllowedHosts | None = None,
    stopping: Callable[[], bool] = lambda: False,
    wall_ms: Callable[[], int] = clock.now_ms,
) -> ASGIApp:
    """The routes over one agent.

    `exporter` makes the metrics, of that agent alone unless told. `files` say who may ask, `hosts` by which names.
    Where `stopping`, /readyz sends clients elsewhere. `wall_ms` is the clock of the page for people, epoch
    milliseconds.
    """
    places = AnswerSlots()
    answers = _Answers(agent, stopping)
    replays = Replays()

    @cache
    def pages() -> Pages:
        from agent.serving.page import Pages

        return Pages(agent, wall_ms, replays)

    def group_page(request: Request) -> Response:
        try:
            return pages().group(request)
        except AmbiguousGroup as several:
            return pages().ambiguous(request, str(several))

    async def refused(request: Request, refusal: Exception) -> Response:
        """What starlette refuses: an unknown address (a page for people), another method than GET and HEAD."""
        assert isinstance(refusal, HTTPException)
        is_for_people = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
        if refusal.status_code == 404 and is_for_people:
            return (await run_sync(pages)).nowhere(request)
        return error_response(refusal.status_code, refusal.detail.lower(), headers=refusal.headers)

    async def static(request: Request) -> Response:
        # The first time that takes an import, for which no probe is to wait.
        return await (await run_sync(pages)).static(request)

    large: dict[str, Callable[[Request], Response]] = {
        "/": lambda request: pages().home(request),
        # Who shortens a group's address means all of them; `/groups/` is the group without a name.
        "/groups": lambda request: RedirectResponse(f"./?{request.url.query}".rstrip("?")),
        "/findings": lambda request: pages().findings(request),
        "/groups/{group:anything}": group_page,
        "/api/v1/status": answers.status,
        OPENAPI: _openapi,
        "/api/v1/groups": answers.of_cluster(_groups),
        "/api/v1/groups/{group:anything}": answers.of_cluster(partial(_group, replays)),
        "/api/v1/findings": answers.of_cluster(_findings),
    }
    routes = [Route(path, LargeAnswer(make, places), methods=["GET"]) for path, make in large.items()]
    scrapes = Scrapes(exporter or Exporter([MetricsSource(None, agent.readings)]))
    routes += [Route("/metrics", scrapes, methods=["GET"])]
    routes += [Route("/healthz", answers.healthz), Route("/readyz", answers.readyz)]
    routes += [Route("/static/{name}", static, methods=["GET"])]
    return AuthMiddleware(
        Starlette(routes=routes, exception_handlers={HTTPException: refused, Exception: _failed}), files, hosts
    )


class _Answers:
    """What is answered from the agent as a whole."""

    def __init__(self, agent: ServedQueries, stopping: Callable[[], bool]) -> None:
        self._agent, self._stopping = agent, stopping
        self._began_s = time.monotonic()

    # In the event loop, not in a thread: probes are answered whatever else is asked.
    async def healthz(self, request: Request) -> Response:
        """Whether a restart would not help."""
        return _health(self._agent.alive(), request)

    async def readyz(self, request: Request) -> Response:
        """Whether answers are whole and fresh."""
        return _health(self._ready(self._agent), request)

    def _ready(self, queries: ServedQueries) -> Health:
        return Health(False, "stopping") if self._stopping() else queries.ready()

    def status(self, request: Request) -> Response:
        """What the agent says of itself, or of the cluster that is asked for."""
        queries = self._asked(request)
        if queries is None:
            return error_response(404, NO_SUCH_CLUSTER)
        ready = self._ready(queries)
        form = {"version": __version__, "ready": ready.ready, "reason": ready.reason}
        uptime_s = round(time.monotonic() - self._began_s, 3)
        return AsciiJSONResponse({**form, "uptime_s": uptime_s, **queries.status()})

    def _asked(self, request: Request) -> ServedQueries | None:
        """Who answers for the cluster that is asked for, where one is; None if there is none of that name."""
        cluster = request.query_params.get("cluster")
        return self._agent if cluster is None else self._agent.of_cluster(cluster)

    def of_cluster(self, answer: Callable[[ServedQueries, Request], Response]) -> Callable[[Request], Response]:
        """An answer of whoever has the cluster that is asked for, once it has caught up."""

        def made(request: Request) -> Response:
            queries = self._asked(request)
            if queries is None:
                return error_response(404, NO_SUCH_CLUSTER)
            if not queries.has_caught_up:
                # An agent that lost its broker later says what it knows.
                return error_response(503, queries.ready().reason)
            try:
                return answer(queries, request)
            except AmbiguousGroup as several:
                return error_response(400, str(several))

        return made


async def _failed(request: Request, failure: Exception) -> Response:
    """A mistake of ours, which the server logs: what it says may be nobody else's business."""
    return error_response(500, "internal error; the agent's log has the details")


def _openapi(request: Request) -> Response:
    from agent.serving.openapi import openapi

    return AsciiJSONResponse(openapi())


def _groups(agent: GroupQueries, request: Request) -> Response:
    return AsciiJSONResponse(agent.groups())


def _group(replays: Replays, agent: ServedQueries, request: Request) -> Response:
    name = request.path_params["group"]
    # Only the address as it was sent tells the route of `a` from the group `a/timeline`, whose slash is %2F.
    sent = request.scope.get("raw_path", b"").partition(GROUPS)[2]
    if sent.endswith(TIMELINE):
        return _timeline(agent, name.removesuffix(TIMELINE.decode()), request)
    if sent.endswith(ROLLOUTS):
        return _rollouts(replays, agent, name.removesuffix(ROLLOUTS.decode()), request)
    if sent.endswith(RECORDING):
        return _recording(agent, name.removesuffix(RECORDING.decode()))
    form = agent.describe(name)
    if form is None:
        return _no_such_group(agent, name, NO_SUCH_ADDRESS if b"/" in sent or not sent else "")
    return AsciiJSONResponse(form)


def _findings(agent: GroupQueries, request: Request) -> Response:
    try:
        since_ms, until_ms = _range(request)
    except ValueError as problem:
        return error_response(400, str(problem))
    group = request.query_params.get("group")
    # What is open now may be over by a time that has not come.
    is_ahead = since_ms is not None and since_ms > clock.now_ms()
    found = [] if is_ahead else agent.findings(since_ms, until_ms, group)
    complete_since_ms = agent.findings_complete_since_ms(group)
    if cut := found[:-MAX_EVENTS]:
        complete_since_ms = max(complete_since_ms or 0, *(it["at_ms"] + 1 for it in cut))
    return AsciiJSONResponse(found[-MAX_EVENTS:], headers=_complete_since(complete_since_ms))


def _timeline(agent: ServedQueries, group: str, request: Request) -> Response:
    try:
        since_ms, until_ms = _range(request)
        limit = _limit(request.query_params.get("limit"))
    except ValueError as problem:
        return error_response(400, str(problem))
    told = agent.timeline(group, since_ms, until_ms)
    if told is None:
        return _no_such_group(agent, group)
    events, complete_since_ms = told
    if cut := events[:-limit]:
        complete_since_ms = max(complete_since_ms or 0, *(it["at_ms"] + 1 for it in cut))
        events = events[-limit:]
    return AsciiJSONResponse(events, headers=_complete_since(complete_since_ms))


def _rollouts(replays: Replays, agent: ServedQueries, group: str, request: Request) -> Response:
    from agent.presentation.narrative.events import events_within
    from agent.serving.rollouts import find_rollouts, with_costs

    try:
        since_ms, until_ms = _range(request)
    except ValueError as problem:
        return error_response(400, str(problem))
    found = find_rollouts(agent, group)
    if found is None:
        return _no_such_group(agent, group)
    asked = events_within(with_costs(agent, found.rollouts, replays), since_ms, until_ms, "began_ms")
    return AsciiJSONResponse(asked, headers=_complete_since(found.complete_since_ms))


def _recording(agent: ServedQueries, group: str) -> Response:
    found = agent.recording(group)
    if found is None and agent.describe(group) is None:
        return _no_such_group(agent, group)
    return AsciiJSONResponse(to_builtins(found))


def _complete_since(at_ms: int | None) -> dict[str, str]:
    return {} if at_ms is None else {COMPLETE_SINCE: str(at_ms)}


def _range(request: Request) -> tuple[int | None, int | None]:
    """`since` and `until`. Raises `ValueError`."""
    return parse_range(request.query_params.get("since"), request.query_params.get("until"), clock.now_ms())


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_EVENTS
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise ValueError(f"limit: expected a number from 1 to {MAX_EVENTS}, got {text[:100]!r}")
    return min(int(text), MAX_EVENTS)


def _no_such_group(agent: ServedQueries, group: str, hint: str = "") -> Response:
    unseen = agent.unseen_reason(group)
    return error_response(404, NO_SUCH_GROUP + hint if unseen is None else NO_KNOWN_GROUP + printable(unseen))


def _health(health: Health, request: Request) -> Response:
    """The reason is for those who may know; a probe without a password gets a word."""
    # A reason may quote a broker's words.
    reason = (
        printable(health.reason) if request.scope["state"][IS_AUTHENTICATED] else ("yes" if health.ready else "no")
    )
    return PlainTextResponse(reason + "\n", status_code=200 if health.ready else 503)
