"""How far a group was behind over time, in bounded memory: the longer ago, the longer the spans of which the peak is
kept. Pure: time comes with the notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, TypeVar

from agent.core.events.samples import LagNote

Number = TypeVar("Number", int, float)

MAX_SPANS = 100
"""Of one group: the newest are as long as the time between two looks. After hours of looks every 10 s, those of an
hour ago are some minutes long."""
PAUSE_MS = 60_000
"""What is further apart is not put together: what is noted after a pause may be of another rollout."""


class _Span(NamedTuple):
    """The peak of the notes from `at_ms` to `until_ms`."""

    at_ms: int
    until_ms: int
    records: int | None
    seconds: float | None
    at_least: bool

    def joined(self, later: _Span) -> _Span:
        records, seconds = _peak((self.records, later.records)), _peak((self.seconds, later.seconds))
        return _Span(self.at_ms, later.until_ms, records, seconds, self.at_least or later.at_least)


class LagPeaks:
    """Of one group. One thread adds, any may read."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []

    def add(self, note: LagNote) -> None:
        """The newest note."""
        self._spans.append(_Span(note.at_ms, note.at_ms, note.records, note.seconds, note.at_least))
        if len(self._spans) <= MAX_SPANS:
            return
        joinable = [
            (later.until_ms - one.at_ms) / max(note.at_ms - later.until_ms, 1)
            if later.at_ms - one.until_ms <= PAUSE_MS
            else None
            for one, later in pairwise(self._spans)
        ]
        known = [(part, at) for at, part in enumerate(joinable) if part is not None]
        if known:
            _, at = min(known)
            self._spans[at : at + 2] = [self._spans[at].joined(self._spans[at + 1])]
        else:
            del self._spans[0]

    def notes(self) -> tuple[LagNote, ...]:
        """The peaks in order, each at the time of the first note that it is of."""
        return tuple(LagNote(it.at_ms, it.records, it.seconds, it.at_least) for it in tuple(self._spans))


def _peak(values: Iterable[Number | None]) -> Number | None:
    return max((it for it in values if it is not None), default=None)
