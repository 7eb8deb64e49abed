"""What a running agent remembers of every group's newest states, members and all: for the page's matrix of who held
what, and to replay the group under other settings.

Memory alone: filled while the log is read, empty again after a restart from a snapshot but for how each group was
found then. Not thread-safe: whoever asks holds the lock under which it is filled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from agent.core.events.recent import MEMBER_BYTES, member_bytes
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupDeleted,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import Member
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording, RecordedState

MAX_MEMBERS = 20_000
"""Members of all states that are kept of all groups: about a kilobyte each. The oldest states go first, whoever's
they are; the newest of a group stays, which classic groups share with the mirror."""

AS_MEMBER_BYTES = 1_000
"""Of partitions that one holds, and of names that are longer than names are, so many take as much room as a
member."""

MAX_STATES_PER_GROUP = 300
"""States of one group: some hours of a storm."""

_TELLING = (GroupCreated, GroupDeleted, Rebalanced, AssignmentChanged, StaticMemberReplaced)
"""What a state is kept of: other transitions (deleted offsets, say) come by the thousand and change no member."""


class RecentRecordings:
    """The newest states of every group, by group."""

    def __init__(self, *, max_members: int = MAX_MEMBERS, max_states_per_group: int = MAX_STATES_PER_GROUP) -> None:
        self._max_members, self._max_states = max_members, max_states_per_group
        self._recorders: dict[str, _BoundedRecorder] = {}
        self._kept: deque[_WeighedState] = deque()
        self._members = 0
        self._as_found: dict[int, PartitionMirror] = {}
        """Restored partitions whose groups are still as they were found, and not kept yet: that would take a tenth of
        a start, and most partitions have no record at once."""

    def observe(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        """Keep what one record made of its group; the mirror has just applied it."""
        self.see(mirror, transitions)()

    def see(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> Callable[[], None]:
        """The same in two steps: what is returned keeps what was seen. Looking takes longer, and needs no lock."""
        telling = [it for it in transitions if isinstance(it, _TELLING)]
        seen: list[tuple[str, _BoundedRecorder | None, _WeighedState | None]] = []
        for group in dict.fromkeys(it.group for it in telling):
            if group in mirror.groups:
                recorder = copy(self._recorder(group, mirror.partition))
                seen.append((group, recorder, _weighed(group, recorder.take(mirror, telling))))
            else:
                seen.append((group, None, None))
        return partial(self._keep, seen)

    def _keep(self, seen: Iterable[tuple[str, _BoundedRecorder | None, _WeighedState | None]]) -> None:
        for group, recorder, state in seen:
            if recorder is None:
                self._recorders.pop(group, None)
            else:
                self._recorders[group] = recorder
                self._count(state)

    def seed(self, mirror: PartitionMirror) -> None:
        """Keep how the groups of a restored partition were found, once that is asked for or is to change."""
        self._as_found[mirror.partition] = mirror

    def before_change(self, partition: int) -> None:
        """Records of a partition are to be applied: keep how its groups were found, if that is not done."""
        mirror = self._as_found.pop(partition, None)
        if mirror is None:
            return
        for group in mirror.groups:
            recorder = self._recorders[group] = self._recorder(group, mirror.partition)
            self._count(_weighed(group, recorder.found(mirror)))

    def forget(self, partition: int) -> None:
        """Drop the groups of one partition: its records are to be read anew, or by somebody else."""
        self._as_found.pop(partition, None)
        for group in [name for name, it in self._recorders.items() if it.partition == partition]:
            del self._recorders[group]

    def kept(self, mirror: PartitionMirror) -> PartitionRecordings:
        """What is kept of a mirror's groups, but for members that the mirror has as well: whoever goes on from it has
        a mirror like that."""
        self.before_change(mirror.partition)
        mine = {name: it for name, it in self._recorders.items() if it.partition == mirror.partition}
        all_of_it = PartitionRecordings(mine, [it for it in self._kept if it.group in mine], ())
        alike = [name for name, it in mine.items() if it.newest and it.newest.view.members == _members(mirror, name)]
        return _with_members(all_of_it, dict.fromkeys(alike, ()))._replace(alike=alike)

    def put(self, mirror: PartitionMirror, kept: PartitionRecordings) -> None:
        """Go on from what is kept of a partition somewhere else, in place of what there is here."""
        recorders, states, _ = _with_members(kept, {name: _members(mirror, name) for name in kept.alike})
        self.forget(mirror.partition)
        self._recorders |= recorders
        # What goes first is what is oldest, whichever partition was read first.
        others = [it for it in self._kept if it.group in self._recorders and it.group not in recorders]
        self._kept = deque(sorted([*others, *states], key=lambda it: it.state.at_ms))
        self._members = sum(it.weight for it in self._kept)
        self._count(None)

    def recording(self, group: str) -> GroupRecording | None:
        """The newest states of a group; None where none is kept."""
        for partition in [it for it, mirror in self._as_found.items() if group in mirror.groups]:
            self.before_change(partition)
        found = self._recorders.get(group)
        recording = None if found is None else found.recording()
        return recording if recording is not None and recording.states else None

    def __len__(self) -> int:
        """How many members all states have that count."""
        return self._members

    def _recorder(self, group: str, partition: int) -> _BoundedRecorder:
        found = self._recorders.get(group)
        if found is None or found.partition != partition:
            return _BoundedRecorder(group, partition, self._max_states)
        return found

    def _count(self, newest: _WeighedState | None) -> None:
        if newest is not None:
            self._kept.append(newest)
            self._members += newest.weight
        while self._members > self._max_members:
            oldest = self._kept.popleft()
            self._members -= oldest.weight
            if (found := self._recorders.get(oldest.group)) is not None:
                found.drop(oldest.state)


class PartitionRecordings(NamedTuple):
    """What is kept of the groups of a partition: their recorders by name, and the states that count, oldest first.
    The newest states of groups that are `alike` come without their members, which the mirror has."""

    recorders: Mapping[str, _BoundedRecorder]
    states: list[_WeighedState]
    alike: Sequence[str]


def _with_members(kept: PartitionRecordings, members: Mapping[str, tuple[Member, ...]]) -> PartitionRecordings:
    """The same with these members in the newest states."""
    recorders = {name: copy(it) if name in members else it for name, it in kept.recorders.items()}
    changed = {id(recorders[name].newest): recorders[name].replace_members(its) for name, its in members.items()}
    return kept._replace(
        recorders=recorders, states=[it._replace(state=changed.get(id(it.state), it.state)) for it in kept.states]
    )


def _members(mirror: PartitionMirror, group: str) -> tuple[Member, ...]:
    view = mirror.view(group, with_commit=False)
    return () if view is None else view.members


class _WeighedState(NamedTuple):
    """A state of a group; its weight in members. What one holds counts as well where it is much, and what it is
    called, which strangers choose."""

    group: str
    state: RecordedState
    weight: int


def _weighed(group: str, state: RecordedState | None) -> _WeighedState | None:
    if state is None:
        return None
    members = sum(1 + (member_bytes(it) - MEMBER_BYTES) // AS_MEMBER_BYTES for it in state.view.members)
    return _WeighedState(group, state, max(members, 1))


class _BoundedRecorder(GroupRecorder):
    """A recorder that forgets."""

    __slots__ = ("_max_states", "partition")

    def __init__(self, group: str, partition: int, max_states: int) -> None:
        super().__init__(group)
        self.partition, self._max_states = partition, max_states

    def __copy__(self) -> _BoundedRecorder:
        out = _BoundedRecorder(self.group, self.partition, self._max_states)
        out.resume(self)
        out._seen = list(self._seen)
        return out

    @property
    def newest(self) -> RecordedState | None:
        """The newest state; None before the first."""
        return self._seen[-1] if self._seen else None

    def replace_members(self, members: tuple[Member, ...]) -> RecordedState:
        """Give the newest state, which there must be, other members."""
        newest = self._seen[-1]
        self._seen[-1] = replace(newest, view=replace(newest.view, members=members))
        return self._seen[-1]

    def take(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> RecordedState | None:
        """Observe a record: the state that it made, None if it made none."""
        before = self.newest
        self.observe(mirror, transitions)
        self._forget(len(self._seen) - self._max_states)
        return None if self.newest is before else self.newest

    def found(self, mirror: PartitionMirror) -> RecordedState | None:
        """The state in which the group is found, where nothing tells of how it came to it."""
        view = mirror.view(self.group, with_commit=False)
        if view is None or view.generation < 1:
            return None
        at_ms = max(view.state_since_ms, 0)
        state = RecordedState(at_ms, at_ms, view, None)
        self._seen.append(state)
        return state

    def drop(self, state: RecordedState) -> None:
        """Forget a state and those before it, but never the newest."""
        at = next((index for index, it in enumerate(self._seen) if it is state), None)
        if at is not None:
            self._forget(min(at + 1, len(self._seen) - 1))

    def _forget(self, number: int) -> None:
        """Forget so many of the oldest states."""
        if number > 0:
            del self._seen[:number]
            # What is the first state now is not what came of the group's creation.
            self._created_ms = None
