"""The cluster, watched: `KubernetesWatcher`, one thread with an event loop for the watches of all kinds.

Owns their order at the start, the client that they share, and what is told of them all. It never ends by itself:
whatever the API server does, it goes on trying, and the agent does without meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from agent.common import clock
from agent.common.threads import BackgroundThread
from agent.core.queries import JsonObject
from agent.kubernetes.connection import Connection
from agent.kubernetes.errors import KubernetesMisconfigured
from agent.kubernetes.evidence import PodEvidence
from agent.kubernetes.health import KindHealth, KubernetesReading, WatchState, worries
from agent.kubernetes.kind_watch import KindWatch, WatchTimings
from agent.kubernetes.watched import WATCHED
from analyzers.formatting import count_text

log = logging.getLogger("kshadow")

for name in ("httpx2", "httpcore2"):
    # They log each request.
    logging.getLogger(name).setLevel(logging.WARNING)

FORGET_S = 60.0
EVENTS_WAIT_S = 60.0
"""Events are listed after pods, and after all else that they are about unless that takes longer."""
WAKE_S = 5.0
"""At most so often one watch that is answered has the others try at once: each of them may be answered and fail."""
RENEW_S = 30.0
"""Certificates that do not fit are read again, at most so often: they are renewed while an agent runs."""


class KubernetesWatcher(BackgroundThread):
    """Follows all kinds, in one namespace or all, from `start` to `stop`; `evidence` answers from what it learns."""

    STOP_S: ClassVar[float | None] = 3.0

    def __init__(
        self, connection: Connection, namespace: str | None = None, *, timings: WatchTimings | None = None
    ) -> None:
        """Connects to nothing yet. Raises `KubernetesMisconfigured`."""
        super().__init__("kubernetes")
        self.evidence = PodEvidence()
        self._connection, self._namespace = connection, namespace
        self._timings = timings or WatchTimings()
        self._kinds = [KindHealth(it, since_ms=clock.now_ms()) for it in WATCHED]
        self._requests = Counter[str]({"ok": 0, "denied": 0, "expired": 0, "failed": 0})
        self._first_look = threading.Event()
        self._client = connection.client()
        self._renewed_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def await_first_look(self, timeout_s: float) -> bool:
        """Wait until all that can be listed was, or something cannot be; whether that came within the time."""
        return self._first_look.wait(timeout_s)

    def request_stop(self) -> None:
        """End soon."""
        super().request_stop()
        if self._loop is not None and self._task is not None:
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                # It ended in between.
                return

    # What is told.

    def reading(self) -> KubernetesReading:
        """What a scrape exports."""
        return KubernetesReading(
            watching={it.watched.kind: it.state is WatchState.WATCHING for it in self._kinds},
            requests=dict(self._requests),
            pods=self.evidence.pods,
            left_out=self.evidence.left_out,
        )

    def worries(self) -> Iterator[str]:
        """What is not as it should be, a sentence each."""
        yield from worries(self._kinds, self._namespace, clock.now_ms())
        if left_out := self.evidence.left_out:
            yield f"Kubernetes: no room for {count_text(left_out, 'object')}: what happens to them is not known"

    def status(self) -> JsonObject:
        """How it goes, for people and scripts."""
        return {
            "api_server": self._connection.where,
            "namespace": self._namespace,
            "pods": self.evidence.pods,
            "requests": dict(self._requests),
            "kinds": {
                it.watched.plural: {
                    "state": str(it.state),
                    "since_ms": it.since_ms,
                    "known_ms": it.known_ms,
                    "changes": it.changes,
                    "unreadable": it.unreadable,
                    "error": it.error,
                }
                for it in self._kinds
            },
        }

    # The thread.

    def _run(self) -> None:
        scope = "all namespaces" if self._namespace is None else f"namespace {self._namespace}"
        log.info("Kubernetes: watching %s of %s", scope, self._connection.where)
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            return
        except Exception as error:
            for it in self._kinds:
                it.state, it.since_ms, it.error = WatchState.BROKEN, clock.now_ms(), repr(error)
            self.evidence.is_behind = True
            # Connections are of the loop that has ended.
            self._client = self._connection.client()
            raise
        finally:
            self._first_look.set()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._stop.is_set():
            return
        listing = asyncio.Lock()
        watches: list[KindWatch] = []

        woken_s = -WAKE_S

        def wake() -> None:
            nonlocal woken_s
            if time.monotonic() - woken_s >= WAKE_S:
                woken_s = time.monotonic()
                for it in watches:
                    it.wake()

        watches += [
            KindWatch(
                it,
                self._namespace,
                self.evidence,
                lambda: self._client,
                requests=self._requests,
                listing=listing,
                timings=self._timings,
                on_failure=self._on_failure,
                on_return=wake,
            )
            for it in self._kinds
        ]
        async with asyncio.TaskGroup() as group:
            *others, events = watches
            for it in others:
                group.create_task(it.run())
            group.create_task(self._follow_events(events, others))
            group.create_task(self._keep_house(watches))

    async def _follow_events(self, events: KindWatch, others: list[KindWatch]) -> None:
        """Events, once what they are about is known: those of pods that are not known say nothing."""
        (pods,) = (it for it in others if it.health.watched.kind == "Pod")
        await pods.settled.wait()
        try:
            async with asyncio.timeout(EVENTS_WAIT_S):
                for it in others:
                    await it.settled.wait()
        except TimeoutError:
            log.info("Kubernetes: events are listed before all that they are about")
        await events.run()

    async def _keep_house(self, watches: list[KindWatch]) -> None:
        forget_at_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            is_broken = any(it.health.state is WatchState.BROKEN for it in watches)
            self.evidence.is_behind = is_broken
            if all(it.settled.is_set() for it in watches):
                self.evidence.first_look_done()
                self._first_look.set()
            elif is_broken:
                self._first_look.set()
            if loop.time() >= forget_at_s:
                forget_at_s = loop.time() + FORGET_S
                self.evidence.forget()
            await asyncio.sleep(0.5)

    def _on_failure(self, error: Exception) -> None:
        """Where certificates do not fit, they may have been renewed."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        loop = asyncio.get_running_loop()
        if cause is None or loop.time() - self._renewed_s < RENEW_S:
            return
        self._renewed_s = loop.time()
        try:
            self._client = self._connection.client()
        except KubernetesMisconfigured as trouble:
            log.warning("%s", trouble)
