"""What `agent.kafka.admin_api.child` answers: values that cross the pipe as JSON, declared once for both ends.

Owns their form. Lone surrogates in names of groups go through, so the JSON is made by `json`, not by msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

MADE_UP = "kshadow-made-up-name"
"""A group or topic that is asked for where none is known: who has the right to see all is told that there is none."""


def can_be_asked(name: str) -> bool:
    """Whether librdkafka takes the name of a group or topic: neither a NUL nor nothing, though to a broker a name is
    bytes, and may be empty."""
    return bool(name) and "\0" not in name and name.encode(errors="ignore").decode() == name


class AdminOutcome(StrEnum):
    """How a question ended; a metric's label."""

    ANSWERED = "answered"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


class Refusal(NamedTuple):
    """No answer, and why."""

    outcome: AdminOutcome
    reason: str


class ListedGroup(NamedTuple):
    """A broker's word on a group in a list."""

    group_type: str
    state: str


Assignment = Mapping[str, tuple[int, ...]]
"""Partitions by topic."""


class MemberClient(NamedTuple):
    """Who a member is."""

    client_id: str
    host: str
    instance_id: str | None


class DescribedGroup(Struct, frozen=True):
    """A broker's answer about one group. `members` are their assignments by member id, topics in any order; `clients`
    says who they are. `targets` are what they shall hold, in groups whose brokers tell (KIP-848)."""

    group_type: str
    state: str
    protocol: str
    members: Mapping[str, Assignment]
    clients: Mapping[str, MemberClient] = field(default_factory=dict)
    targets: Mapping[str, Assignment] = field(default_factory=dict)


class FetchedOffset(NamedTuple):
    """A committed offset as a coordinator gives it: without the time of the commit; and without its metadata, since
    librdkafka (2.16) ends the text it hands out nowhere, so that what stands behind it in memory is read with it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int


class FetchedOffsets(Struct, frozen=True):
    """All that a group has committed. A record of its own, so that JSON tells it from a `Refusal`. `withheld`: topics
    that are known to have been among them, and are left out as there is no right to see them."""

    positions: tuple[FetchedOffset, ...]
    withheld: tuple[str, ...] = ()


class AdminAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer to question `number`. Times are of `child.monotonic_ms`; what was not asked for is empty.

    `leaders`: the broker that leads each partition of the topic, -1 for none. `refusals` are of brokers whose groups
    are missing in a list, or say why leaders are not known. `cluster_id`, `brokers` (how many) and whether lists show
    all groups answer "cluster".
    `sent` is how many requests the client has sent since it began, as of its latest count.
    """

    number: int = msgspec.field(name="id")
    asked_ms: int
    answered_ms: int
    leaders: dict[int, int] = {}
    groups: dict[str, ListedGroup] = {}
    descriptions: dict[str, DescribedGroup | Refusal] = msgspec.field(name="described", default_factory=dict)
    offsets: dict[str, FetchedOffsets | Refusal] = {}
    refusals: tuple[Refusal, ...] = ()
    cluster_id: str = ""
    brokers: int = 0
    sees_all_groups: bool = False
    sent: int = 0
