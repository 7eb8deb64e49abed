"""Groups, members and offsets as the JSON of the contract: what the CLI prints and the HTTP API answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.shadow.views import CommittedOffset, GroupView, Member

Form = dict[str, Any]

Lag = Callable[[str, int], int | None]
"""The lag in records of a topic's partition; None where it is not known."""


def group_form(view: GroupView) -> Form:
    """One row of `groups`. Times are epoch milliseconds; `generation` is the epoch in newer group types."""
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
        "rebalances": view.rebalances,
        "generations_skipped": view.generations_skipped,
        "anomalies": len(view.anomalies),
    }


def describe_form(view: GroupView, offsets: tuple[CommittedOffset, ...], lag: Lag | None = None) -> Form:
    """All of a group: its row with `members` and `offsets` in full."""
    form = group_form(view)
    form["leader"] = view.leader
    form["target_generation"] = view.target_generation
    form["members"] = [member_form(member) for member in view.members]
    form["offsets"] = [
        {
            "topic": item.topic,
            "partition": item.partition,
            "offset": item.offset,
            "committed_ms": item.committed_ms,
            "lag": lag(item.topic, item.partition) if lag is not None else None,
            "leader_epoch": item.leader_epoch,
            "metadata": item.metadata,
            "topic_id": item.topic_id,
        }
        for item in offsets
    ]
    form["anomalies"] = [
        {"kind": item.kind, "message": item.message, "offset": item.offset, "at_ms": item.at_ms}
        for item in view.anomalies
    ]
    return form


def member_form(member: Member) -> Form:
    """A member with its timeouts (milliseconds), subscription and assignment."""
    form: Form = {
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
