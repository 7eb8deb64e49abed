"""Which groups to look at next, within a budget of requests: those that move first, then what was not seen longest.

Owns the order and what a look costs; time is an argument (seconds of a clock that runs evenly). Refuses to know what
an answer says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

MOVING_S = 0.25
"""How soon a group that rebalances, or whose rebalance is not told yet, is looked at again."""
COMMITS_S, MEMBERS_S, IDLE_S = 0.5, 10.0, 15.0
"""The shortest time between two looks at the commits of a group with members, and at the members of one of KIP-848,
of which no state tells a rebalance; at the members of a classic group that rests; at the commits of one without."""
HOT_S = 120.0
"""For how long after a rebalance a group's commits are looked at before those of others: it may well come again."""
OTHERS_SHARE = 0.25
"""Of the requests, what is for the others while groups move: those may prepare a rebalance for minutes."""
LEAST_SUSPENDED_S, SUSPENDED_S = 5.0, 600.0
"""How long a group that cannot be asked for (no right, or the brokers know no such question of it) is left alone: at
first, and at the most, as each refusal doubles it."""


class Kind(StrEnum):
    """What is asked of a group."""

    LOOK = "look"
    OFFSETS = "offsets"
    DESCRIBE = "describe"


class Question(NamedTuple):
    """One group to ask for."""

    kind: Kind
    group: str


class GroupTraits(NamedTuple):
    """What decides how often a group is asked for: whether it has members, whether it is one of KIP-848."""

    has_members: bool
    is_kip848: bool


class _Queue:
    """Groups, by when each was asked for last; none sooner than after an interval."""

    def __init__(self, kind: Kind, interval_s: float) -> None:
        self.kind, self.interval_s = kind, interval_s
        self.asked: dict[str, float] = {}

    def put(self, group: str) -> None:
        self.asked.setdefault(group, -self.interval_s)

    def drop(self, group: str) -> None:
        self.asked.pop(group, None)

    def take(self, now: float, busy: Collection[str], first: Collection[str]) -> str | None:
        """The one that was asked for longest ago, those of `first` before the others; None where none is due."""
        for group in first:
            if group in self.asked and group not in busy and self.asked[group] + self.interval_s <= now:
                return self._taken(group, now)
        for group, at in self.asked.items():
            if at + self.interval_s > now:
                return None
            if group not in busy:
                return self._taken(group, now)
        return None

    def _taken(self, group: str, now: float) -> str:
        del self.asked[group]
        self.asked[group] = now
        return group


COSTS = {Kind.LOOK: 5.0, Kind.OFFSETS: 2.0, Kind.DESCRIBE: 3.0}
"""Requests that a question leads to in a classic group (`agent.kafka.admin_api.child`), those for its coordinator
included."""


