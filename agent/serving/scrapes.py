"""The answer to scrapes: for all who ask while one is made, the next one is made together.

So what they cost does not grow with how many ask, and nobody is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent.serving.metrics.exporter import Exporter
from agent.serving.web.answers import VARY, gzip_pieces, send_in_chunks
from agent.serving.web.connection_limits import CONNECTION, LimitedConnection
from agent.serving.web.content_negotiation import accepts_gzip, negotiate_exposition

MAX_KEPT = 16
"""Texts that are sent at a time: what a slow client costs is memory. With more, readers of the oldest are cut off."""


class _Kind(Struct, frozen=True):
    openmetrics: bool
    is_compressed: bool


class _Text(Struct, eq=False):
    pieces: Sequence[bytes]
    readers: set[LimitedConnection] = field(default_factory=set)


class Scrapes:
    """`/metrics`, in a thread of its own, whatever else is asked. For one event loop."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._thread = anyio.CapacityLimiter(1)
        self._next: dict[_Kind, asyncio.Task[_Text]] = {}
        # In the order in which they were made.
        self._sent: OrderedDict[_Text, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with what is known from now on."""
        request = Request(scope, receive)
        exposition = negotiate_exposition(request.headers.get("accept", ""))
        kind = _Kind(exposition.openmetrics, accepts_gzip(request.headers.get("accept-encoding", "")))
        if kind not in self._next:
            self._next[kind] = asyncio.create_task(self._make(kind))
        # Whoever goes away does not end it for the others.
        text = await asyncio.shield(self._next[kind])
        encoding = {"Content-Encoding": "gzip"} if kind.is_compressed else {}
        length = {"Content-Length": str(sum(map(len, text.pieces)))}
        headers = {"Content-Type": exposition.content_type, **VARY, **encoding, **length}
        connection = cast("LimitedConnection | None", scope["state"].get(CONNECTION))
        if connection is not None:
            text.readers.add(connection)
        try:
            await send_in_chunks(Response(headers=headers), send, text.pieces)
        finally:
            text.readers.discard(connection)
            if not text.readers:
                self._sent.pop(text, None)

    async def _make(self, kind: _Kind) -> _Text:
        async with self._thread:
            # Whoever asks from now on has the next one: this may lack what they know of.
            del self._next[kind]
            text = _Text(await run_sync(self._made, kind, abandon_on_cancel=True))
        self._sent[text] = None
        while len(self._sent) > MAX_KEPT:
            oldest, _ = self._sent.popitem(last=False)
            for reader in list(oldest.readers):
                reader.give_way()
        return text

    def _made(self, kind: _Kind) -> Sequence[bytes]:
        pieces = self._exporter.render(kind.openmetrics)
        return gzip_pieces(pieces) if kind.is_compressed else pieces
