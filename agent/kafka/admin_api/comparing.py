"""The mirror beside the brokers' answers: who is to be asked for, what differs, and what is said of it.

Owns the judgement over all groups. Refuses to know how answers come; time is an argument (seconds).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Protocol

from agent.core.protocol.group_placement import observe_placement, possible_partitions
from agent.core.protocol.hashing import GroupPartitioner
from agent.core.protocol.states import GroupState
from agent.core.shadow.views import GroupView
from agent.kafka.admin_api.answers import DescribedGroup, ListedGroup
from agent.kafka.admin_api.describe_scheduler import DescribeScheduler
from agent.kafka.admin_api.divergence import Differences, DivergenceTracker, differences, fingerprint, is_describable

log = logging.getLogger("kshadow")

MAX_NAME_CHARS, MAX_TEXT_CHARS = 200, 1000
"""Characters of a group's name, and of what is said of it, in the log."""


PLACED_GROUPS = 1_000
"""How many of the mirror's groups are looked at for the hash by which they are placed."""


class MirrorQueries(Protocol):
    """What the observer asks of the agent."""

    def group_partitions(self) -> Mapping[str, int]:
        """The groups that are shown, and the partition each is in."""

    def view(self, group: str) -> GroupView | None:
        """One group; None if the mirror has it not."""

    def shows_group(self, group: str) -> bool:
        """Whether a group of this name is to be looked at."""

    def read_partitions(self) -> Collection[int]:
        """The partitions of the topic that are read."""

    def records_behind(self) -> Mapping[int, int]:
        """For each partition how many offsets its end lies ahead; only those of which that is known."""


class MirrorComparison:
    """What is known of all groups."""

    def __init__(self, mirrored: MirrorQueries, partitioner: GroupPartitioner | None = None) -> None:
        """`partitioner`: by which hash groups are placed; None: by the one that the mirror's groups show."""
        self._mirror = mirrored
        self._partitioner = partitioner
        self.scheduler = DescribeScheduler()
        """Which groups are to be described next."""
        self._divergences = DivergenceTracker()
        self._partitions: Mapping[str, int] = {}
        self._compared: set[str] = set()
        self._unmirrored: set[str] = set()

    def refresh_groups(self, now: float) -> None:
        """See which groups there are."""
        self._partitions = self._mirror.group_partitions()
        self.scheduler.set_groups(self._partitions)
        self._compared &= self._partitions.keys()
        for group in self._divergences.suspected_groups:
            if group not in self._partitions and group not in self._unmirrored:
                self._report(group, {}, None, now)

    def in_mirror(self, groups: Mapping[str, ListedGroup], partitions: int) -> dict[str, ListedGroup]:
        """Those that are in what the mirror reads and shows. The topic has so many partitions."""
        self._learn_partitioner(partitions)
        read = set(self._mirror.read_partitions())
        return {
            group: it
            for group, it in groups.items()
            if self._mirror.shows_group(group)
            and (
                group in self._partitions
                or read.issuperset(possible_partitions(group, partitions, self._partitioner))
            )
        }

    def _learn_partitioner(self, partitions: int) -> None:
        """As long as it is not known by which hash groups are placed, one that the mirror lacks may be in either of
        two partitions."""
        if self._partitioner is None:
            some = islice(self._partitions.items(), PLACED_GROUPS)
            self._partitioner = observe_placement(some, partitions).partitioner

    def next_groups(self, count: int, now: float, busy: Collection[int]) -> dict[str, int]:
        """The next groups to have described, with their partitions: at most so many, none of `busy` partitions."""
        out = {}
        for group in self.scheduler.next_groups(count, now, busy):
            view = self._mirror.view(group)
            if view is None:
                continue
            if is_describable(view):
                out[group] = self._partitions[group]
            else:
                self.scheduler.suspend(group, now)
        return out

    def compare_description(self, group: str, answer: DescribedGroup, now: float) -> None:
        """A broker's word on a group that the mirror had when it was asked for."""
        view = self._mirror.view(group)
        found = {} if view is None else differences(view, answer)
        if found is None or (view is not None and self._mirror.records_behind().get(view.coordinator_partition) != 0):
            # Moving at the broker, or its records are on their way: held back by an open transaction, perhaps.
            return
        if view is not None:
            self._compared.add(group)
        self._report(group, found, fingerprint(view), now)
        if found:
            self.scheduler.prioritize([group], now)

    def not_answered(self, group: str) -> None:
        """Nobody answered for it: that it did not differ before says nothing of now."""
        self._compared.discard(group)

    def compare_list(self, groups: Mapping[str, ListedGroup], partitions: int, now: float) -> bool:
        """All groups that the brokers have; whether another list is wanted soon. The topic has so many partitions.

        Only a stable group can be missed. One without members may be there in memory alone: 4.x lists a group whose
        last offset was deleted until its next clean-up, and a group whose first rebalance did not complete has no
        record. Who may not describe a group is not shown it: so nothing is made of one that is not listed.
        """
        behind = self._mirror.records_behind()
        before, self._unmirrored = self._unmirrored, set()
        for group, it in self.in_mirror(groups, partitions).items():
            if it.state != GroupState.STABLE or group in self._partitions:
                continue
            is_read = all(behind.get(it) == 0 for it in possible_partitions(group, partitions, self._partitioner))
            if is_read and self._mirror.view(group) is None:
                self._unmirrored.add(group)
        for group in self._unmirrored:
            listed = f"the broker has it, a {groups[group].group_type} group in state Stable; the mirror has not"
            self._report(group, {"presence": listed}, None, now)
        for group in before - self._unmirrored - self._partitions.keys():
            self._report(group, {}, None, now)
        return self._unmirrored != before

    def _report(self, group: str, found: Differences, print: object, now: float) -> None:
        news = self._divergences.update(group, found, print, now)
        if news is None:
            return
        name = repr(group[:MAX_NAME_CHARS])
        if news:
            said = "; ".join(f"{field}: {text}" for field, text in news.items())
            log.warning("group %s: mirror and broker differ: %s", name, said[:MAX_TEXT_CHARS])
        else:
            log.info("group %s: mirror and broker no longer differ", name)

    @property
    def compared_groups(self) -> int:
        """How many groups of the mirror were compared with a broker's answer when they were last asked for."""
        return len(self._compared)

    @property
    def is_at_work(self) -> bool:
        """Whether the mirror is kept, so that there is something to compare."""
        return bool(self._mirror.records_behind())

    def counts(self) -> dict[str, int]:
        """How many groups differ, by field."""
        return self._divergences.counts()
