"""What can be asked of the mirror at any point: groups, members and committed offsets as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr

from agent.common.interning import share_texts_and_numbers
from agent.core.inference.origins import Origin
from agent.core.protocol.client_libraries import UNKNOWN
from agent.core.protocol.states import GroupState
from agent.core.state_fields import interned

_SHARED = (
    "member_id",
    "client_id",
    "client_host",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "client_library",
    "library_evidence",
)


LEFT_FOR_RESTART = -2
"""The member epoch of a static member that closed, as long as its session lasts (KIP-848)."""


@interned
class Member(Struct, frozen=True, gc=False):
    """A member of a group.

    `assignment` is what it holds: topic to partitions; for Connect connector to tasks (-1 is the connector
    itself), for Streams subtopology to active tasks. Topics that the log names only by id go by that id
    until a name is known. `target` is what the coordinator wants it to hold (None in classic groups, where
    the two are one). Timeouts are milliseconds, None where the group type does not write them. `client_library` is
    a name of `agent.core.protocol.client_libraries`, as far as the log tells, and `library_evidence` by what.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscription: tuple[str, ...] = ()
    subscription_regex: str | None = None
    assignment: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    target: Mapping[str, tuple[int, ...]] | None = None
    standby_tasks: Mapping[str, tuple[int, ...]] | None = None
    warmup_tasks: Mapping[str, tuple[int, ...]] | None = None
    owned: Mapping[str, tuple[int, ...]] | None = None
    member_epoch: int | None = None
    uses_classic_protocol: bool = True
    client_library: str = UNKNOWN
    library_evidence: str = ""

    def after_restore(self) -> None:
        """Texts are one object in all members and analyzers, as they were before."""
        share_texts_and_numbers(self, *_SHARED)
        force_setattr(self, "subscription", tuple(map(intern, self.subscription)))
        force_setattr(self, "assignment", {intern(topic): held for topic, held in self.assignment.items()})

    @property
    def partitions(self) -> int:
        """How many partitions (or tasks) it holds."""
        return sum(map(len, self.assignment.values()))

    @property
    def left_for_restart(self) -> bool:
        """Whether it closed, and its place is kept until its session ends: a static member of a KIP-848 group."""
        return self.member_epoch == LEFT_FOR_RESTART


class CommittedOffset(Struct, frozen=True):
    """A group's position in one partition: `offset` is the next record it would read.

    `committed_ms` is epoch milliseconds, None where the record has no time (`known_ms`); `topic_id` in Kafka's text
    form, None where it has none.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int | None
    topic_id: str | None


def known_ms(time_ms: int | None) -> int | None:
    """A time out of a record, epoch milliseconds: one below 0 (-1 is none) is not known."""
    return None if time_ms is None or time_ms < 0 else time_ms


@interned
class Position(NamedTuple):
    """A committed position in short. `commits` counts since the log begins; `commit_ms` is epoch milliseconds."""

    offset: int
    commit_ms: int
    commits: int


class Anomaly(Struct, frozen=True):
    """Something in the log that a coordinator should not write, kept and counted rather than swallowed."""

    kind: str
    message: str
    offset: int
    at_ms: int


UNKNOWN_NUMBER = -1
"""Of a number that nothing tells."""


class GroupView(Struct, frozen=True, gc=False):
    """A group as its coordinator sees it.

    `generation` is the group epoch in KIP-848, share and streams groups, -1 in a group that only commits
    offsets. `partitions` counts what its members hold, `committed_partitions` the offsets it keeps.
    `rebalances` and `generations_skipped` (rebalances that never completed) count since the start of what
    was read. Of a group that `is_sampled` nothing tells `generation`, `generations_skipped` and
    `coordinator_partition`: they are `UNKNOWN_NUMBER`.
    """

    group: str
    group_type: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    target_generation: int | None
    state_since_ms: int
    members: tuple[Member, ...]
    coordinator_partition: int
    committed_partitions: int
    last_commit_ms: int | None
    rebalances: int
    generations_skipped: int
    anomalies: tuple[Anomaly, ...]
    offsets_seen_ms: int | None = None
    """When the offsets of a group that is sampled were looked at, epoch milliseconds; None: not yet, or it is not."""
    origins: Mapping[str, Origin] | None = None
    """By member id, how the pods of members came; those of which it is known. None: nobody was asked."""

    @property
    def is_sampled(self) -> bool:
        """Whether it is looked at through the Admin API (`agent.core.shadow.sampled`), and stands in no log."""
        return self.generations_skipped == UNKNOWN_NUMBER

    @property
    def partitions(self) -> int:
        """How many partitions (or tasks) its members hold."""
        return sum(member.partitions for member in self.members)


def precedence(state: str, last_commit_ms: int | None, state_since_ms: int) -> tuple[bool, int, int]:
    """Of a group that stands in two partitions, since the topic was given more of them, the greater one tells how it
    is: where it was before, its coordinator hears no commits, and takes its members for dead."""
    return state != GroupState.EMPTY, last_commit_ms or 0, state_since_ms


def precedence_of(view: GroupView) -> tuple[bool, int, int]:
    """See `precedence`."""
    return precedence(view.state, view.last_commit_ms, view.state_since_ms)


def one_of_each(views: Iterable[GroupView]) -> list[GroupView]:
    """Each group once: see `precedence`."""
    found: dict[str, GroupView] = {}
    for view in views:
        other = found.get(view.group)
        if other is None or precedence_of(view) > precedence_of(other):
            found[view.group] = view
    return list(found.values())
