"""Events as the history has them, made field by field."""

from __future__ import annotations

from itertools import count
from typing import Any

T0 = 1_790_000_000_000
"""2026-09-21 14:13:20 UTC."""
SECOND = 1_000
MINUTE = 60_000
DAY = 86_400_000

Event = dict[str, Any]
_offsets = count()


def event(
    kind: str, at_ms: int = T0, *, group: str | None = "g", group_type: str | None = "classic", **own: Any
) -> Event:
    offset = next(_offsets)
    return {
        "schema": 1,
        "event_id": f"7-{offset}-0",
        "type": kind,
        "cluster": None,
        "group": group,
        "group_type": group_type,
        "at_ms": at_ms,
        "partition": 7,
        "offset": offset,
        **own,
    }


def member(
    client: str, number: int = 1, *, host: str = "/10.0.0.1", instance_id: str | None = None
) -> dict[str, Any]:
    return {
        "member_id": f"{client}-{number}",
        "client_id": client,
        "client_host": host,
        "instance_id": instance_id,
    }


def gone(client: str, cause: str, confidence: float = 0.97, **more: Any) -> dict[str, Any]:
    return {**member(client, **more), "cause": cause, "confidence": confidence}


def gap(client: str, gap_ms: int | None, **more: Any) -> dict[str, Any]:
    return {
        "kind": "commit_gap",
        "member_id": f"{client}-1",
        "gap_ms": gap_ms,
        "commits_every_ms": 1_000,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 300_000,
        **more,
    }


def rebalance(
    generation: int,
    cause: str = "member_joined",
    at_ms: int = T0,
    *,
    confidence: float = 1.0,
    evidence: list[Any] | None = None,
    observed: bool = False,
    joined: list[Any] | None = None,
    left: list[Any] | None = None,
    members: int = 2,
    stopped_ms: int | None = 0,
    protocol: str | None = "range",
    **more: Any,
) -> Event:
    return event(
        "rebalance",
        at_ms,
        generation=generation,
        previous_generation=generation - 1,
        cause=cause,
        causes=[cause],
        confidence=confidence,
        evidence=evidence or [],
        observed=observed,
        joined=joined or [],
        left=left or [],
        protocol=protocol,
        members=members,
        sync_ms=5,
        join_ms=None,
        stopped_partition_ms=stopped_ms,
        **more,
    )


def finding(
    analyzer: str = "rebalance_storm",
    at_ms: int = T0,
    *,
    state: str = "firing",
    severity: str = "warning",
    since_ms: int | None = None,
    summary: str = "too many rebalances",
    advice: str = "find out who leaves",
    **more: Any,
) -> Event:
    return event(
        "finding",
        at_ms,
        analyzer=analyzer,
        severity=severity,
        state=state,
        since_ms=at_ms if since_ms is None else since_ms,
        summary=summary,
        advice=advice,
        numbers={"rebalances": 14},
        **more,
    )


def form(**changed: Any) -> dict[str, Any]:
    """A describe form, as far as the story looks at it."""
    return {
        "group": "g",
        "group_type": "classic",
        "state": "Stable",
        "generation": 7,
        "protocol": "range",
        "partitions": 12,
        "members": [{}, {}],
        "offsets": [],
        "state_since_ms": T0,
        "last_commit_ms": T0,
        "anomalies": [],
        **changed,
    }
