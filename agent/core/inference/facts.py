"""What the inference takes (`RebalanceFacts`, `CommitActivity`) and gives (`Inference`, `Departure`): values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.inference.parameters import PARAMETERS
from agent.core.shadow.views import Member

Evidence = dict[str, Any]
"""One item of a `rebalance` event's `evidence`, by its `kind`."""


class CommitActivity(NamedTuple):
    """What the log shows of one member's commits since it got the partitions that it holds.

    `last_commit_ms` is its newest (epoch milliseconds; None: none), `commit_interval_ms` the mean time between two,
    where it committed a partition more than once, else what is usual in its group (None: no commit, or none that
    tells a pace, as where its topics were idle). `last_moved_ms` is its newest commit of a position that had moved,
    where its library commits others too (None: not known).
    """

    last_commit_ms: int | None
    commit_interval_ms: int | None
    last_moved_ms: int | None = None


NO_COMMITS = CommitActivity(None, None)


class CoordinatorChange(NamedTuple):
    """That a group's partition got another leader: it took over the group, and began all members' sessions anew, at
    some time from the last record of the leader before to its own first one (epoch milliseconds)."""

    since_ms: int
    until_ms: int


class WritePause(NamedTuple):
    """That nothing was written to a group's partition from one record to the next (epoch milliseconds) for so long
    that sessions may have run out: its coordinator may have stood still. `of_others`: another group had committed
    just before, or has behind it, so it is not the group's own silence."""

    since_ms: int
    until_ms: int
    of_others: bool

    @property
    def lasted_ms(self) -> int:
        """How long nothing was written."""
        return self.until_ms - self.since_ms


LATEST_MS = 1 << 50
"""Nothing is reckoned with later times, nor with any before 0. A stranger's record may hold any of 64 bits; floats
tell milliseconds apart up to here."""


def bounded_ms(time_ms: int) -> int:
    """A time out of a record as one that can be reckoned with."""
    return min(max(time_ms, 0), LATEST_MS)


class Departure(Struct, frozen=True, gc=False):
    """Why one member left, with how sure that is (0 to 1) and by what evidence."""

    member: Member
    cause: Cause
    confidence: float
    evidence: Evidence
    departed_ms: int | None = None
    """When it said goodbye or its time ran out, epoch milliseconds; None: not known."""

    @property
    def session_timeout_ms(self) -> int | None:
        """The member's own, or what brokers set for its group; None where neither is known."""
        own = self.member.session_timeout_ms
        return self.evidence.get("group_session_timeout_ms") if own is None else own


class Inference(Struct, frozen=True, gc=False):
    """Why a rebalance happened: `cause` set it off, `causes` are all, sorted; `departures` are by member id."""

    cause: Cause = Cause.UNKNOWN
    causes: tuple[Cause, ...] = (Cause.UNKNOWN,)
    confidence: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    departures: Mapping[str, Departure] = field(default_factory=dict)
    began_ms: int | None = None
    """When the join phase began, as far as commits and departures tell, epoch milliseconds; None: they do not."""


class RebalanceFacts(Struct, frozen=True):
    """What is known of one rebalance of a classic group. Times are epoch milliseconds.

    `before` and `after` are the members by id; `replaced` has static members that came back under another id, old and
    new. `since_ms` is when the generation before was complete (None: not known) and `joined_ms` when its join phase
    had ended (None: as `since_ms`); `end_ms` is when the join phase of this rebalance ended.
    `withheld_partitions` counts those that the generation before left without an owner, for a cooperative round to
    follow, and `given_up_ms` is when one of them was committed first since then, as it was given up (None: none was);
    `skipped_generations` those that never completed. `forgotten_topics` are those of which nobody has any
    partition any more, and nothing is committed. `has_deleted_topic`: one that members had was deleted since the
    generation before was complete. `cooperative`: members keep what they have through a rebalance.
    `creates_internal_topics`: the first generation of a Streams application ends. `notice_ms` is how long
    members take to notice a rebalance. `known_departures` are those that were inferred when they happened.
    `assignors` are those of the generation before and of the next, where they differ.
    `is_first_seen`: the log lacks the generation before, so nothing can be compared. `coordinator_change` is the
    newest of the group's partition, `write_pause` the newest pause in it (None: none is known).
    """

    before: Mapping[str, Member]
    after: Mapping[str, Member]
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    replaced: tuple[tuple[Member, Member], ...]
    activity: Mapping[str, CommitActivity]
    since_ms: int | None
    end_ms: int
    leader: str | None
    withheld_partitions: int
    skipped_generations: int
    migrated: bool
    cooperative: bool = False
    given_up_ms: int | None = None
    creates_internal_topics: bool = False
    notice_ms: int = PARAMETERS.heartbeat_interval_ms
    joined_ms: int | None = None
    known_departures: Mapping[str, Departure] = field(default_factory=dict)
    is_first_seen: bool = False
    coordinator_change: CoordinatorChange | None = None
    write_pause: WritePause | None = None
    forgotten_topics: Collection[str] = ()
    has_deleted_topic: bool = False
    assignors: tuple[str, str] | None = None
