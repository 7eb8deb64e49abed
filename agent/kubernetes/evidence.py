"""What Kubernetes knows of members: `PodEvidence`, an `OriginSource`.

Owns the lock between who learns (the watches' thread) and who asks (the reader's), and what is told of itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection

from agent.common.clock import now_ms
from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from agent.kubernetes.history import ClusterHistory
from agent.kubernetes.objects import AnyObject
from agent.kubernetes.origin_rules import departed_of, departure_origin, join_origin
from agent.kubernetes.records import Span

DECISIVE = frozenset(["Pod", "ReplicaSet", "Deployment", "StatefulSet"])
"""Kinds whose unseen changes may make an answer wrong; of the others they only make it less exact."""
CAUGHT_UP_S = 0.3
"""So long after a watch goes on again it has told what went by unseen: that comes at once."""


class PodEvidence:
    """Answers why pods of members went and came, from memory. Everything may be called from any thread."""

    def __init__(self, clock_ms: Callable[[], int] = now_ms) -> None:
        """`clock_ms` is the wall clock, as epoch milliseconds."""
        self._history = ClusterHistory()
        self._lock = threading.Lock()
        self._clock_ms = clock_ms
        self.is_behind = False
        """See `agent.core.inference.origins.OriginSource`; kept by who watches."""
        self._unwatched = set[str]()
        """Kinds of which changes go by unseen now."""
        self._watched_since_s = -math.inf
        """From when on (monotonic) the kind that was missing last is watched again."""

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        """See `agent.core.inference.origins.OriginSource`."""
        gone = departed_of(member, departed_ms, shown_ms)
        with self._lock:
            if not self._sees_changes():
                return None
            return departure_origin(self._history, member, gone, self._clock_ms())

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        """See `agent.core.inference.origins.OriginSource`."""
        with self._lock:
            if not self._sees_changes():
                return None
            return join_origin(self._history, member, shown_ms, self._clock_ms())

    def apply(self, kind: str, it: AnyObject, span: Span, *, is_gone: bool = False) -> None:
        """An object as it is since a time of `span`, or as it was when it was deleted."""
        with self._lock:
            self._history.apply(kind, it, span, is_gone=is_gone)

    def retain(self, kind: str, namespace: str | None, uids: Collection[str], span: Span) -> None:
        """Of a kind, what a list does not have went at a time of `span`."""
        with self._lock:
            self._history.retain(kind, namespace, uids, span)

    def drop(self, kind: str) -> None:
        """Nothing is heard of a kind any more, which may last: it is as if it had never been known."""
        with self._lock:
            self._history.drop(kind)

    def watched(self, kind: str, is_watched: bool) -> None:
        """Whether changes of a kind are seen. While those of pods or of what makes them are not, an address may have
        become another pod's, and a new pod be one of more: so nothing is answered, and who asks asks again."""
        with self._lock:
            if not is_watched:
                self._unwatched.add(kind)
            elif kind in self._unwatched:
                self._unwatched.remove(kind)
                self._watched_since_s = time.monotonic()

    def _sees_changes(self) -> bool:
        return not self._unwatched & DECISIVE and time.monotonic() - self._watched_since_s >= CAUGHT_UP_S

    def first_look_done(self) -> None:
        """All kinds were listed: of what happened before, nothing more will come."""
        with self._lock:
            if self._history.looked_ms is None:
                self._history.looked_ms = self._clock_ms()

    def forget(self) -> None:
        """Let go of what went long ago."""
        with self._lock:
            self._history.forget(self._clock_ms())

    @property
    def pods(self) -> int:
        """How many are known, those that are gone as well."""
        return len(self._history.pods)

    @property
    def left_out(self) -> int:
        """Objects for which there was no room."""
        return self._history.left_out
