"""One kind of objects, listed and then watched, over and over: what Kubernetes calls a reflector.

Owns where in the stream of changes it is. A list is taken in pages; a watch goes on where the one before ended, by
the resource version of its last line or bookmark. Where the API server no longer has that version (410 Gone) all is
listed anew, and what the list lacks is gone. Nothing but GETs of lists and watches is sent.

Times of changes: what a live watch brings happened just now; what came while nothing was heard happened at some time
since all was last known.
"""

from __future__ import annotations

import logging
import math
import random
import time
from asyncio import Event, Lock, sleep, wait_for
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from agent.common import clock
from agent.common.pacing import growing_pauses
from agent.common.text import printable_truncated
from agent.kubernetes.evidence import PodEvidence
from agent.kubernetes.health import KindHealth, WatchState
from agent.kubernetes.objects import ListAnswer, Status, WatchLine, resource_version
from agent.kubernetes.records import Span

log = logging.getLogger("kshadow")

PAGE = 250
"""Objects asked for at once: pods have some 10 KB each, and a page is in memory as a whole."""
MAX_LINE_BYTES = 16 << 20
"""An object has 1.5 MB at most, by what etcd takes."""
LIVE_MS = 1_000
"""How long a change takes from the API server to here, as a rule."""


class WatchTimings(Struct, frozen=True, kw_only=True):
    """How long what takes, in seconds."""

    watch_s: float = 300.0
    """A watch is ended by the server after about this long, which spreads watches over servers again."""
    silent_s: float = 150.0
    """A watch that brings not even a bookmark (one a minute) for so long is taken for broken."""
    uncached_watch_s: float = 120.0
    """The same as `watch_s`, of events: API servers keep no cache of them, so no bookmarks come."""
    first_pause_s: float = 0.5
    last_pause_s: float = 10.0
    pods_last_pause_s: float = 1.0
    """The same of pods. Who is answered first again wakes the others, so that little goes by unseen."""
    denied_s: float = 300.0
    steady_s: float = 5.0
    """A watch that lasted so long did go on: the next failure is the first again."""


class _Expired(Exception):
    """The API server no longer has this resource version."""


