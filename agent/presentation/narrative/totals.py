"""The numbers of a range: rebalances and departures by cause, what they cost, and for how long nobody was there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.presentation.narrative.events import Departure, Rebalance
from agent.presentation.narrative.timeline import TimelineEntry


class Totals(Struct, frozen=True):
    """What the lines of a range add up to. Times are milliseconds; None where it is not known.

    `stopped_ms` sums the rebalances whose cost is known: beside `rebalances_of_unknown_cost` it is the least that
    they cost. `stopped_share` is its part of all that the group's partitions could have worked in `with_members_ms`,
    the part of the range in which it had any.
    """

    rebalances: tuple[Rebalance, ...]
    causes: Mapping[str, int]
    departures: tuple[Departure, ...]
    joins: int
    never_completed: int
    stopped_ms: int | None
    rebalances_of_unknown_cost: int
    costliest: Rebalance | None
    partitions: int | None
    with_members_ms: int
    stopped_share: float | None
    empty_ms: int

    def to_json(self) -> dict[str, Any]:
        """As the JSON that `kshadow explain -o json` prints."""
        origins = Counter(gone.member.origin.kind for gone in self.departures if gone.member.origin is not None)
        return {
            "rebalances": len(self.rebalances),
            "rebalances_by_cause": dict(self.causes),
            "joined": self.joins,
            "left": len(self.departures),
            "left_by_cause": dict(Counter(gone.cause for gone in self.departures)),
            **({"left_by_origin": dict(origins)} if origins else {}),
            "never_completed": self.never_completed,
            "stopped_partition_ms": self.stopped_ms,
            "rebalances_of_unknown_cost": self.rebalances_of_unknown_cost,
            "stopped_share": None if self.stopped_share is None else round(self.stopped_share, 6),
            "dearest_stopped_partition_ms": None if self.costliest is None else self.costliest.stopped_ms,
            "partitions": self.partitions,
            "empty_ms": self.empty_ms,
        }


def totals_of(entries: Sequence[TimelineEntry], partitions_now: int, since_ms: int, until_ms: int) -> Totals:
    """The sums of what lies between two times. `partitions_now` are those that its members hold now."""
    done = tuple(entry.rebalance for entry in entries if entry.rebalance is not None)
    causes = Counter(it.cause for it in done)
    known = [it for it in done if it.stopped_ms is not None]
    stopped = sum(it.stopped_ms or 0 for it in known) if known else None
    assigned = [
        event["assigned_partitions"]
        for entry in entries
        for event in entry.events
        if event["type"] == "assignment_changed"
    ]
    partitions = max([partitions_now, *assigned]) or None
    empty_ms, gone_ms = _without_members_ms(entries, since_ms, until_ms)
    with_members_ms = max(until_ms - since_ms - empty_ms - gone_ms, 0)
    share = None
    if stopped is not None and partitions is not None and with_members_ms:
        share = stopped / (partitions * with_members_ms)
    return Totals(
        rebalances=done,
        causes=dict(causes.most_common()),
        departures=tuple(gone for it in done for gone in it.left),
        joins=sum(len(it.joined) for it in done),
        never_completed=sum(_never_completed(it) for it in done),
        stopped_ms=stopped,
        rebalances_of_unknown_cost=sum(it.is_cost_unknown for it in done),
        costliest=max(known, key=lambda it: it.stopped_ms or 0, default=None),
        partitions=partitions,
        with_members_ms=with_members_ms,
        stopped_share=share,
        empty_ms=empty_ms,
    )


def _never_completed(done: Rebalance) -> int:
    return sum(
        item["never_completed"]
        for item in done.evidence
        if item.get("kind") == "generation_gap" and isinstance(item.get("never_completed"), int)
    )


def _without_members_ms(entries: Sequence[TimelineEntry], since_ms: int, until_ms: int) -> tuple[int, int]:
    """For how long the group had no member, and for how long it was not there, as far as the lines tell.

    It counts as not there before the members came of whom the lines tell first, if all came at once: the group was
    made then, or nothing is known of it from before. What does not exist is not idle, so that is told apart.
    """
    first = next(
        (entry.rebalance for entry in entries if entry.label == "emptied" or entry.rebalance is not None), None
    )
    is_new = first is not None and not first.left and len(first.joined) == first.members > 0
    spent = Counter[str]()
    state, at_ms = "gone" if is_new else "there", since_ms
    for entry in entries:
        if entry.label == "deleted":
            now = "gone"
        elif entry.rebalance is None:
            now = "empty" if entry.label == "emptied" and state == "there" else state
        elif entry.rebalance.members == 0:
            now = "empty"
        else:
            now = "there"
        if now != state:
            spent[state] += max(entry.at_ms - at_ms, 0)
            state, at_ms = now, max(entry.at_ms, at_ms)
    spent[state] += max(until_ms - at_ms, 0)
    return spent["empty"], spent["gone"]
