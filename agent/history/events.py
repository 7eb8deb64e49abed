"""Transitions to history events: flat, JSON-ready, with an id that is the same on every replay of the same log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from agent.shadow import transitions as t
from agent.shadow.causes import Cause, Departure
from agent.shadow.views import Member
from analyzers.api import Finding

SCHEMA = 1

Event = dict[str, Any]


def event_of(transition: t.Transition | Finding, cluster: str | None = None) -> Event:
    """One transition or finding as an event: the common fields, then the type's own in a fixed order.

    Times are epoch milliseconds; `partition` and `offset` are those of the record in `__consumer_offsets` that
    shows the change.
    """
    at = transition.at
    return {
        "schema": SCHEMA,
        "event_id": event_id(transition),
        "type": transition.kind,
        "cluster": cluster,
        "group": transition.group,
        "group_type": None if transition.group_type is None else str(transition.group_type),
        "at_ms": at.timestamp_ms,
        "partition": at.partition,
        "offset": at.offset,
        **_FIELDS[type(transition)](transition),
    }


def event_id(transition: t.Transition | Finding) -> str:
    """`<partition>-<offset>-<hash>`: where the event is in the log, and a hash of what makes it this event.

    Of the record only its place, its time and its group go in, not the cluster's name (which is what the reader
    calls it): so files and a live topic give the same ids, and two clusters still differ.
    """
    at = transition.at
    parts = (transition.kind, transition.group or "", str(at.timestamp_ms), _subject(transition))
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{at.partition}-{at.offset}-{digest}"


def _subject(transition: t.Transition | Finding) -> str:
    # What tells apart events of one type that one record shows.
    match transition:
        case t.MemberJoined() | t.MemberLeft():
            return transition.member.member_id
        case t.StaticMemberReplaced():
            return transition.new.member_id
        case Finding():
            return f"{transition.analyzer} {transition.state} {transition.severity}"
        case _:
            return ""


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events of several partitions in the order of the contract: time, partition, offset.

    The sort is stable, so events of one record stay as the mirror gave them.
    """
    return sorted(events, key=lambda event: (event["at_ms"], event["partition"], event["offset"]))


def member_form(member: Member) -> dict[str, Any]:
    """What an event says of a member."""
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
    }


def _departure(departure: Departure | None) -> Event:
    if departure is None:
        return {"cause": str(Cause.UNKNOWN_DEPARTURE), "confidence": 0.0}
    return {"cause": str(departure.cause), "confidence": departure.confidence}


def _rebalance(it: t.Rebalanced) -> Event:
    inferred = it.inferred
    return {
        "generation": it.generation,
        "previous_generation": it.previous_generation,
        "cause": str(inferred.cause),
        "causes": [str(cause) for cause in inferred.causes],
        "confidence": round(inferred.confidence, 3),
        "evidence": list(inferred.evidence),
        "observed": it.observed,
        "joined": [member_form(member) for member in it.joined],
        "left": [
            {**member_form(member), **_departure(inferred.departures.get(member.member_id))} for member in it.left
        ],
        "protocol": it.protocol,
        "members": it.members,
        "sync_ms": it.sync_ms,
        "join_ms": it.join_ms,
        "stopped_partition_ms": it.stopped_partition_ms,
    }


_FIELDS: dict[type[t.Transition | Finding], Callable[[Any], Event]] = {
    t.GroupCreated: lambda it: {"observed": it.observed},
    t.Rebalanced: _rebalance,
    t.MemberJoined: lambda it: {"generation": it.generation, "member": member_form(it.member)},
    t.MemberLeft: lambda it: {
        "generation": it.generation,
        "member": member_form(it.member),
        **_departure(it.inferred),
    },
    t.StaticMemberReplaced: lambda it: {
        "generation": it.generation,
        "old_member": member_form(it.old),
        "member": member_form(it.new),
    },
    t.AssignmentChanged: lambda it: {
        "generation": it.generation,
        "assigned_partitions": it.assigned,
        "gained_partitions": it.gained,
        "lost_partitions": it.lost,
        "imbalance_ratio": None if it.imbalance_ratio is None else round(it.imbalance_ratio, 4),
    },
    t.GroupEmptied: lambda it: {"generation": it.generation},
    t.GroupDeleted: lambda it: {},
    t.OffsetsDeleted: lambda it: {
        "topic": it.topic,
        "topic_partition": it.topic_partition,
        "committed_offset": it.committed_offset,
    },
    Finding: lambda it: {
        "analyzer": it.analyzer,
        "severity": str(it.severity),
        "state": str(it.state),
        "since_ms": it.since_ms,
        "summary": it.summary,
        "advice": it.advice,
        "numbers": dict(it.numbers),
    },
}
