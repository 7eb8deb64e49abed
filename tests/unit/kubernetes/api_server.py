"""An API server by script: what it answers to each request in turn, for what a real one does seldom."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from agent.kubernetes.connection import Connection

Manifest = dict[str, Any]
Answer = Callable[[], httpx2.Response]


def pod(name: str, version: int, **status: Any) -> Manifest:
    meta = {"name": name, "uid": f"uid-{name}", "namespace": "shop", "resourceVersion": str(version)}
    return {"metadata": meta, "status": {"podIP": "10.0.0.9", "hostIP": "192.168.0.1", **status}}


def listed(*items: Manifest, version: int, more: str = "") -> Answer:
    meta = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return lambda: httpx2.Response(200, json={"metadata": meta, "items": list(items)})


def refused(code: int, message: str, **headers: str) -> Answer:
    body = {"kind": "Status", "code": code, "message": message}
    return lambda: httpx2.Response(code, json=body, headers=headers)


def broken() -> Answer:
    def answer() -> httpx2.Response:
        raise httpx2.ConnectError("connection refused")

    return answer


def watched(*lines: tuple[str, Manifest] | float | Exception) -> Answer:
    """Lines; seconds in between; an error ends it, and without one the server does."""

    async def content() -> AsyncIterator[bytes]:
        for it in lines:
            match it:
                case Exception():
                    raise it
                case (type_, body):
                    yield json.dumps({"type": type_, "object": body}).encode() + b"\n"
                case seconds:
                    await asyncio.sleep(seconds)

    return lambda: httpx2.Response(200, content=content())


def bookmark(version: int) -> tuple[str, Manifest]:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version)}}


@dataclass
class ScriptedServer:
    """`answers` by plural, lists and watches, in turn; then lists are empty and watches bring nothing."""

    answers: dict[str, list[Answer]]
    requests: list[httpx2.Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = defaultdict(deque, {name: deque(it) for name, it in self.answers.items()})

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        queue = self._left[request.url.path.rpartition("/")[2]]
        if queue:
            return queue.popleft()()
        return watched(3600.0)() if "watch" in request.url.params else listed(version=1)()

    def asked(self, plural: str) -> list[dict[str, str]]:
        """What was asked of a kind, in turn."""
        return [dict(it.url.params) for it in self.requests if it.url.path.endswith(f"/{plural}")]


class ScriptedConnection(Connection):
    """A connection to one."""

    server: ScriptedServer

    def __new__(cls, server: ScriptedServer) -> ScriptedConnection:
        config = KubeConfig.from_server("https://api.example").get()
        assert isinstance(config, SingleConfig)
        made = super().__new__(cls, "https://api.example", config)
        made.server = server
        return made

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url="https://api.example", transport=httpx2.MockTransport(self.server))
