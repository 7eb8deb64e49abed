"""What the topic could show about a departure: the commits of the departed member's partitions.

Read from the segments with kshadow's own decoder, apart from its inference. A departure's evidence is `none` where
the member held nothing or nobody committed its partitions while it held them, `weak` where they were committed
once, or more rarely than half the session timeout, and `good` otherwise. It is `either` for a timeout whose silence
is as long as a session's that ran out and as a poll loop's that stalled: with timeouts that near, no reader of the
topic can tell the two apart, whoever it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from agent.runtime.decoding import decoded

Place = tuple[str, int]  # topic name or id, partition
_MODERN_SESSION_MS = 6000  # the rig's broker decides it

NONE, EITHER, WEAK, GOOD = "none", "either", "weak", "good"
_CLOCK_MS = 250
_COMMITS_EVERY_MS = 5_000  # where the pace is not to be seen: the default of auto.commit.interval.ms
_POLLED_BEFORE_MS = 3_000  # how much earlier than its last poll a client that commits by hand may have committed


@dataclass(frozen=True, slots=True)
class Evidence:
    """Times are milliseconds; `gap_ms` is from the last commit to when the broker saw the member go."""

    rating: str
    partitions: int
    commits: int
    every_ms: int | None
    gap_ms: int | None
    session_ms: int
    poll_ms: int
    held_ms: int | None

    def form(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def rated(self, cause: str) -> str:
        """The rating, given what the cause was."""
        if cause in ("session_timeout", "poll_timeout") and self.rating != NONE and self._fits_both():
            return EITHER
        return self.rating

    def _fits_both(self) -> bool:
        """Whether so long a silence ends a session and a poll loop's time alike, from the last commit on.

        A commit renews the session, and members may live on for a commit interval without another; a client commits
        by itself for up to an interval after its last poll, or some time before it where it does so by hand.
        """
        if self.gap_ms is None or not self.session_ms or not self.poll_ms:
            return False
        every = _COMMITS_EVERY_MS if self.every_ms is None else self.every_ms
        session = self.session_ms - _CLOCK_MS <= self.gap_ms <= self.session_ms + every + _CLOCK_MS
        poll = self.poll_ms - every - _CLOCK_MS <= self.gap_ms <= self.poll_ms + _POLLED_BEFORE_MS
        return session and poll


@dataclass(frozen=True, slots=True)
class _Holding:
    since_ms: int
    places: frozenset[Place]
    session_ms: int
    poll_ms: int


class Topic:
    """Commits and assignments of every group."""

    def __init__(self, segments: Path) -> None:
        self._commits: dict[str, list[tuple[int, Place]]] = defaultdict(list)
        self._holdings: dict[tuple[str, str], list[_Holding]] = defaultdict(list)
        self._poll_ms: dict[tuple[str, str], int] = {}
        for record in decoded(str(segments), expand=True):
            self._take(record)
        for commits in self._commits.values():
            commits.sort()

    def has_member(self, group: str, member: str) -> bool:
        """Whether a member ever reached the topic."""
        return (group, member) in self._holdings or (group, member) in self._poll_ms

    def about(self, group: str, member: str, departed_ms: int) -> Evidence:
        """What the topic shows of a member's commits while it held what it held last."""
        # A second of grace: the record that shows its last assignment can be later than its last heartbeat.
        before = [held for held in self._holdings.get((group, member), ()) if held.since_ms <= departed_ms]
        if not before:
            return Evidence(NONE, 0, 0, None, None, 0, 0, None)
        held = before[-1]
        since = held.since_ms
        for earlier in reversed(before):
            if earlier.places != held.places:
                break
            since = earlier.since_ms
        times = self._times(group, held.places, since, departed_ms)
        gaps = [b - a for a, b in pairwise(times)]
        every = round(median(gaps)) if gaps else None
        if not times or not held.places:
            rating = NONE
        elif every is None or every > held.session_ms / 2:
            rating = WEAK
        else:
            rating = GOOD
        gap = departed_ms - times[-1] if times else None
        poll_ms = held.poll_ms or self._poll_ms.get((group, member), 0)
        return Evidence(
            rating, len(held.places), len(times), every, gap, held.session_ms, poll_ms, departed_ms - since
        )

    def _times(self, group: str, places: frozenset[Place], since: int, until: int) -> list[int]:
        """When any of these partitions was committed; commits within 50 ms are one."""
        commits = self._commits.get(group, [])
        times: list[int] = []
        for at_ms, place in commits[: bisect_right(commits, until + 50, key=lambda commit: commit[0])]:
            if at_ms >= since and place in places and (not times or at_ms - times[-1] > 50):
                times.append(at_ms)
        return times

    def _take(self, record: dict[str, Any]) -> None:
        if record.get("value") is None or "key" not in record:
            return
        key, value = record["key"]["data"], record["value"]["data"]
        at_ms = record["timestamp"]
        match record["key"]["type"]:
            case 0 | 1:
                for topic in (key["topic"], value.get("topicId")):
                    if topic:
                        self._commits[key["group"]].append((at_ms, (topic, key["partition"])))
            case 2:
                for member in value["members"]:
                    assignment = member["assignment"]
                    parts = assignment.get("assignedPartitions", ()) if isinstance(assignment, dict) else ()
                    places = frozenset((part["topic"], number) for part in parts for number in part["partitions"])
                    self._holdings[key["group"], member["memberId"]].append(
                        _Holding(at_ms, places, member["sessionTimeout"], member["rebalanceTimeout"])
                    )
            case 5:
                self._poll_ms[key["groupId"], key["memberId"]] = value["rebalanceTimeoutMs"]
            case 8:
                places = frozenset(
                    (part["topicId"], number)
                    for part in value.get("assignedPartitions") or ()
                    for number in part["partitions"]
                )
                self._holdings[key["groupId"], key["memberId"]].append(_Holding(at_ms, places, _MODERN_SESSION_MS, 0))
