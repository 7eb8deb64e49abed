"""Answers: JSON in plain ASCII, large bodies in pieces, gzip for who takes it, and so many at a time."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from agent.serving.web.content_negotiation import accepts_gzip

CHUNK_BYTES = 1 << 16
"""Bytes handed over at a time: with the next one it is waited until the client has taken most of what came before."""
MIN_GZIP_BYTES = 1 << 10
"""Bytes below which compression gains nothing."""
GZIP_LEVEL = 1
OPENAPI = "/api/v1/openapi.json"
MAX_EVENTS = 10_000
DEFAULT_EVENTS = 1_000
"""Events of one answer: at most, and of a timeline unless told. The newest are given."""
COMPLETE_SINCE = "Kshadow-Complete-Since"
"""The header that says from when on (epoch milliseconds) an answer has all events; absent if from the beginning."""
_GZIP_FORM = 16
"""Added to the size of zlib's window: a header and a trailer as gzip has them, with no time."""
VARY = {"Vary": "Accept, Accept-Encoding"}
"""Of answers that depend on what the client accepts."""

MAX_THREADS = 2
"""Large answers that are made at a time, each in a thread: one computes while the other compresses."""
MAX_IN_FLIGHT = 16
"""Large answers that are made or being sent at a time: what a slow client costs is memory."""
MAX_WAITING = 64
"""Requests that wait for one of those places; further ones are answered 503."""
MAX_WAIT_S = 10.0
"""How long they wait, before they are answered 503 too."""


class AsciiJSONResponse(JSONResponse):
    """JSON in which every character but plain ASCII is escaped: safe to show in a terminal."""

    def render(self, content: Any) -> bytes:
        """The body. json leaves DEL, which is ASCII, as it is."""
        return json.dumps(content, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")


def error_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as `{"error": text}`."""
    return AsciiJSONResponse({"error": text}, status_code=status, headers=headers)


class AnswerSlots:
    """Bounds what large answers cost, all together. For one event loop."""

    def __init__(self) -> None:
        self.threads = anyio.CapacityLimiter(MAX_THREADS)
        self._held = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._waiting = 0

    async def acquire(self) -> bool:
        """Whether there is a place, or was in time."""
        if self._waiting >= MAX_WAITING:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(MAX_WAIT_S):
                return await self._held.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    def release(self) -> None:
        """Give the place to whoever waits."""
        self._held.release()


class LargeAnswer:
    """A route whose answer may be large: made in a thread, sent in pieces."""

    def __init__(self, make: Callable[[Request], Response], places: AnswerSlots) -> None:
        self._make, self._places = make, places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer when there is a place."""
        places, request = self._places, Request(scope, receive)
        if not await places.acquire():
            busy = error_response(
                503, "too many requests at a time; try again in a while", headers={"Retry-After": "5"}
            )
            return await busy(scope, receive, send)
        try:
            if await request.is_disconnected():
                return
            # Given up where the server stops: a thread cannot be interrupted.
            response = await run_sync(self._made, request, limiter=places.threads, abandon_on_cancel=True)
            await send_in_chunks(response, send)
        finally:
            places.release()

    def _made(self, request: Request) -> Response:
        response = self._make(request)
        response.headers.update(VARY)
        if len(response.body) >= MIN_GZIP_BYTES and accepts_gzip(request.headers.get("accept-encoding", "")):
            response.body = b"".join(gzip_pieces([response.body]))
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Length"] = str(len(response.body))
        return response


def gzip_pieces(pieces: Iterable[bytes | memoryview]) -> list[bytes]:
    """As one body, the same for the same pieces, of which other threads need not wait for more than a piece."""
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | _GZIP_FORM)
    return [it for it in (*map(packer.compress, pieces), packer.flush()) if it]


async def send_in_chunks(response: Response, send: Send, pieces: Sequence[bytes] | None = None) -> None:
    """Hand over a whole answer, as fast as the client takes it; its body is in `pieces` where there are some."""
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for piece in (response.body,) if pieces is None else pieces:
        for at in range(0, len(piece), CHUNK_BYTES):
            await send({"type": "http.response.body", "body": piece[at : at + CHUNK_BYTES], "more_body": True})
    await send({"type": "http.response.body", "body": b""})
