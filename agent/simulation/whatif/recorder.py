"""What the log shows of one group, record by record: more than its events, since every member is kept in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from agent.core.inference.facts import Inference
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.states import GroupType
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import GroupCreated, GroupDeleted, Rebalanced, Transition
from agent.core.shadow.views import GroupView, Member, known_ms

_NO_COMMITS: Mapping[str, int] = {}
"""Stands for none, and stays so: a group's first states have none."""


class RecordedState(Struct, frozen=True, gc=False):
    """A group as of one of its records. Times are epoch milliseconds.

    `joined_ms` is when the join phase ended, `at_ms` when the assignment was written: both never before those of the
    record before. `inferred` is None in a record that completes no rebalance.
    `join_ms` is how long the join phase took, None if nobody saw it; `stopped_ms` the standstill that the mirror
    makes of it, in partition-milliseconds, None if that is not known. `last_ms`: of members of the record before, the
    last commit by now of what they held, by member id.
    """

    at_ms: int
    joined_ms: int
    view: GroupView
    inferred: Inference | None
    join_ms: int | None = None
    stopped_ms: int | None = None
    last_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def members(self) -> dict[str, Member]:
        """The view's by id, made anew each time: the newest state of each group is kept."""
        return {it.member_id: it for it in self.view.members}


class GroupRecording(Struct, frozen=True):
    """One group from one beginning: later ones of the same name are recordings of their own.

    `created_ms` is when the group was made, None where the log does not say, or its first states are not kept.
    `earlier` counts the recordings of the same name before it. `kip848_session` is what brokers say of the sessions
    that the group would have with KIP-848, None where nobody asked them.
    """

    group: str
    states: tuple[RecordedState, ...]
    created_ms: int | None = None
    earlier: int = 0
    kip848_session: SessionSetting | None = None

    def reaches_back_to(self, at_ms: int) -> bool:
        """Whether it is known how the group was then: a state is as old, or the first is the group's first."""
        if not self.states:
            return False
        first = self.states[0]
        return first.at_ms <= at_ms or (first.view.generation == 1 and first.inferred is not None)

    def between(self, since_ms: int | None, until_ms: int | None) -> GroupRecording:
        """What happened in a range, bounds included; its first record is how the group was found at its beginning."""
        seen = [it for it in self.states if until_ms is None or it.at_ms <= until_ms]
        before = 0 if since_ms is None else sum(it.at_ms < since_ms for it in seen)
        if since_ms is None or not before:
            return replace(self, states=tuple(seen))
        found = replace(seen[before - 1], at_ms=since_ms, joined_ms=since_ms, inferred=None, stopped_ms=None)
        # The range may begin while a leader assigns.
        rest = (it if it.joined_ms >= since_ms else replace(it, joined_ms=since_ms) for it in seen[before:])
        return replace(self, states=(found, *rest), created_ms=None)


class GroupRecorder:
    """Follows one group while its partition's records are replayed."""

    is_of_one_group: ClassVar[bool] = True
    """Whether one partition's records are all that it depends on."""

    __slots__ = ("_created_ms", "_earlier", "_is_over", "_kip848_session", "_made_ms", "_seen", "group")

    def __init__(self, group: str) -> None:
        self.group = group
        self._seen: list[RecordedState] = []
        self._earlier = 0
        self._is_over = False
        self._created_ms: int | None = None
        # When the group was made that the next record will be the first of.
        self._made_ms: int | None = None
        self._kip848_session: SessionSetting | None = None

    def replay_batch(
        self, mirror: PartitionMirror, run: RecordBatch, *, passes_over: bool = False
    ) -> list[Transition]:
        """Apply a run as `mirror.replay_batch` does, and keep what each record makes of the group."""
        return mirror.replay_batch(run, passes_over=passes_over, observe=partial(self.observe, mirror))

    def observe(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        """Keep what one record made of the group; the mirror has just applied it."""
        mine = [it for it in transitions if it.group == self.group]
        if mine:
            self._see(mirror, mine)

    def resume(self, recorder: GroupRecorder) -> None:
        """Go on from where another of the same group has come to."""
        for name in GroupRecorder.__slots__:
            setattr(self, name, getattr(recorder, name))

    def of(self, group: str) -> GroupRecorder:
        """The one that follows a group: itself."""
        return self

    def recording(self) -> GroupRecording:
        """The latest beginning of the group, to its end."""
        return GroupRecording(self.group, tuple(self._seen), self._created_ms, self._earlier, self._kip848_session)

    def _see(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        rebalanced: Rebalanced | None = None
        at_ms = 0
        for it in transitions:
            at_ms = it.at.timestamp_ms
            match it:
                case GroupDeleted():
                    self._is_over = True
                case GroupCreated(observed=observed):
                    self._is_over, self._made_ms = True, at_ms if observed else None
                case Rebalanced():
                    rebalanced = it
        if rebalanced is not None and any(isinstance(it, GroupCreated) for it in transitions):
            # A record of its own says when a group was made (Kafka 4.0 on), or none.
            self._made_ms = None
        view = mirror.view(self.group, with_commit=False)
        if view is None or view.generation < 1:
            return
        before = self._before(view)
        if rebalanced is None and before is not None and view.members == before.view.members:
            return
        self._kip848_session = mirror.session_of(self.group, GroupType.CONSUMER)
        least_ms = 0 if before is None else before.at_ms
        at_ms = max(at_ms, least_ms)
        old = {} if before is None else before.members
        # Only groups whose members can be thrown out for silence are replayed.
        of = old if view.group_type == "classic" else {}
        last_ms = {member_id: _last_commit_ms(mirror, self.group, member) for member_id, member in of.items()}
        dated = {member_id: last for member_id, last in last_ms.items() if last is not None}
        self._seen.append(
            RecordedState(
                at_ms=at_ms,
                joined_ms=at_ms if rebalanced is None else min(max(view.state_since_ms, least_ms), at_ms),
                view=view,
                inferred=None if rebalanced is None else rebalanced.inferred,
                join_ms=None if rebalanced is None else rebalanced.join_ms,
                stopped_ms=None if rebalanced is None else rebalanced.stopped_partition_ms,
                last_ms=dated or _NO_COMMITS,
            )
        )

    def _before(self, view: GroupView) -> RecordedState | None:
        """The record before this one, None where this is the first of a new beginning."""
        before = self._seen[-1] if self._seen else None
        if before is not None and not self._is_over:
            # A coordinator never counts back, and a group of another type is another group.
            known = before.view
            if known.group_type == view.group_type and known.generation <= view.generation:
                return before
        self._earlier += before is not None
        self._seen, self._is_over = [], False
        # One whose first record is of a later generation is older than that.
        self._created_ms, self._made_ms = self._made_ms if view.generation == 1 else None, None
        return None


def _last_commit_ms(mirror: PartitionMirror, group: str, member: Member) -> int | None:
    """The newest commit of what a member held."""
    if not mirror.offsets.count(group):
        return None
    found = (
        mirror.offsets.commit(group, topic, partition)
        for topic, partitions in member.assignment.items()
        for partition in partitions
    )
    return known_ms(max((commit[0].commit_ms for commit in found if commit is not None), default=None))
