"""Several groups followed at once, for what other settings would have made of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Transition
from agent.simulation.whatif.recorder import GroupRecorder

MAX_RECORDS = 20_000
"""Records of all groups together that are kept where no group is named: members and all, about a kilobyte each."""


class GroupRecorders(GroupRecorder):
    """A recorder for each of the groups, or for every group there is, while those are few enough."""

    is_of_one_group: ClassVar[bool] = False

    def __init__(self, groups: Iterable[str]) -> None:
        """No groups: all of them."""
        super().__init__("")
        self._of = {group: GroupRecorder(group) for group in groups}
        self._takes_all = not self._of
        self._left = MAX_RECORDS
        self.gave_up = False
        """Whether it was too much, so that nothing was kept."""

    def observe(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        """Let those see it whose group has changed."""
        for group in dict.fromkeys(it.group for it in transitions):
            if self._takes_all:
                self._left -= 1
                if self._left < 0:
                    self._takes_all, self.gave_up = False, True
                    self._of.clear()
                elif group not in self._of:
                    self._of[group] = GroupRecorder(group)
            recorder = self._of.get(group)
            if recorder is not None:
                recorder.observe(mirror, transitions)

    def of(self, group: str) -> GroupRecorder:
        """The one of a group; it has seen nothing where there was nothing to be seen."""
        return self._of.get(group) or GroupRecorder(group)