class LookScheduler:
    """The groups there are, and what to ask of them next."""

    def __init__(self) -> None:
        self._traits: dict[str, GroupTraits] = {}
        self._urgent: dict[str, float] = {}
        """Groups that move: when each is due."""
        self._hot: dict[str, float] = {}
        self._new: dict[str, None] = {}
        self._busy: set[str] = set()
        self._left_alone: dict[str, float] = {}
        self._suspended_s: dict[str, float] = {}
        # Commits tell most, so they are asked for most often; descriptions show what no state told.
        self._commits = _Queue(Kind.OFFSETS, COMMITS_S)
        self._epochs = _Queue(Kind.DESCRIBE, COMMITS_S)
        self._members = _Queue(Kind.DESCRIBE, MEMBERS_S)
        self._idle = _Queue(Kind.OFFSETS, IDLE_S)
        self._turns = (
            self._commits,
            self._epochs,
            self._commits,
            self._members,
            self._commits,
            self._epochs,
            self._commits,
            self._idle,
        )
        self._turn = 0
        self._owed = 0.0
        """Requests that are due to the others, for those that went to groups that move."""

    def set_groups(self, groups: Mapping[str, GroupTraits]) -> None:
        """The groups there are now."""
        for group in self._traits.keys() - groups.keys():
            for kept in (self._urgent, self._hot, self._new, self._left_alone, self._suspended_s):
                kept.pop(group, None)
            for queue in (self._commits, self._epochs, self._members, self._idle):
                queue.drop(group)
        for group, traits in groups.items():
            before = self._traits.get(group)
            if before is None:
                self._new[group] = None
            if before == traits:
                continue
            wanted = [self._commits, self._epochs if traits.is_kip848 else self._members]
            if not traits.has_members:
                wanted = [self._idle]
            for queue in (self._commits, self._epochs, self._members, self._idle):
                if queue in wanted:
                    queue.put(group)
                else:
                    queue.drop(group)
        self._traits = dict(groups)

    def moved(self, groups: Iterable[str], now: float) -> None:
        """These are rebalancing, or were a moment ago: they are looked at before all others."""
        for group in groups:
            if group in self._traits:
                self._urgent.setdefault(group, now)
                self._hot.pop(group, None)
                self._hot[group] = now + HOT_S

    def settled(self, group: str) -> None:
        """Its rebalance is told."""
        self._urgent.pop(group, None)

    def answered(self, groups: Iterable[str]) -> None:
        """They may be asked for again."""
        self._busy.difference_update(groups)

    def dropped(self) -> None:
        """What was asked is not answered any more."""
        self._busy.clear()

    def suspend(self, group: str, now: float) -> None:
        """It cannot be asked for."""
        for_s = min(2 * self._suspended_s.get(group, LEAST_SUSPENDED_S / 2), SUSPENDED_S)
        self._suspended_s[group], self._left_alone[group] = for_s, now + for_s
        self._urgent.pop(group, None)
        self._new.pop(group, None)

    def resume(self, group: str) -> None:
        """It can be asked for again."""
        self._suspended_s.pop(group, None)
        self._left_alone.pop(group, None)

    def next_questions(self, requests: float, most: int, now: float) -> list[Question]:
        """What to ask now, at most `most` questions and for no more than so many requests; they count as asked."""
        for expiring in (self._hot, self._left_alone):
            for group in [group for group, until in expiring.items() if until <= now]:
                del expiring[group]
        out: list[Question] = []
        busy = self._busy | self._left_alone.keys()
        while len(out) < most and requests > 0:
            question = self._next(now, busy)
            if question is None:
                break
            out.append(question)
            busy.add(question.group)
            self._busy.add(question.group)
            requests -= self.cost(question)
        return out

    def cost(self, question: Question) -> float:
        """How many requests a question leads to."""
        traits = self._traits.get(question.group)
        is_kip848 = traits is not None and traits.is_kip848
        return COSTS[question.kind] - (1 if is_kip848 and question.kind is not Kind.OFFSETS else 0)

    def _next(self, now: float, busy: Collection[str]) -> Question | None:
        due = [(at, group) for group, at in self._urgent.items() if at <= now and group not in busy]
        if not due or self._owed >= COSTS[Kind.OFFSETS]:
            # Looks at those that move show their commits, too.
            other = self._next_other(now, {*busy, *self._urgent})
            self._owed = 0.0 if other is None else max(self._owed - self.cost(other), 0.0)
            if other is not None or not due:
                return other
        _, group = min(due)
        self._urgent[group] = now + MOVING_S
        question = Question(Kind.LOOK, group)
        self._owed += self.cost(question) * OTHERS_SHARE / (1 - OTHERS_SHARE)
        return question

    def _next_other(self, now: float, busy: Collection[str]) -> Question | None:
        """Of those that do not move, or were not looked at yet."""
        for group in self._new:
            if group not in busy:
                del self._new[group]
                return Question(Kind.LOOK if self._traits[group].has_members else Kind.OFFSETS, group)
        hot = list(reversed(self._hot))
        for _ in self._turns:
            queue = self._turns[self._turn % len(self._turns)]
            # Each second time: many that rebalance again and again would leave nothing for the others.
            is_for_hot = queue is self._commits and self._turn % 4 == 0
            self._turn += 1
            group_or_none = queue.take(now, busy, hot if is_for_hot else ())
            if group_or_none is not None:
                return Question(queue.kind, group_or_none)
        return None
