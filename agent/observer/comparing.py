"""The mirror beside the brokers' answers: who is to be asked for, what differs, and what is said of it.

Owns the judgement over all groups. Refuses to know how answers come; time is an argument (seconds).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from agent.coordinator.hashing import partition_of
from agent.coordinator.states import GroupState
from agent.observer.agenda import Agenda
from agent.observer.divergence import (
    Described,
    Differences,
    Divergences,
    Listed,
    comparable,
    differences,
    fingerprint,
)
from agent.shadow.views import GroupView

log = logging.getLogger("kshadow")

MAX_NAME, MAX_SAID = 200, 1000
"""Characters of a group's name, and of what is said of it, in the log."""


class Mirrored(Protocol):
    """What the observer asks of the agent."""

    def places(self) -> Mapping[str, int]:
        """The groups that are shown, and the partition each is in."""

    def view(self, group: str) -> GroupView | None:
        """One group; None if the mirror has it not."""

    def shows(self, group: str) -> bool:
        """Whether a group of this name is to be looked at."""

    def reads(self) -> Collection[int]:
        """The partitions of the topic that are read."""

    def behind(self) -> Mapping[int, int]:
        """For each partition how many offsets its end lies ahead; only those of which that is known."""


class Comparer:
    """What is known of all groups."""

    def __init__(self, mirrored: Mirrored) -> None:
        self._mirrored = mirrored
        self._agenda = Agenda()
        self._divergences = Divergences()
        self._places: Mapping[str, int] = {}
        self._compared: set[str] = set()
        self._unmirrored: set[str] = set()

    def know(self, now: float) -> None:
        """See which groups there are."""
        self._places = self._mirrored.places()
        self._agenda.know(self._places)
        self._compared &= self._places.keys()
        for group in self._divergences.suspects:
            if group not in self._places and group not in self._unmirrored:
                self._judge(group, {}, None, now)

    def moved(self, groups: Iterable[str], now: float) -> None:
        """These groups are in the middle of something, or just were."""
        self._agenda.moved(groups, now)

    def leave_alone(self, group: str, now: float) -> None:
        """The brokers do not answer for this one."""
        self._agenda.leave_alone(group, now)

    def ours(self, groups: Mapping[str, Listed], partitions: int) -> dict[str, Listed]:
        """Those that are in what the mirror reads and shows. The topic has so many partitions."""
        read = self._mirrored.reads()
        return {
            group: it
            for group, it in groups.items()
            if self._mirrored.shows(group) and partition_of(group, partitions) in read
        }

    def next(self, count: int, now: float, busy: Collection[int]) -> dict[str, int]:
        """The next groups to have described, with their partitions: at most so many, none of `busy` partitions."""
        out = {}
        for group in self._agenda.next(count, now, busy):
            view = self._mirrored.view(group)
            if view is None:
                continue
            if comparable(view):
                out[group] = self._places[group]
            else:
                self._agenda.leave_alone(group, now)
        return out

    def described(self, group: str, answer: Described, now: float) -> None:
        """A broker's word on a group that the mirror had when it was asked for."""
        view = self._mirrored.view(group)
        found = {} if view is None else differences(view, answer)
        if found is None or (view is not None and self._mirrored.behind().get(view.coordinator_partition) != 0):
            # Moving at the broker, or its records are on their way: held back by an open transaction, perhaps.
            return
        if view is not None:
            self._compared.add(group)
        self._judge(group, found, fingerprint(view), now)
        if found:
            self._agenda.moved([group], now)

    def listed(self, groups: Mapping[str, Listed], partitions: int, now: float) -> bool:
        """All groups that the brokers have; whether another list is wanted soon. The topic has so many partitions.

        Only a stable group can be missed. One without members may be there in memory alone: 4.x lists a group whose
        last offset was deleted until its next clean-up, and a group whose first rebalance did not complete has no
        record. Who may not describe a group is not shown it: so nothing is made of one that is not listed.
        """
        behind = self._mirrored.behind()
        before, self._unmirrored = self._unmirrored, set()
        for group, it in self.ours(groups, partitions).items():
            if it.state != GroupState.STABLE or group in self._places:
                continue
            if behind.get(partition_of(group, partitions)) == 0 and self._mirrored.view(group) is None:
                self._unmirrored.add(group)
        for group in self._unmirrored:
            listed = f"the broker has it, a {groups[group].group_type} group in state Stable; the mirror has not"
            self._judge(group, {"presence": listed}, None, now)
        for group in before - self._unmirrored - self._places.keys():
            self._judge(group, {}, None, now)
        return self._unmirrored != before

    def _judge(self, group: str, found: Differences, print: object, now: float) -> None:
        news = self._divergences.judge(group, found, print, now)
        if news is None:
            return
        name = repr(group[:MAX_NAME])
        if news:
            said = "; ".join(f"{field}: {text}" for field, text in news.items())
            log.warning("group %s: mirror and broker differ: %s", name, said[:MAX_SAID])
        else:
            log.info("group %s: mirror and broker no longer differ", name)

    @property
    def compared_groups(self) -> int:
        """How many groups of the mirror a broker's answer was compared with."""
        return len(self._compared)

    def counts(self) -> dict[str, int]:
        """How many groups differ, by field."""
        return self._divergences.counts()
