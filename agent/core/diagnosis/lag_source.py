"""Who knows how far groups are behind, and as of when. Pure: what is known is given, nobody is asked.

Lag is told as of a time on the event clock, from the last look at the ends before it: so the same records and the
same looks tell the same, however late the records are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple, Protocol

from agent.core.diagnosis.api import TopicPartition
from agent.core.end_offsets import EndOffsets


class CommitColumns(NamedTuple):
    """A group's commits, one a row: where, the offset, when it was committed (epoch milliseconds), and the topic's id
    (zero where the commit has none)."""

    slots: Sequence[TopicPartition]
    offsets: Sequence[int]
    times_ms: Sequence[int]
    topic_ids: Sequence[bytes]


ReadCommits = Callable[[], CommitColumns]
"""Reads them, which takes time for each; a second time it takes none."""


class KnownLags(NamedTuple):
    """Records behind, by position, as of `seen_ms` (epoch milliseconds); without those that are not known."""

    seen_ms: int
    lags: Mapping[TopicPartition, int]


class LagSource(Protocol):
    """What the analyzers ask."""

    @property
    def since_ms(self) -> int | None:
        """From when on anything is known; None: nothing is."""

    @property
    def until_ms(self) -> int | None:
        """After when nothing is known; None: more comes to be known as time passes."""

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        """How far the group's newest commits by `at_ms` are behind as of then. Where nothing is known of then, as
        while brokers are away, they need not be read."""


class WatchedLags:
    """The lag source of an agent that watches the ends."""

    until_ms = None

    def __init__(self, ends: Callable[[], EndOffsets]) -> None:
        """`ends`: all that is known of them by now."""
        self._ends = ends

    @property
    def since_ms(self) -> int | None:
        """When the ends were seen first, of what is kept."""
        times_ms = self._ends().times_ms
        return times_ms[0] if times_ms else None

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        """By the last look at or before `at_ms`."""
        ends = self._ends()
        if ends.look_at(at_ms) is None:
            return KnownLags(at_ms, {})
        return KnownLags(*ends.lags_at(*commits(), at_ms))


STALE_SAMPLES = 3
"""For so many intervals of samples a lag is told, as live for so many looks."""


class SampledLags:
    """The lag source of a history that has samples (events `group_sample`).

    A sample names the positions that are behind, with the ends. Of the others none is, where the lag of all was known
    and not more were behind than a sample names.
    """

    def __init__(self, samples: Iterable[Mapping[str, Any]], most_behind: int) -> None:
        """`samples` in any order; those that do not tell when ends were seen are passed over. `most_behind`: so many
        positions a sample names at most."""
        self._most_behind = most_behind
        by_group: dict[str, dict[int, Mapping[str, Any]]] = {}
        for it in samples:
            if it.get("ends_ms") is not None:
                by_group.setdefault(it["group"], {})[it["ends_ms"]] = it
        self._groups = {group: dict(sorted(found.items())) for group, found in by_group.items()}
        self._times_ms = {group: list(found) for group, found in self._groups.items()}
        self.since_ms: int | None = min((times[0] for times in self._times_ms.values()), default=None)
        gaps = [after - before for times in self._times_ms.values() for before, after in pairwise(times)]
        self._stale_ms = STALE_SAMPLES * median(gaps) if gaps else 0
        last_ms = max((times[-1] for times in self._times_ms.values()), default=0)
        self.until_ms: int | None = last_ms + round(self._stale_ms)

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        """By the last sample whose ends were seen at or before `at_ms`."""
        times = self._times_ms.get(group, [])
        last = bisect_right(times, at_ms) - 1
        if last < 0 or at_ms - times[last] > self._stale_ms:
            return KnownLags(at_ms, {})
        sample = self._groups[group][times[last]]
        ends = {(it["topic"], it["partition"]): it["end"] for it in sample["behind"]}
        is_whole = len(ends) < self._most_behind and sample["lag_partitions"] == sample["partitions"]
        return KnownLags(
            times[last],
            {
                slot: max(ends[slot] - offset, 0) if slot in ends else 0
                for slot, offset in zip(*commits()[:2], strict=True)
                if slot in ends or is_whole
            },
        )
