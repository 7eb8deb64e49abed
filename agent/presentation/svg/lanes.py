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
from dataclasses import dataclass
from typing import Any

from agent.core.causes import TIMEOUT_CAUSES
from agent.presentation.narrative.events import Event, MemberRef, Rebalance, int_field, member_ref, parse_rebalance
from agent.presentation.narrative.phrases import EAGER
from agent.presentation.svg.issues import Issue, issues
from agent.presentation.svg.member_slots import Lane, MemberSlots


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation (or epoch) and the rebalance that began it.

    `cause` is None for the one that was there before the range. `stopped_ms` is stopped partition time, None where it
    is not known. `stopped_since_ms` and `share` spread it over time: from the first partition that stood still (the
    last commit of who fell silent) to the end of the rebalance, that share of the partitions. `paused_since_ms`: from
    about when on all of them waited, under an assignor that stops everybody; None where nobody knows.
    """

    generation: int
    since_ms: int
    until_ms: int
    members: int
    cause: str | None = None
    causes: tuple[str, ...] = ()
    confidence: float = 1.0
    observed: bool = False
    joined: tuple[MemberRef, ...] = ()
    left: tuple[tuple[MemberRef, str, float], ...] = ()
    stopped_ms: int | None = None
    stopped_since_ms: int | None = None
    share: float | None = None
    paused_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EmptyPeriod:
    """Nobody was in the group."""

    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Lanes:
    """All of the picture. `lanes` are in order, the troubled first.

    `unnamed` members were there all the time and no event names them; `deleted_ms` is when the group went. Before
    `known_since_ms` nobody remembers what happened; None where all is known.
    """

    group: str | None
    group_type: str | None
    since_ms: int
    until_ms: int
    lanes: tuple[Lane, ...]
    generations: tuple[Generation, ...]
    empty_periods: tuple[EmptyPeriod, ...]
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
    seats = MemberSlots()
    told: list[tuple[Event, Rebalance]] = []
    assigned: dict[int, int] = {}
    deleted: int | None = None
    for event in events:
        match event["type"]:
            case "rebalance":
                done = parse_rebalance(event)
                told.append((event, done))
                silent = _silent_since(done)
                for gone in done.left:
                    seats.leave(
                        gone.member, gone.at_ms, gone.cause, gone.confidence, silent.get(gone.member.member_id)
                    )
                for came in done.joined:
                    seats.join(came, done.at_ms)
                deleted = None
            case "member_left":
                seats.leave(member_ref(event["member"]), event["at_ms"], event["cause"], event["confidence"])
            case "member_joined":
                seats.join(member_ref(event["member"]), event["at_ms"])
            case "static_member_replaced":
                seats.replace(member_ref(event["old_member"]), member_ref(event["member"]), event["at_ms"])
            case "assignment_changed":
                assigned[event["generation"]] = event["assigned_partitions"]
            case "group_deleted":
                seats.vacate_all(event["at_ms"])
                deleted = event["at_ms"]
    seats.remain(member_ref(it) for it in members)
    rounds = _generations(told, events, assigned, since_ms, until_ms, len(members), generation)
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
        generations=rounds,
        empty_periods=_empty_periods(events, since_ms, until_ms),
        issues=issues(events, since_ms, until_ms),
        unnamed=0 if members else max(counted - seats.occupied, 0),
        deleted_ms=deleted if deleted is not None and since_ms <= deleted <= until_ms else None,
        known_since_ms=known_ms,
    )


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


def _generations(
    told: Sequence[tuple[Event, Rebalance]],
    events: Sequence[Event],
    assigned: Mapping[int, int],
    since_ms: int,
    until_ms: int,
    members: int,
    generation: int | None,
) -> tuple[Generation, ...]:
    out: list[Generation] = []
    before = [it for _, it in told if it.at_ms < since_ms]
    within = [(event, it) for event, it in told if since_ms <= it.at_ms <= until_ms]
    first = within[0][1].at_ms if within else until_ms
    if before:
        out.append(Generation(before[-1].generation, since_ms, first, before[-1].members))
    elif within and within[0][1].previous_generation:
        it = within[0][1]
        out.append(
            Generation(
                it.previous_generation or 0, since_ms, first, max(it.members - len(it.joined) + len(it.left), 0)
            )
        )
    elif not told and generation is not None and generation >= 0 and members:
        out.append(Generation(generation, since_ms, until_ms, members))
    partitions = 0
    for at, (event, it) in enumerate(within):
        partitions = assigned.get(it.generation) or partitions
        ends = within[at + 1][1].at_ms if at + 1 < len(within) else until_ms
        out.append(_generation(event, it, ends, partitions))
    return tuple(out)


def _generation(event: Event, rebalance: Rebalance, until_ms: int, partitions: int) -> Generation:
    stopped_since, share, paused = _standstill(event, rebalance, partitions)
    return Generation(
        generation=rebalance.generation,
        since_ms=rebalance.at_ms,
        until_ms=until_ms,
        members=rebalance.members,
        cause=rebalance.cause,
        causes=rebalance.causes,
        confidence=rebalance.confidence,
        observed=rebalance.observed,
        joined=rebalance.joined,
        left=tuple((gone.member, gone.cause, gone.confidence) for gone in rebalance.left),
        stopped_ms=rebalance.stopped_ms,
        stopped_since_ms=stopped_since,
        share=share,
        paused_since_ms=paused,
    )


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
    stops_all = rebalance.protocol in EAGER and rebalance.previous_generation not in (None, 0)
    paused = rebalance.at_ms - pause if pause and stops_all else None
    return rebalance.at_ms - round(lasted), min(mean / lasted, 1.0), paused


def _empty_periods(events: Sequence[Event], since_ms: int, until_ms: int) -> tuple[EmptyPeriod, ...]:
    out: list[EmptyPeriod] = []
    since: int | None = None

    def end(at_ms: int) -> None:
        nonlocal since
        if since is not None and at_ms > since_ms and since < until_ms and at_ms > since:
            out.append(EmptyPeriod(max(since, since_ms), min(at_ms, until_ms)))
        since = None

    for event in events:
        nobody = event["type"] == "group_emptied" or (event["type"] == "rebalance" and not event["members"])
        if nobody:
            since = event["at_ms"] if since is None else since
        elif event["type"] in ("rebalance", "group_deleted"):
            end(event["at_ms"])
    end(until_ms)
    return tuple(out)
