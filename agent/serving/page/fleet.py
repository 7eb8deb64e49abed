"""All groups at one time: what is wrong with each, in which order they are looked at, which of them are asked for.

Owns the picture that all readers of the page share. Making it takes time that goes with the groups (a quarter of a
second for 5,000), so it is made once for all of them, at most every `MIN_AGE_S` and for a part of the time, and aside
where it takes long: a reader then gets what was there a moment ago, and is told from when that is.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from sys import intern
from typing import Any, NamedTuple

from msgspec import Struct

from agent.core.diagnosis.severity import Severity
from agent.core.queries import GroupQueries, Health
from agent.presentation.markup import Markup
from agent.presentation.narrative.phrases import may_have_rebalanced

GroupRow = Mapping[str, Any]
Event = dict[str, Any]
Key = tuple[str | None, str]

RECENT_MS = 3_600_000
"""Rebalances that are no longer ago than that are recent."""
BINS = 12
"""Into so many pieces the recent past is cut."""

MIN_AGE_S = 1.0
MAX_AGE_S = 15.0
"""A picture is given as it is for so long; and, where making one takes long, at most for so long."""
REST_FACTOR = 4
"""And for this many times as long as it took, at most for half of `MAX_AGE_S`: of a hundred thousand groups it takes
seconds, which all else that the agent does waits for."""
REFRESH_INLINE_BELOW_S = 0.04
"""What takes no longer is made while the reader waits."""
REFRESH_DELAY_S = 0.05

REBALANCING_STATES = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class RecentRebalance(NamedTuple):
    """When a group rebalanced, epoch milliseconds, and what set it off."""

    at_ms: int
    cause: str


class FleetGroup(Struct, frozen=True):
    """A group's row, with how it rebalanced lately (in order), and what is open on it, the worst first."""

    row: GroupRow
    recent: tuple[RecentRebalance, ...]
    findings: tuple[Event, ...]
    search_text: str = ""
    """What a filter looks at, in small letters: its name, type, state, cluster, what is open on it, and `stale`."""
    recent_since_ms: int = 0
    """From when on `recent` is all there was (epoch milliseconds): of before, the agent has let events go."""

    def is_recent_whole(self, now_ms: int) -> bool:
        """Whether `recent` is all of the last hour, and not the newest of it."""
        return self.recent_since_ms <= now_ms - RECENT_MS

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.row["group"])

    @property
    def cluster(self) -> str | None:
        """Its cluster's name, where there are several."""
        return self.row.get("cluster")

    @property
    def severity_level(self) -> int:
        """From 0, nothing is open, to 3, something critical is."""
        return _severity(self.findings[0]).rank + 1 if self.findings else 0

    @property
    def severity_key(self) -> tuple[Any, ...]:
        """What to sort by so that the worst comes first."""
        moving = self.row["state"] in REBALANCING_STATES
        return (
            -self.severity_level,
            -len(self.findings),
            not moving,
            -len(self.recent),
            -(self.row["lag"] or 0),
            self.name,
        )

    def matches(self, words: Sequence[str]) -> bool:
        """Whether each word is in what is said of it."""
        return all(word in self.search_text for word in words)


def fleet_group(
    row: GroupRow,
    recent: tuple[RecentRebalance, ...] = (),
    findings: Sequence[Event] = (),
    recent_since_ms: int = 0,
) -> FleetGroup:
    """A group from its row, with what a filter looks at."""
    said = [row["group"], row["group_type"], row["state"], row.get("cluster") or ""]
    said += [f"{event['analyzer']} {event['severity']}" for event in findings]
    said += ["stale"] if row.get("stale") else []
    return FleetGroup(row, recent, tuple(findings), " ".join(map(str, said)).lower(), recent_since_ms)


def _severity(event: Event) -> Severity:
    return Severity.of(event["severity"])


def worst_first(findings: Iterable[Event]) -> list[Event]:
    """Findings by what matters, then by how long they are open."""
    return sorted(findings, key=lambda it: (-_severity(it).rank, it["since_ms"]))


