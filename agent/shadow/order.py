"""What happened first in a rebalance, and how each member went: every order of events weighed against the log.

A rebalance begins with a trigger: a member comes, or goes, or a cooperative round follows, or a member that stays
asks for it. It ends when the last of those who stay has noticed and rejoined, or when the last that has to be waited
for is given up. When it began is not written. So each moment at which it may have begun is weighed: by the commits
of those who stay (clients commit as they give up their partitions, and later ones have not noticed yet), by how long
members take to notice, and by when each departed member will have gone in each way (`agent.shadow.ways`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from math import exp, log

from agent.shadow.inference import Cause
from agent.shadow.sums import ALIKE, Cell, Reading, Row, Sums, add_alike
from agent.shadow.ways import HEARTBEAT_MS, MOMENT_MS, RESTART_MS, Ways, mass, returns

COMMITS_AS_IT_REVOKES = 0.85
"""How many clients commit as they give up their partitions."""

IN_TIME = 0.94
"""How many notice a rebalance within a heartbeat interval; the others are busy, for `BUSY_MS` in the mean."""

BUSY_MS = 5_000

DAWDLES = 0.01
"""How many take long to rejoin once they have given up their partitions."""

LATE_MS = 200
"""How much later than a heartbeat interval a heartbeat may come."""

SLOWER = 0.15
"""How many notice later than members of the group have so far, but within the default."""

FOLLOWS = 0.92
"""How many rounds that left partitions without an owner are followed by another at once."""

FOLLOWS_MS = 400
"""How long it takes a member to give up what it has to, and to join again."""

REPLACED = 3.0
"""How much more often, where one goes and one comes, the one that comes replaces the one that went."""

EARLIER = 3.0
"""How much more often the client of a dead member is started again before its session runs out than right after."""

LEAST = 1e-9
"""For what should not be, so that it is never impossible."""

NARROW_MS = 200
"""Windows as narrow as this are moments: time is cut there, to tell before from after."""

UNLIKELY = 1e-7
"""Beginnings so much less likely than the likeliest are not looked into."""

BEGINNINGS = 8
"""The likeliest so many are kept for members that are not weighed with the others."""

SAMPLE = 24
"""The commits of so many members that stay tell as much as those of all."""


@dataclass(frozen=True, slots=True)
class Stayer:
    """The last commit of a member that stays (None: none), and how often it commits."""

    last_ms: int | None
    every_ms: int | None


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of one rebalance.

    `comers` are the members that came, without those whose client was there before; `returned` is for whom of those
    who went the same client is back. `asked`: someone who stays had a reason to ask. `emptied`: nobody is left.
    `notice_ms` is how long members of the group take to notice a rebalance, as far as is known.
    """

    since_ms: int | None
    end_ms: int
    ways: Sequence[Ways]
    returned: Sequence[bool]
    comers: int
    stayers: Sequence[Stayer]
    withheld: bool
    asked: bool
    cooperative: bool
    emptied: bool
    longest_ms: int
    notice_ms: int


def read(scene: Scene) -> Reading:
    """Weigh every order of events."""
    reading = Reading([dict.fromkeys(ways, 0.0) for ways in scene.ways])
    cells = list(_cells(scene))
    lasts = _sample(scene)
    prior = [_log_of_those_who_stayed(scene, lasts, cell.middle) for cell in cells]
    most = max(prior)
    for cell, logged in zip(cells, prior, strict=True):
        base = exp(logged - most)
        if base < UNLIKELY:
            continue
        before = reading.weight
        _weigh(scene, lasts, cell, base * (cell.high - cell.low), reading)
        reading.began.append((reading.weight - before, cell))
    if scene.emptied:
        _weigh_the_last(scene, reading, exp(prior[-1] - most))
    if reading.weight > 0:
        for each in (*reading.how, reading.went):
            for cause in each:
                each[cause] /= reading.weight
        reading.joined /= reading.weight
        reading.followed /= reading.weight
        reading.asked /= reading.weight
    reading.began = nlargest(BEGINNINGS, reading.began, key=lambda it: it[0])
    return reading


