"""What a running agent remembers of every group's newest states, members and all: for the page's matrix of who held
what, and to replay the group under other settings.

Memory alone: filled while the log is read, empty again after a restart from a snapshot but for how each group was
found then. Not thread-safe: whoever asks holds the lock under which it is filled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupDeleted,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording, RecordedState

MAX_MEMBERS = 20_000
"""Members of all states that are kept of all groups: about a kilobyte each. The oldest states go first, whoever's
they are; the newest of a group stays, which classic groups share with the mirror."""

PARTITIONS_AS_MEMBER = 25
"""Partitions that take as much room as a member."""

MAX_STATES_PER_GROUP = 300
"""States of one group: some hours of a storm."""

_TELLING = (GroupCreated, GroupDeleted, Rebalanced, AssignmentChanged, StaticMemberReplaced)
"""What a state is kept of: other transitions (deleted offsets, say) come by the thousand and change no member."""


class RecentRecordings:
    """The newest states of every group, by group."""

    def __init__(self, *, max_members: int = MAX_MEMBERS, max_states_per_group: int = MAX_STATES_PER_GROUP) -> None:
        self._max_members, self._max_states = max_members, max_states_per_group
        self._recorders: dict[str, tuple[int, _BoundedRecorder]] = {}
        self._kept: deque[tuple[_BoundedRecorder, RecordedState]] = deque()
        self._members = 0

    def observe(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        """Keep what one record made of its group; the mirror has just applied it."""
        telling = [it for it in transitions if isinstance(it, _TELLING)]
        for group in dict.fromkeys(it.group for it in telling):
            if group not in mirror.groups:
                self._recorders.pop(group, None)
                continue
            recorder = self._recorder(group, mirror.partition)
            self._count(recorder, recorder.take(mirror, telling))

    def seed(self, mirror: PartitionMirror) -> None:
        """Keep how the groups of a restored partition were found."""
        for group in mirror.groups:
            recorder = self._recorder(group, mirror.partition)
            self._count(recorder, recorder.found(mirror))

    def forget(self, partition: int) -> None:
        """Drop the groups of one partition: its records are to be read anew, or by somebody else."""
        for group in [name for name, (number, _) in self._recorders.items() if number == partition]:
            del self._recorders[group]

    def recording(self, group: str) -> GroupRecording | None:
        """The newest states of a group; None where none is kept."""
        found = self._recorders.get(group)
        recording = None if found is None else found[1].recording()
        return recording if recording is not None and recording.states else None

    def __len__(self) -> int:
        """How many members all states have that count."""
        return self._members

    @property
    def groups(self) -> Collection[str]:
        """The groups of which anything is kept."""
        return self._recorders.keys()

    def _recorder(self, group: str, partition: int) -> _BoundedRecorder:
        found = self._recorders.get(group)
        if found is None or found[0] != partition:
            found = self._recorders[group] = (partition, _BoundedRecorder(group, self._max_states))
        return found[1]

    def _count(self, recorder: _BoundedRecorder, state: RecordedState | None) -> None:
        if state is None:
            return
        self._kept.append((recorder, state))
        self._members += _weight(state)
        while self._members > self._max_members:
            oldest, old = self._kept.popleft()
            self._members -= _weight(old)
            oldest.drop(old)


def _weight(state: RecordedState) -> int:
    """In members; what one holds counts as well where it is much: some 40 bytes a partition."""
    return max(sum(1 + it.partitions // PARTITIONS_AS_MEMBER for it in state.members.values()), 1)


class _BoundedRecorder(GroupRecorder):
    """A recorder that forgets."""

    def __init__(self, group: str, max_states: int) -> None:
        super().__init__(group)
        self._max_states = max_states

    def take(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> RecordedState | None:
        """Observe a record: the state that it made, None if it made none."""
        before = self._seen[-1] if self._seen else None
        self.observe(mirror, transitions)
        del self._seen[: -self._max_states]
        newest = self._seen[-1] if self._seen else None
        return None if newest is before else newest

    def found(self, mirror: PartitionMirror) -> RecordedState | None:
        """The state in which the group is found, where nothing tells of how it came to it."""
        view = mirror.view(self.group, with_commit=False)
        if view is None or view.generation < 1:
            return None
        at_ms = max(view.state_since_ms, 0)
        state = RecordedState(at_ms, at_ms, view, {it.member_id: it for it in view.members}, None)
        self._seen.append(state)
        return state

    def drop(self, state: RecordedState) -> None:
        """Forget a state and those before it, but never the newest."""
        at = next((index for index, it in enumerate(self._seen) if it is state), None)
        if at is not None:
            del self._seen[: min(at + 1, len(self._seen) - 1)]