def severity_counts(findings: Iterable[Event]) -> list[tuple[str, str]]:
    """Severities with how many findings have them, as `critical` and `2 critical`; the worst first."""
    counts = Counter(map(_severity, findings))
    return [(str(it), f"{counts[it]:,} {it}") for it in reversed(Severity) if counts[it]]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All groups, what is open, and how the agent is, as of `at_ms` (epoch milliseconds).

    `version` stays the same for as long as nothing else changed.
    """

    at_ms: int
    version: str
    ready: Health
    groups: tuple[FleetGroup, ...]
    findings: tuple[Event, ...]
    drawn: dict[str, Markup] = field(default_factory=dict, compare=False)
    """Pieces of the page that follow from it alone, once somebody has asked for them."""
    _sorted: dict[str, tuple[FleetGroup, ...]] = field(default_factory=dict, compare=False)

    @property
    def partly_known(self) -> int:
        """Of how many groups there may have been more rebalances in the last hour."""
        return sum(not it.is_recent_whole(self.at_ms) for it in self.groups)

    def sorted_by(self, sort: str) -> tuple[FleetGroup, ...]:
        """The groups in an order of `SORTS`; `-` before it turns it around."""
        found = self._sorted.get(sort)
        if found is None:
            key = SORTS[sort.removeprefix("-")]
            found = self._sorted[sort] = _in_order(self.groups, key, backwards=sort.startswith("-"))
        return found

    def of_cluster(self, cluster: str, ready: Health) -> Fleet:
        """The groups and findings of one cluster, of which it is told whether they are whole and fresh."""
        groups = tuple(it for it in self.groups if it.cluster == cluster)
        findings = tuple(it for it in self.findings if it.get("cluster") == cluster)
        return Fleet(self.at_ms, self.version, ready, groups, findings)


def _in_order(
    groups: Iterable[FleetGroup], key: Callable[[FleetGroup], Any], *, backwards: bool
) -> tuple[FleetGroup, ...]:
    known = [it for it in groups if key(it) is not None]
    unknown = [it for it in groups if key(it) is None]
    # What is not known comes last either way.
    return (*sorted(known, key=key, reverse=backwards), *unknown)


SORTS: dict[str, Callable[[FleetGroup], Any]] = {
    "trouble": lambda it: it.severity_key,
    "group": lambda it: it.name,
    "state": lambda it: (it.row["state"], it.name),
    "members": lambda it: it.row["members"],
    "partitions": lambda it: it.row["partitions"],
    "lag": lambda it: it.row["lag"],
    "rebalances": lambda it: len(it.recent),
    "commit": lambda it: it.row["last_commit_ms"],
}
"""What groups can be sorted by. Numbers are wanted with the greatest first: see `agent.serving.page.home_page`."""


class FleetCache:
    """Keeps the newest picture of all groups, and makes another where that is due."""

    def __init__(self, agent: GroupQueries, wall_ms: Callable[[], int]) -> None:
        self._agent, self._wall_ms = agent, wall_ms
        self._token = token_hex(4)
        self._changes = 0
        self._fleet: Fleet | None = None
        self._made_at_s = 0.0
        self._took_s = 0.0
        self._making = threading.Lock()
        self._planning = threading.Lock()
        self._planned = -1.0
        """Which picture the one that is planned will be the next of."""

    def current(self) -> Fleet:
        """What is there, made anew if that is due."""
        fleet, age_s = self._fleet, time.monotonic() - self._made_at_s
        if fleet is not None and age_s < max(MIN_AGE_S, min(REST_FACTOR * self._took_s, MAX_AGE_S / 2)):
            return fleet
        if fleet is not None and age_s < MAX_AGE_S and self._took_s > REFRESH_INLINE_BELOW_S:
            self._refresh_soon()
            return fleet
        return self._refresh(self._made_at_s)

    def _refresh_soon(self) -> None:
        """In a moment, so that who asks has their answer first."""
        with self._planning:
            if self._planned != self._made_at_s:
                self._planned = self._made_at_s
                timer = threading.Timer(REFRESH_DELAY_S, self._refresh, (self._made_at_s,))
                timer.daemon = True
                timer.start()

    def _refresh(self, after_s: float) -> Fleet:
        with self._making:
            if self._fleet is not None and self._made_at_s > after_s:
                return self._fleet  # Somebody else made it meanwhile.
            began_s = time.monotonic()
            before, now_ms = self._fleet, self._wall_ms()
            fleet = build_fleet(self._agent, now_ms, before, self._version(self._changes))
            if before is not None and (before.groups, before.findings, before.ready) != (
                fleet.groups,
                fleet.findings,
                fleet.ready,
            ):
                self._changes += 1
                fleet = Fleet(fleet.at_ms, self._version(self._changes), fleet.ready, fleet.groups, fleet.findings)
            self._fleet, self._made_at_s = fleet, time.monotonic()
            self._took_s = self._made_at_s - began_s
            return fleet

    def _version(self, changes: int) -> str:
        return f"{self._token}-{changes}"


def build_fleet(agent: GroupQueries, now_ms: int, before: Fleet | None = None, version: str = "") -> Fleet:
    """The picture of now. Of groups that did not move since the one before, their rebalances are known from there."""
    ready = agent.ready()
    findings = worst_first(agent.findings())
    rows: list[dict[str, Any]] = agent.groups()
    # An agent alone may call its events' cluster by a name, and its rows by none.
    several = any("cluster" in row for row in rows)
    of_group: dict[Key, list[Event]] = {}
    for event in findings:
        if event["group"] is not None:
            of_group.setdefault((event["cluster"] if several else None, event["group"]), []).append(event)
    known = {} if before is None else {(it.cluster, it.name): it for it in before.groups}
    groups = []
    since_ms = now_ms - RECENT_MS
    for row in rows:
        key = (row.get("cluster"), row["group"])
        recent, recent_since_ms = _recent_rebalances(agent, row, known.get(key), since_ms)
        groups.append(fleet_group(row, recent, of_group.get(key, ()), recent_since_ms))
    return Fleet(now_ms, version, ready, tuple(groups), tuple(findings))


_CHANGE_FIELDS = ("rebalances", "generation", "state_since_ms")


def _recent_rebalances(
    agent: GroupQueries, row: GroupRow, before: FleetGroup | None, since_ms: int
) -> tuple[tuple[RecentRebalance, ...], int]:
    """Those since then, and from when on they are all."""
    if before is not None and all(row[it] == before.row[it] for it in _CHANGE_FIELDS):
        known = before.recent
        if known and known[0].at_ms < since_ms:
            known = known[bisect_left(known, (since_ms,)) :]
        return known, before.recent_since_ms
    if not row["rebalances"] or not may_have_rebalanced(row, since_ms):
        return (), 0
    cluster = row.get("cluster")
    # A supervised cluster names itself in its rows, and answers alone.
    queries = agent.of_cluster(cluster) if cluster in agent.capabilities.clusters else agent
    past = None if queries is None else queries.timeline(row["group"], since_ms)
    if past is None:
        return (), 0
    # Names of causes are few: kept once each, however many rebalances there are.
    found = tuple(
        RecentRebalance(event["at_ms"], intern(event["cause"]))
        for event in past.events
        if event["type"] == "rebalance"
    )
    # Where they are as many as there ever were, what was let go were other events.
    return found, 0 if len(found) == row["rebalances"] else past.complete_since_ms or 0


def causes_of(groups: Iterable[FleetGroup]) -> dict[str, list[int]]:
    """When each cause came lately, over all groups; the times of a cause in no order."""
    out: dict[str, list[int]] = {}
    for group in groups:
        for at_ms, cause in group.recent:
            out.setdefault(cause, []).append(at_ms)
    return out


def histogram(times_ms: Iterable[int], now_ms: int) -> list[int]:
    """How many of the times fall into each piece of the past."""
    counts = [0] * BINS
    for at_ms in times_ms:
        back = (now_ms - at_ms) * BINS // RECENT_MS
        if back < BINS:
            counts[BINS - 1 - max(back, 0)] += 1
    return counts
