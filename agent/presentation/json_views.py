"""Groups, members and offsets as the JSON of the contract: what the CLI prints and the HTTP API answers."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping

from agent.core.end_offsets import EndOffsets
from agent.core.queries import JsonObject
from agent.core.shadow.views import CommittedOffset, GroupView, Member
from agent.core.wire.primitives import ZERO_UUID

LagOf = Callable[[CommittedOffset], JsonObject]
"""What is known of the lag of a committed offset: all fields of `NO_LAG`."""

NO_LAG: JsonObject = {
    "lag": None,
    "lag_seconds": None,
    "lag_seconds_at_least": False,
    "lag_note": None,
    "log_start": None,
    "end": None,
    "held_back": None,
    "lost": None,
}
"""Of an offset whose lag is not known. Records, seconds (a bound, it may be more, if `at_least`), what is to be said
of it; where the partition starts and ends; records that an open transaction holds back, and that were lost unread."""


def group_json(view: GroupView, lag: int | None = None) -> JsonObject:
    """One row of `groups`. Times are epoch milliseconds; `generation` is the epoch in newer group types; `lag` is in
    records over all partitions, as far as known."""
    return {
        "group": view.group,
        "group_type": str(view.group_type),
        "state": str(view.state),
        "generation": view.generation,
        "protocol_type": view.protocol_type,
        "protocol": view.protocol,
        "members": len(view.members),
        "partitions": view.partitions,
        "committed_partitions": view.committed_partitions,
        "coordinator_partition": view.coordinator_partition,
        "state_since_ms": view.state_since_ms,
        "last_commit_ms": view.last_commit_ms,
        "lag": lag,
        "rebalances": view.rebalances,
        "generations_skipped": view.generations_skipped,
        "anomalies": len(view.anomalies),
    }


def describe_json(view: GroupView, offsets: tuple[CommittedOffset, ...], lag: LagOf | None = None) -> JsonObject:
    """All of a group: its row with `members` and `offsets` in full."""
    known = [NO_LAG if lag is None else lag(item) for item in offsets]
    records = [it["lag"] for it in known if it["lag"] is not None]
    form = group_json(view, sum(records) if records else None)
    form["leader"] = view.leader
    form["target_generation"] = view.target_generation
    form["members"] = [member_json(member) for member in view.members]
    form["offsets"] = [
        {
            "topic": item.topic,
            "partition": item.partition,
            "offset": item.offset,
            "committed_ms": item.committed_ms,
            **of_lag,
            "leader_epoch": item.leader_epoch,
            "metadata": item.metadata,
            "topic_id": item.topic_id,
        }
        for item, of_lag in zip(offsets, known, strict=True)
    ]
    form["anomalies"] = [
        {"kind": item.kind, "message": item.message, "offset": item.offset, "at_ms": item.at_ms}
        for item in view.anomalies
    ]
    return form


def member_json(member: Member) -> JsonObject:
    """A member with its timeouts (milliseconds), subscription and assignment."""
    form: JsonObject = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": list(member.subscription),
        "subscription_regex": member.subscription_regex,
        "assignment": _lists(member.assignment),
        "member_epoch": member.member_epoch,
        "uses_classic_protocol": member.uses_classic_protocol,
    }
    for name in ("target", "standby_tasks", "warmup_tasks"):
        value = getattr(member, name)
        if value is not None:
            form[name] = _lists(value)
    return form


def _lists(assignment: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.items())}


def lag_json(ends: EndOffsets, now_ms: int, *, are_newer: bool = False) -> LagOf:
    """For `describe_json`: the lag of each commit at `now_ms` (epoch milliseconds) by these ends.

    `are_newer`: the ends were asked for when the commits were there already.
    """

    def of(it: CommittedOffset) -> JsonObject:
        topic_id = ZERO_UUID if it.topic_id is None else urlsafe_b64decode(it.topic_id + "==")
        committed_ms = 0 if are_newer else it.committed_ms
        lag = ends.lag(it.topic, it.partition, it.offset, committed_ms, topic_id, now_ms)
        end = ends.end(it.topic, it.partition, now_ms)
        form = {
            **NO_LAG,
            "lag": lag.records,
            "lag_seconds": None if lag.seconds is None else round(lag.seconds, 3),
            "lag_seconds_at_least": lag.at_least,
            "lag_note": None if lag.note is None else str(lag.note),
        }
        if end is not None:
            form |= {"log_start": end.start, "end": end.end}
        if lag.records is not None:
            form |= {"held_back": lag.held_back, "lost": lag.lost}
        return form

    return of