def read_more(scene: Scene, reading: Reading, ways: Ways) -> dict[Cause, float]:
    """How one more member went, that was not weighed with the others: given when it began, and how they went."""
    share = dict.fromkeys(ways, 0.0)
    for weight, cell in reading.began:
        for cause, times in ways.items():
            alike = sum(how.get(cause, 0.0) for how in reading.how) / len(reading.how)
            share[cause] += weight * mass(times, cell.low - MOMENT_MS, scene.end_ms + MOMENT_MS) * (alike + 1 - ALIKE)
    total = sum(share.values())
    return {cause: part / total for cause, part in share.items()} if total else share


def _cells(scene: Scene) -> Iterator[Cell]:
    """Fine near the end, coarse far from it, and cut where something may have happened."""
    end = scene.end_ms
    first = end - scene.longest_ms - 10_000
    if scene.since_ms is not None:
        first = max(first, min(scene.since_ms, end) - MOMENT_MS)
    cuts = {float(first), float(end), end - MOMENT_MS}
    step, back = 200.0, 0.0
    while end - back > first:
        cuts.add(end - back)
        back += step
        if back >= 4_000:
            step *= 1.2
    if scene.withheld and scene.since_ms is not None:
        cuts.add(scene.since_ms + FOLLOWS_MS)
    for stayer in scene.stayers[:SAMPLE]:
        if stayer.last_ms is not None:
            cuts.add(stayer.last_ms)
    for ways in scene.ways:
        for window in (window for times in ways.values() for window in times):
            if window.high - window.low <= NARROW_MS:
                cuts.update((window.low, window.high))
    ordered = sorted(at for at in cuts if first <= at <= end)
    for low, high in pairwise(ordered):
        yield Cell(low, high)


def _sample(scene: Scene) -> list[tuple[int, int]]:
    """Last commit and pause of those who stay and commit, spread evenly if they are many."""
    known = sorted((it.last_ms, it.every_ms or HEARTBEAT_MS) for it in scene.stayers if it.last_ms is not None)
    step = max(len(known) / SAMPLE, 1)
    return [known[int(index * step)] for index in range(min(len(known), SAMPLE))]


def _notices(scene: Scene, after_ms: float) -> float:
    """The density, a millisecond, of how long a member takes to notice and rejoin."""
    density = (1 - IN_TIME) * exp(-after_ms / BUSY_MS) / BUSY_MS
    if after_ms <= HEARTBEAT_MS + LATE_MS:
        density += IN_TIME * SLOWER / HEARTBEAT_MS
    if after_ms <= scene.notice_ms + LATE_MS:
        density += IN_TIME * (1 - SLOWER) / scene.notice_ms
    return density


def _noticed(scene: Scene, after_ms: float) -> float:
    """How many have noticed by then."""
    after_ms = max(after_ms, 0.0)
    in_time = SLOWER * min(after_ms / HEARTBEAT_MS, 1.0) + (1 - SLOWER) * min(after_ms / scene.notice_ms, 1.0)
    return IN_TIME * in_time + (1 - IN_TIME) * (1 - exp(-after_ms / BUSY_MS))


def _log_of_those_who_stayed(scene: Scene, lasts: Sequence[tuple[int, int]], began: float) -> float:
    """How well their last commits fit, if the rebalance began then. Cooperative members commit throughout."""
    if scene.cooperative:
        return 0.0
    total = 0.0
    for last, every in lasts:
        if last >= began:
            fits = COMMITS_AS_IT_REVOKES * _notices(scene, last - began)
        else:
            fits = (1 - COMMITS_AS_IT_REVOKES) / every * (1.0 if began - last <= every else 0.1)
        total += log(max(fits, LEAST))
    return total


