"""A group's past as swim lanes, as data: who was there when, how they went, and when work stopped.

A lane is a *seat*: an instance id, else a client id on a host. What comes back to it is drawn in it, whatever its
member id; several at once have a lane each. From the events of one group alone (`agent.core.events.events`), so
what the picture shows is what the history says. How to draw it is `agent.presentation.svg.swimlanes`'s.

Times are epoch milliseconds. Of a stop the history has partition time, summed over the partitions, and seldom its
beginning; see `Generation` for what is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.core.causes import TIMEOUT_CAUSES
from agent.presentation.narrative.events import Event, Rebalance, int_field, member_ref, parse_rebalance
from agent.presentation.narrative.phrases import EAGER
from agent.presentation.svg.issues import Issue, issues
from agent.presentation.svg.member_slots import Lane, MemberSlots, Span


class Generation(Struct, frozen=True):
    """One generation (or epoch) and the rebalance that began it: None for the one that was there before the range.

    `stopped_since_ms` and `share` spread stopped partition time over time: from the first partition that stood still
    (the last commit of who fell silent) to the end of the rebalance, that share of the partitions; None where it is
    not known. `paused_since_ms`: from about when on all of them waited, under an assignor that stops everybody; None
    where nobody knows.
    """

    generation: int | None
    since_ms: int
    members: int
    rebalance: Rebalance | None = None
    stopped_since_ms: int | None = None
    share: float | None = None
    paused_since_ms: int | None = None

    @property
    def cause(self) -> str | None:
        """What set its rebalance off."""
        return None if self.rebalance is None else self.rebalance.cause

    @property
    def stopped_ms(self) -> int | None:
        """Stopped partition time of its rebalance; None where it is not known."""
        return None if self.rebalance is None else self.rebalance.stopped_ms


class Lanes(Struct, frozen=True):
    """All of the picture. `lanes` are in order, the troubled first.

    In `empty_periods` nobody was in the group. `unnamed` members were there all the time and no event names them;
    `deleted_ms` is when the group went. Before `known_since_ms` nobody remembers what happened; None where all is
    known.
    """

    group: str | None
    group_type: str | None
    since_ms: int
    until_ms: int
    lanes: tuple[Lane, ...]
    generations: tuple[Generation, ...]
    empty_periods: tuple[Span, ...]
    issues: tuple[Issue, ...]
    unnamed: int = 0
    deleted_ms: int | None = None
    known_since_ms: int | None = None

    @property
    def rebalances(self) -> tuple[Generation, ...]:
        """The rounds that began within the range."""
        return tuple(it for it in self.generations if it.cause is not None)


def build_lanes(
    events: Sequence[Event],
    *,
    since_ms: int,
    until_ms: int,
    members: Sequence[Mapping[str, Any]] = (),
    generation: int | None = None,
    known_since_ms: int | None = None,
) -> Lanes:
    """The lanes of one group between two times, bounds included.

    `events` are its own in order; those before the range tell who was there when it began, those after it who was
    there at its end. `members` and `generation` are the group's as of the last of them (from `describe`), for who
    never came or went; without them such members are only counted. `known_since_ms`: from when on the events are all
    there are, where an agent has forgotten earlier ones.
    """
    until_ms = max(until_ms, since_ms)
    past = _Past()
    for event in events:
        past.take(event)
    seats, told = past.seats, past.rebalances
    seats.remain(member_ref(it) for it in members)
    known_ms = None if known_since_ms is None or known_since_ms <= since_ms else min(known_since_ms, until_ms)
    here = seats.lanes(since_ms if known_ms is None else known_ms, until_ms)
    counted = told[-1][1].members if told else 0
    first = events[0] if events else {}
    return Lanes(
        group=first.get("group"),
        group_type=first.get("group_type"),
        since_ms=since_ms,
        until_ms=until_ms,
        lanes=tuple(sorted(here, key=_lane_order)),
        generations=_generations(past, since_ms, until_ms, len(members), generation),
        empty_periods=_empty_periods(events, since_ms, until_ms),
        issues=issues(events, since_ms, until_ms),
        unnamed=0 if members else max(counted - seats.occupied, 0),
        deleted_ms=past.deleted_ms if since_ms <= (past.deleted_ms or 0) <= until_ms else None,
        known_since_ms=known_ms,
    )


class _Past:
    """What the events tell, one after another: who sat where, the rebalances, and how many partitions each generation
    gave out."""

    def __init__(self) -> None:
        self.seats = MemberSlots()
        self.rebalances: list[tuple[Event, Rebalance]] = []
        self.assigned_partitions: dict[tuple[int | None, int | None], int] = {}
        self.deleted_ms: int | None = None

    def take(self, event: Event) -> None:
        """The next of them."""
        seats = self.seats
        match event["type"]:
            case "rebalance":
                self._take_rebalance(event, parse_rebalance(event))
            case "member_left":
                seats.leave(member_ref(event["member"]), event["at_ms"], event["cause"], event["confidence"])
            case "member_joined":
                seats.join(member_ref(event["member"]), event["at_ms"])
            case "static_member_replaced":
                seats.replace(member_ref(event["old_member"]), member_ref(event["member"]), event["at_ms"])
            case "assignment_changed":
                self.assigned_partitions[_which(event)] = event["assigned_partitions"]
            case "group_deleted":
                seats.vacate_all(event["at_ms"])
                self.deleted_ms = event["at_ms"]

    def _take_rebalance(self, event: Event, done: Rebalance) -> None:
        self.rebalances.append((event, done))
        self.deleted_ms = None
        silent = _silent_since(done)
        for gone in done.left:
            self.seats.leave(gone.member, gone.at_ms, gone.cause, gone.confidence, silent.get(gone.member.member_id))
        for came in done.joined:
            self.seats.join(came, done.at_ms)


def _lane_order(lane: Lane) -> tuple[Any, ...]:
    # Who was thrown out most, then who went at all, in the order in which they first did: a deploy is a staircase.
    thrown = sum(gone.cause in TIMEOUT_CAUSES for gone in lane.departures)
    first = min([gone.at_ms for gone in lane.departures] or [*lane.replaced, *lane.joined], default=0)
    return -thrown, not lane.departures, lane.is_idle, first, _natural_key(lane.label)


def _natural_key(text: str) -> list[tuple[int, str]]:
    """`worker-2` before `worker-10`."""
    parts = re.split(r"([0-9]{1,15})", text)
    return [(int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)]


def _silent_since(done: Rebalance) -> dict[str, int]:
    """Since when those who were taken out had not committed, by member id."""
    out = {}
    for gone in done.left:
        gaps = [gap for it in gone.evidence if (gap := int_field(it, "gap_ms")) is not None and gap > 0]
        if gone.cause in TIMEOUT_CAUSES and gaps:
            out[gone.member.member_id] = done.at_ms - max(gaps)
    return out


def _which(event: Event) -> tuple[int | None, int | None]:
    """What tells a generation from another: its number, and where nothing tells that, when it was seen."""
    generation = event["generation"]
    return generation, event["at_ms"] if generation is None else None


def _had(rebalance: Rebalance) -> int:
    """Members before it."""
    return max(rebalance.members - len(rebalance.joined) + len(rebalance.left), 0)


def _generations(
    past: _Past, since_ms: int, until_ms: int, members: int, generation: int | None
) -> tuple[Generation, ...]:
    out: list[Generation] = []
    told = past.rebalances
    before = [it for _, it in told if it.at_ms < since_ms]
    within = [(event, it) for event, it in told if since_ms <= it.at_ms <= until_ms]
    first = within[0][1] if within else None
    if before:
        out.append(Generation(before[-1].generation, since_ms, before[-1].members))
    elif first is not None and (first.previous_generation or (within[0][0].get("sampled") and _had(first))):
        out.append(Generation(first.previous_generation, since_ms, _had(first)))
    elif not told and generation is not None and generation >= 0 and members:
        out.append(Generation(generation, since_ms, members))
    partitions = 0
    for event, it in within:
        partitions = past.assigned_partitions.get(_which(event)) or partitions
        out.append(Generation(it.generation, it.at_ms, it.members, it, *_standstill(event, it, partitions)))
    return tuple(out)


def _standstill(event: Event, rebalance: Rebalance, partitions: int) -> tuple[int | None, float | None, int | None]:
    """Since when some stood still, what share of the partitions on average, and since when all did."""
    joining, syncing = event.get("join_ms"), event.get("sync_ms")
    took = (joining or 0) + (syncing or 0) if isinstance(joining, int) else None
    if not rebalance.stopped_ms or not partitions:
        return None, None, None
    silent = [rebalance.at_ms - since for since in _silent_since(rebalance).values()]
    mean = rebalance.stopped_ms / partitions
    lasted = max([took or 0, *silent, mean])
    pause = took
    if pause is None:
        # The silent had about a fair share each, for as long as they were silent; the rest waited for the rebalance.
        had = max(rebalance.members - len(rebalance.joined) + len(rebalance.left), 1)
        rest = rebalance.stopped_ms - sum(silent) * partitions / had
        others = partitions * (1 - len(silent) / had)
        pause = round(rest / others) if others > 0 and rest > 0 else None
    is_first = rebalance.previous_generation in (None, 0) and not (event.get("sampled") and _had(rebalance))
    stops_all = rebalance.protocol in EAGER and not is_first
    paused = rebalance.at_ms - pause if pause and stops_all else None
    return rebalance.at_ms - round(lasted), min(mean / lasted, 1.0), paused


def _empty_periods(events: Sequence[Event], since_ms: int, until_ms: int) -> tuple[Span, ...]:
    out: list[Span] = []
    since: int | None = None

    def end(at_ms: int) -> None:
        nonlocal since
        if since is not None and at_ms > since_ms and since < until_ms and at_ms > since:
            out.append(Span(max(since, since_ms), min(at_ms, until_ms)))
        since = None

    for event in events:
        nobody = event["type"] == "group_emptied" or (event["type"] == "rebalance" and not event["members"])
        if nobody:
            since = event["at_ms"] if since is None else since
        elif event["type"] in ("rebalance", "group_deleted"):
            end(event["at_ms"])
    end(until_ms)
    return tuple(out)
