"""Answers: JSON in plain ASCII, large bodies in pieces, gzip for who takes it, and so many at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from agent.web.accepting import accepts_gzip

PIECE = 1 << 16
"""Bytes handed over at a time: with the next one it is waited until the client has taken most of what came before."""
LEAST_GZIP = 1 << 10
"""Bytes below which compression gains nothing."""
GZIP_LEVEL = 1

MOST_MADE = 2
"""Large answers that are made at a time, each in a thread: one computes while the other compresses."""
MOST_HELD = 16
"""Large answers that are made or being sent at a time: what a slow client costs is memory."""
MOST_WAITING = 64
"""Requests that wait for one of those places; further ones are answered 503."""
WAIT_S = 10.0
"""How long they wait, before they are answered 503 too."""


class AsciiJSON(JSONResponse):
    """JSON in which every character but plain ASCII is escaped: safe to show in a terminal."""

    def render(self, content: Any) -> bytes:
        """The body. json leaves DEL, which is ASCII, as it is."""
        return json.dumps(content, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")


def error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error, in words."""
    return AsciiJSON({"error": text}, status_code=status, headers=headers)


class Places:
    """Bounds what large answers cost, all together. For one event loop."""

    def __init__(self) -> None:
        self.threads = anyio.CapacityLimiter(MOST_MADE)
        self._held = asyncio.Semaphore(MOST_HELD)
        self._waiting = 0

    async def take(self) -> bool:
        """Whether there is a place, or was in time."""
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._held.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    def give_back(self) -> None:
        """It is free again."""
        self._held.release()


class Large:
    """A route whose answer may be large: made in a thread, sent in pieces."""

    def __init__(self, make: Callable[[Request], Response], places: Places) -> None:
        self._make, self._places = make, places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer when there is a place."""
        places, request = self._places, Request(scope, receive)
        if not await places.take():
            busy = error(503, "too many requests at a time; try again in a while", headers={"Retry-After": "5"})
            return await busy(scope, receive, send)
        try:
            if await request.is_disconnected():
                return
            # Given up where the server stops: a thread cannot be interrupted.
            response = await run_sync(self._made, request, limiter=places.threads, abandon_on_cancel=True)
            await _sent_in_pieces(response, send)
        finally:
            places.give_back()

    def _made(self, request: Request) -> Response:
        response = self._make(request)
        response.headers["Vary"] = "Accept, Accept-Encoding"
        if len(response.body) >= LEAST_GZIP and accepts_gzip(request.headers.get("accept-encoding", "")):
            response.body = gzip.compress(response.body, GZIP_LEVEL, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Length"] = str(len(response.body))
        return response


async def _sent_in_pieces(response: Response, send: Send) -> None:
    body = response.body
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for at in range(0, len(body), PIECE):
        await send({"type": "http.response.body", "body": body[at : at + PIECE], "more_body": True})
    await send({"type": "http.response.body", "body": b""})
