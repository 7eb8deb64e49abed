"""HTTP: metrics, health and the read-only API."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agent.metrics.exporter import Exporter
from agent.runtime import Agent, Health


def application(agent: Agent) -> Starlette:
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
        return _answer(agent, agent.groups())

    def group(request: Request) -> Response:
        form = agent.describe(request.path_params["group"])
        if form is None and agent.ready().ready:
            return JSONResponse({"error": "no such group"}, status_code=404)
        return _answer(agent, form)

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/api/v1/groups", groups),
            # A group's name may hold a slash.
            Route("/api/v1/groups/{group:path}", group),
        ]
    )


def _health(health: Health) -> Response:
    return PlainTextResponse(health.reason + "\n", status_code=200 if health.ready else 503)


def _answer(agent: Agent, body: Any) -> Response:
    """The body, unless the topic was not read to its end yet: half an answer is none."""
    health = agent.ready()
    if not health.ready and not agent.has_caught_up:
        return JSONResponse({"error": health.reason}, status_code=503)
    return JSONResponse(body)