class _Refused(Exception):
    """The API server answers and refuses."""

    def __init__(self, code: int, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.retry_after_s = code, retry_after_s


_DENIED = (403, 404, 405)
"""No right to; no such kind or version; a kind that cannot be watched."""


class KindWatch:
    """Follows a kind until it is cancelled. All of it runs in one event loop."""

    def __init__(
        self,
        health: KindHealth,
        namespace: str | None,
        evidence: PodEvidence,
        client: Callable[[], httpx2.AsyncClient],
        *,
        requests: Counter[str],
        listing: Lock,
        timings: WatchTimings,
        on_failure: Callable[[Exception], None],
        on_return: Callable[[], None],
    ) -> None:
        """`health` says which kind, and is kept up to date. `client` gives the one to use now. `listing` is held for
        a page of a list, so that one is in memory at a time. `requests` are counted by outcome. `on_return` is called
        when the API server answers again."""
        self.health, self.settled = health, Event()
        """`settled`: set once the kind was listed, or it is known that it cannot be."""
        self._watched = health.watched
        self._evidence, self._client = evidence, client
        self._requests, self._listing = requests, listing
        self._timings, self._on_failure = timings, on_failure
        self._on_return = on_return
        self._path = health.watched.path(namespace)
        self._namespace = namespace if health.watched.is_namespaced else None
        self._version: str | None = None
        """Where the next watch begins; None: with a list."""
        self._woken = Event()

    def wake(self) -> None:
        """Ask again now, if it is waiting: the API server answers again."""
        if self.health.state is WatchState.BROKEN:
            self._woken.set()

    async def run(self) -> None:
        """List and watch for good."""
        pauses, relists = self._pauses(), self._relists()
        while True:
            began_s, pause_s, is_expired = math.inf, 0.0, False
            try:
                if self._version is None:
                    await self._list()
                began_s = time.monotonic()
                await self._watch()
            except _Expired:
                self._requests["expired"] += 1
                self._version, is_expired = None, True
            except _Refused as refusal:
                if refusal.code in _DENIED:
                    self._requests["denied"] += 1
                    self._version = None
                    self._turn(WatchState.DENIED, str(refusal))
                    # Without the others less is told. Of pods that were known before, what was is told no more.
                    self._evidence.drop(self._watched.kind)
                    self._tell(self._watched.kind != "Pod")
                    self.settled.set()
                    await self._wait(self._timings.denied_s)
                    continue
                pause_s = refusal.retry_after_s or 0.0
                self._fail(refusal)
            except Exception as error:
                # Whatever it is: the others, and the agent, go on.
                if not isinstance(error, (httpx2.HTTPError, OSError, ValueError)):
                    log.debug("Kubernetes: the watch of %s", self._watched.plural, exc_info=True)
                self._fail(error)
            is_steady = time.monotonic() - began_s >= self._timings.steady_s
            if is_steady:
                pauses, relists = self._pauses(), self._relists()
            if is_expired:
                await self._wait(next(relists))
            elif not is_steady or self.health.state is not WatchState.WATCHING:
                await self._wait(max(pause_s, next(pauses)))

    def _pauses(self) -> Iterator[float]:
        timings = self._timings
        last_s = timings.pods_last_pause_s if self._watched.kind == "Pod" else timings.last_pause_s
        return growing_pauses(min(timings.first_pause_s, last_s), last_s)

    def _relists(self) -> Iterator[float]:
        """Before all is listed anew. The first time at once, as after each restart of an API server: what is listed
        late may have come and gone."""
        return chain([0.0], self._pauses())

    async def _wait(self, seconds: float) -> None:
        self._woken.clear()
        try:
            await wait_for(self._woken.wait(), seconds * random.uniform(0.7, 1.3))
        except TimeoutError:
            return
        await sleep(random.uniform(0.0, 0.2))

    # Listing.

    async def _list(self) -> None:
        known_ms, began_ms = self.health.known_ms, clock.now_ms()
        uids: set[str] = set()
        token, version = "", ""
        unreadable = self.health.unreadable
        while True:
            params = {"limit": str(PAGE)} | ({"continue": token} if token else {}) | self._selected()
            async with self._listing:
                answer = await self._client().get(self._path, params=params)
                self._check(answer)
                page = msgspec.json.decode(answer.content, type=ListAnswer)
                del answer
                self._requests["ok"] += 1
                now_ms = clock.now_ms()
                span = Span(now_ms if known_ms is None else min(known_ms, now_ms), now_ms)
                for raw in page.items or ():
                    it = self._decoded(raw)
                    if it is not None:
                        uids.add(it.metadata.uid)
                        self._evidence.apply(self._watched.kind, it, span)
            token, version = page.metadata.continue_ or "", page.metadata.resource_version
            if not token:
                break
        if self._watched.kind != "Event" and self.health.unreadable == unreadable:
            self._evidence.retain(self._watched.kind, self._namespace, uids, span)
        self._version = version
        self.health.known_ms = began_ms
        self.settled.set()

    def _selected(self) -> dict[str, str]:
        return {} if self._watched.fields is None else {"fieldSelector": self._watched.fields}

    def _decoded(self, raw: msgspec.Raw) -> Any:
        try:
            return msgspec.json.decode(raw, type=self._watched.type)
        except msgspec.ValidationError as error:
            self.health.unreadable += 1
            if self.health.unreadable == 1:
                log.warning("Kubernetes: a %s that is not one is passed over: %s", self._watched.kind, error)
            return None

    # Watching.

    async def _watch(self) -> None:
        """From `_version` on, until the server ends it."""
        assert self._version is not None, "it was listed"
        kind, timings = self._watched.kind, self._timings
        seconds = timings.uncached_watch_s if kind == "Event" else timings.watch_s
        params = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(seconds * random.uniform(0.8, 1.0)))),
        }
        timeout = httpx2.Timeout(10.0, read=timings.silent_s)
        request = self._client().stream("GET", self._path, params=params | self._selected(), timeout=timeout)
        async with request as response:
            if response.status_code != 200:
                await response.aread()
            self._check(response)
            self._requests["ok"] += 1
            self._turn(WatchState.WATCHING)
            self._tell(True)
            try:
                await self._follow(response)
            finally:
                self._tell(False)
        self.health.known_ms = clock.now_ms()

    async def _follow(self, response: httpx2.Response) -> None:
        health, connected_ms = self.health, clock.now_ms()
        since_ms = connected_ms if health.known_ms is None else min(health.known_ms, connected_ms)
        is_live, line_ms = False, connected_ms
        async for line in _lines(response):
            told, now_ms = msgspec.json.decode(line, type=WatchLine), clock.now_ms()
            # What was missed comes at once and without a gap.
            is_live = is_live or told.type == "BOOKMARK" or now_ms - max(line_ms, connected_ms) > LIVE_MS
            line_ms = now_ms
            match told.type:
                case "ADDED" | "MODIFIED" | "DELETED":
                    health.changes += 1
                    it = self._decoded(told.object)
                    if it is not None:
                        span = Span(now_ms - LIVE_MS if is_live else min(since_ms, now_ms), now_ms)
                        self._evidence.apply(self._watched.kind, it, span, is_gone=told.type == "DELETED")
                case "BOOKMARK":
                    pass
                case "ERROR":
                    status = msgspec.json.decode(told.object, type=Status)
                    if status.code == 410:
                        raise _Expired
                    raise _Refused(status.code, printable_truncated(status.message, 200))
                case _:
                    continue
            self._version = resource_version(told.object)
            if is_live:
                health.known_ms = now_ms

    def _tell(self, is_watched: bool) -> None:
        self._evidence.watched(self._watched.kind, is_watched)

    # How it goes.

    def _turn(self, state: WatchState, error: str | None = None) -> None:
        health, now_ms = self.health, clock.now_ms()
        if health.state is not state:
            if state is WatchState.DENIED:
                log.warning("Kubernetes: %s: %s; %s", self._watched.plural, error, self._watched.without)
            elif state is WatchState.WATCHING and health.state is not WatchState.LISTING:
                log.info("Kubernetes: %s are watched again", self._watched.plural)
            health.state, health.since_ms = state, now_ms
        health.error = error

    def _check(self, response: httpx2.Response) -> None:
        """Raises what `run` handles, unless it is an answer."""
        if response.status_code in (200, 410) and self.health.state is WatchState.BROKEN:
            self._on_return()
        _raise_for(response)

    def _fail(self, error: Exception) -> None:
        self._requests["failed"] += 1
        self._tell(False)
        said = printable_truncated(str(error) or type(error).__name__, 200)
        if self.health.state is not WatchState.BROKEN:
            log.info("Kubernetes: the watch of %s broke: %s", self._watched.plural, said)
        self._turn(WatchState.BROKEN, said)
        self._on_failure(error)


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Lines as they come. Raises `_Refused` for one that has no end."""
    rest = bytearray()
    async for chunk in response.aiter_bytes():
        rest += chunk
        while (end := rest.find(b"\n")) >= 0:
            line = bytes(rest[:end])
            del rest[: end + 1]
            if line.strip():
                yield line
        if len(rest) > MAX_LINE_BYTES:
            raise _Refused(200, f"a line of a watch has more than {MAX_LINE_BYTES} bytes")


def _raise_for(response: httpx2.Response) -> None:
    if response.status_code == 200:
        return
    if response.status_code == 410:
        raise _Expired
    try:
        message = msgspec.json.decode(response.content, type=Status).message
    except msgspec.DecodeError:
        message = response.text
    after = response.headers.get("retry-after", "")
    retry_after_s = min(float(after), 60.0) if after.isascii() and after.isdigit() else None
    raise _Refused(response.status_code, printable_truncated(message or response.reason_phrase, 200), retry_after_s)
