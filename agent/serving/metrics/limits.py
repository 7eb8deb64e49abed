"""Which groups have series: those that live, up to a hard cap.

A stable choice. A group that has series keeps them; a new one gets some while there is room, and else waits; where
several come at once, as at the start, the one that was active last comes first. So a dashboard does not flicker when
ten thousand one-off groups pass by. A group without members that has not committed for a while has none either, but
keeps its state, and comes back as a new one when it lives again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from threading import Lock
from typing import NamedTuple

from msgspec import Struct


class Reason(StrEnum):
    """Why a group has no series."""

    MAX_SERIES = "max_series"
    EXPIRED = "expired"


class Candidate(Struct, frozen=True):
    """A group that could have series, and how many. Groups are told apart by name.

    `active_ms`: when it last committed or changed, epoch milliseconds. A group that has members always lives.
    """

    group: str
    series: int
    has_members: bool
    active_ms: int


class LeftOut(NamedTuple):
    """How much is not exported: so many groups, which would have so many series."""

    groups: int = 0
    series: int = 0


class Choice(NamedTuple):
    """The groups that have series, how many these are, and by reason what is left out (every reason, if with 0)."""

    groups: frozenset[str]
    series: int
    left_out: dict[Reason, LeftOut]


class Limits:
    """Chooses at each scrape. Scrapes may come from several threads."""

    def __init__(self, max_series: int, expire_after_ms: int | None) -> None:
        """`max_series` is never exceeded. Dead groups expire after so many milliseconds, None: never."""
        self._max_series, self._expire_after_ms = max_series, expire_after_ms
        # In the order in which they were let in: who came last goes first where those that are in grow.
        self._holders: dict[str, None] = {}
        self._lock = Lock()

    def change(self, max_series: int, expire_after_ms: int | None) -> None:
        """Other limits from the next choice on; who has series then keeps them as far as they allow."""
        with self._lock:
            self._max_series, self._expire_after_ms = max_series, expire_after_ms

    def choose(self, candidates: Iterable[Candidate], now_ms: int, *, others: int = 0) -> Choice:
        """Who has series now. `others` are series that are no group's and are exported in any case."""
        with self._lock:
            alive, expired = self._sorted_out(candidates, now_ms)
            # The holders first, then the newcomers: the latest to be active, and among equals by name.
            newcomers = [it for group, it in alive.items() if group not in self._holders]
            newcomers.sort(key=lambda it: (-it.active_ms, it.group))
            chosen: dict[str, None] = {}
            waiting = waiting_series = 0
            total = others
            for it in [*(alive[group] for group in self._holders if group in alive), *newcomers]:
                if total + it.series <= self._max_series:
                    chosen[it.group] = None
                    total += it.series
                else:
                    waiting += 1
                    waiting_series += it.series
            self._holders = chosen
        left_out = {Reason.MAX_SERIES: LeftOut(waiting, waiting_series), Reason.EXPIRED: expired}
        return Choice(frozenset(chosen), total, left_out)

    def _sorted_out(self, candidates: Iterable[Candidate], now_ms: int) -> tuple[dict[str, Candidate], LeftOut]:
        dead_since = None if self._expire_after_ms is None else now_ms - self._expire_after_ms
        alive: dict[str, Candidate] = {}
        groups = series = 0
        for it in candidates:
            if it.has_members or dead_since is None or it.active_ms > dead_since:
                alive[it.group] = it
            else:
                groups += 1
                series += it.series
        return alive, LeftOut(groups, series)