def _all_there(scene: Scene, lasts: Sequence[tuple[int, int]], began: float) -> tuple[float, float]:
    """The density of the last one's rejoin at the end, and how probable it is that all had rejoined before."""
    end = scene.end_ms
    if not scene.stayers:
        # New members join at once.
        return (0.0 if scene.emptied else LEAST), 1.0
    known = 0 if scene.cooperative else sum(last >= began for last, _ in lasts)
    if known and lasts[-1][0] >= end - 2 * MOMENT_MS:
        return 1 / (2 * MOMENT_MS), LEAST
    others = len(scene.stayers) - known
    before = _noticed(scene, end - began) ** max(others, 0)
    if others <= 0:
        # They had all given up their partitions, and still someone took long.
        return DAWDLES / BUSY_MS, before
    return others * _notices(scene, end - began) * _noticed(scene, end - began) ** (others - 1), before


def _weigh(scene: Scene, lasts: Sequence[tuple[int, int]], cell: Cell, base: float, reading: Reading) -> None:
    """Add the orders that begin in one stretch of time."""
    end, began = scene.end_ms, cell.middle
    by_stayers, by_waiting = _all_there(scene, lasts, began)
    lasted = max(end - (scene.since_ms if scene.since_ms is not None else cell.low), 1_000.0)
    share = (end - began + MOMENT_MS) / lasted
    still = base * (1 - FOLLOWS if scene.withheld else 1.0)
    came = share**scene.comers
    rows = _rows(scene, cell.low, cell.high)
    joined = still * scene.comers / lasted * share ** max(scene.comers - 1, 0)
    followed = base * FOLLOWS / FOLLOWS_MS * came if _follows(scene, began) else 0.0
    asked = still / lasted * came if scene.asked else 0.0
    if other := joined + followed + asked:
        total = add_alike(rows, Sums(other * by_stayers, 0.0, other * by_waiting, 0.0), reading)
        reading.joined += total * joined / other
        reading.followed += total * followed / other
        reading.asked += total * asked / other
    if any(scene.returned):
        # The client of a dead member may be back before its session has run out.
        again = EARLIER * still * came * (share * lasted / RESTART_MS) ** (sum(scene.returned) - 1) / RESTART_MS
        weights = Sums(again * by_stayers, 0.0, again * by_waiting, 0.0)
        reading.joined += add_alike(_rows(scene, cell.low, cell.high, before=True), weights, reading)
    went = still * came * (REPLACED if scene.comers else 1.0)
    add_alike(rows, Sums(0.0, went * by_stayers, 0.0, went * by_waiting), reading)


def _weigh_the_last(scene: Scene, reading: Reading, base: float) -> None:
    """Add that a member went and nobody was left to notice: the rebalance was over as it began."""
    rows = _rows(scene, scene.end_ms - MOMENT_MS, scene.end_ms + MOMENT_MS)
    add_alike(rows, Sums(0.0, base, 0.0, 0.0), reading)


def _rows(scene: Scene, low: float, high: float, *, before: bool = False) -> list[list[Row]]:
    """For each that went, for each way: what a rebalance that began between `low` and `high` makes of it. `before`:
    whose client is back was back by then."""
    end = scene.end_ms
    left = max(end - (low + high) / 2, MOMENT_MS)
    rows = []
    for ways, returned in zip(scene.ways, scene.returned, strict=True):
        of_one = []
        for cause, times in ways.items():
            dies = cause in (Cause.SESSION_TIMEOUT, Cause.UNKNOWN_DEPARTURE)
            if returned and before and not dies:
                continue
            within = mass(times, low - MOMENT_MS, end + MOMENT_MS)
            if not within:
                continue
            then = mass(times, low, high) / (high - low)
            last = mass(times, end - MOMENT_MS, end + MOMENT_MS) / (2 * MOMENT_MS)
            if not dies and cause is not Cause.POLL_TIMEOUT:
                # As long as it lives it rejoins like the others, and is waited for no more.
                last *= 1 - _noticed(scene, left)
            if returned and not before:
                # It came back after it went; only one that dies may do so earlier.
                then *= returns(cause, left)
                within *= returns(cause, left if dies else left / 2)
                last *= returns(cause, left) if dies else 0.0
            of_one.append(Row(cause, then, within, last))
        rows.append(of_one)
    return rows


def _follows(scene: Scene, began: float) -> bool:
    return scene.withheld and (scene.since_ms is None or began <= scene.since_ms + FOLLOWS_MS)
