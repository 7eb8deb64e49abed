"""What is inferred of a rebalance, and from what: the values that the inference takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from agent.shadow.views import Member


class Cause(StrEnum):
    """Every cause of the contract, for rebalances and for departures."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    POLL_TIMEOUT = "poll_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    LEADER_REJOINED = "leader_rejoined"
    PROTOCOL_MIGRATED = "protocol_migrated"
    ADMIN_REMOVED = "admin_removed"
    UNKNOWN_DEPARTURE = "unknown_departure"
    UNKNOWN = "unknown"


Evidence = dict[str, Any]


class Activity(NamedTuple):
    """What the log shows of one member's commits since it got the partitions that it holds.

    `last_ms` is its newest commit (None: none), `every_ms` how often it commits: the mean, where it committed a
    partition more than once, else what is usual in its group (None: no commit).
    """

    last_ms: int | None
    every_ms: int | None


@dataclass(frozen=True, slots=True)
class Departure:
    """How one member went, as far as can be told."""

    member: Member
    cause: Cause
    confidence: float
    evidence: Evidence

    went_ms: int | None = None
    """When it went, where that is known: it said goodbye, or its time ran out."""


@dataclass(frozen=True, slots=True)
class Inference:
    """Why a rebalance happened. `causes` are all, sorted; `cause` is the one that set it off."""

    cause: Cause = Cause.UNKNOWN
    causes: tuple[Cause, ...] = (Cause.UNKNOWN,)
    confidence: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    departures: Mapping[str, Departure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one classic rebalance. Times are epoch milliseconds.

    `since_ms` is when the generation before was complete, `end_ms` when the join phase ended. `withheld` counts
    partitions that the generation before left without an owner, for a cooperative round to follow. `cooperative`:
    members keep what they have through a rebalance. `makes_topics`: the first generation of a Streams application
    ends. `notice_ms` is how long members take to notice a rebalance. `known`: how members went of whom that was
    told before.
    """

    before: Mapping[str, Member]
    after: Mapping[str, Member]
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    replaced: tuple[tuple[Member, Member], ...]
    activity: Mapping[str, Activity]
    since_ms: int | None
    end_ms: int
    leader: str | None
    withheld: int
    skipped: int
    migrated: bool
    cooperative: bool = False
    makes_topics: bool = False
    notice_ms: int = 3_000
    known: Mapping[str, Departure] = field(default_factory=dict)
