"""HTTP: metrics, health and the read-only API.

Owns the routes over whatever answers as an agent does. What strangers wrote (group names, client ids, metadata)
leaves it as ASCII: JSON with escapes, metrics as `agent.metrics.exporter` shows them.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agent.metrics.exporter import Exporter, Readings
from agent.runtime import Health


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
        form = agent.describe(request.path_params["group"])
        return AsciiJSON({"error": "no such group"}, status_code=404) if form is None else AsciiJSON(form)

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/api/v1/groups", groups),
            Route("/api/v1/groups/{group:anything}", group),
        ]
    )


def _health(health: Health) -> Response:
    return PlainTextResponse(health.reason + "\n", status_code=200 if health.ready else 503)


def _unready(agent: Answering) -> Response | None:
    """503 unless the topic was read to its end once. An agent that lost its broker later says what it knows."""
    if agent.has_caught_up:
        return None
    return AsciiJSON({"error": agent.ready().reason}, status_code=503)
