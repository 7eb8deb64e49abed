"""How evenly a group shares out partitions and records: pure functions, for analyzers and for metrics.

A fair share is the largest share if everything were shared out as evenly as the subscriptions allow; with one
subscription for all it is the mean. Where a partition could be cut in pieces it would be reached; it cannot, so no
fair share is less than one partition, and shares that no assignor could even out further count as even.

What a member shall hold (`Member.target`) counts before what it holds: that it gets there is its protocol's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import ceil
from typing import NamedTuple

from agent.coordinator.assignors import Problem, Subscribed
from agent.coordinator.states import GroupType
from agent.shadow.views import GroupView, Member
from analyzers.api import Slot

_SWEEPS = 20
_MOST_WORK = 100_000
_CLOSE = 1e-6

_TASKS = (GroupType.CONNECT, GroupType.STREAMS)
"""Whose members share tasks, and name no topics: any may get any."""

STREAMS_PROTOCOL = "stream"
"""The assignor of Kafka Streams in a classic group: it assigns tasks, and nobody chooses another."""

CONNECT_DELAY_MS = 360_000
"""Connect leaves a worker's tasks alone for `scheduled.rebalance.max.delay.ms`, 5 minutes unless set, to see whether
it comes back; until then an uneven assignment is meant to be (KIP-415). A minute more for the rounds that follow."""


class Spread(NamedTuple):
    """How something is shared out: each member's share by member id, and a fair one."""

    shares: Mapping[str, int]
    fair: float
    ratio: float
    """Largest share / fair share; 1 is even."""

    @property
    def largest(self) -> int:
        """The largest share."""
        return max(self.shares.values())


def assignment_imbalance(view: GroupView) -> float | None:
    """Largest share of partitions (or tasks) / fair share; None if nothing is shared out."""
    spread = partition_spread(view)
    return None if spread is None else spread.ratio


def load_imbalance(view: GroupView, consumed: Mapping[Slot, int]) -> float | None:
    """Largest share of consumed records / fair share; None if nothing was consumed of what members hold."""
    spread = load_spread(view, consumed)
    return None if spread is None else spread.ratio


def holds(member: Member) -> Mapping[str, tuple[int, ...]]:
    """What a member holds, or shall hold soon."""
    return member.assignment if member.target is None else member.target


def settles_ms(view: GroupView) -> int:
    """Until when an uneven assignment may be meant to be, epoch milliseconds."""
    return view.state_since_ms + CONNECT_DELAY_MS if view.group_type == GroupType.CONNECT else view.state_since_ms


def partition_spread(view: GroupView) -> Spread | None:
    """Partitions by member. None without members or partitions, and for share groups, whose partitions may have
    several members each."""
    shares = {member.member_id: sum(map(len, holds(member).values())) for member in view.members}
    total = sum(shares.values())
    if view.group_type == GroupType.SHARE or not total:
        return None
    mean = total / len(shares)
    if max(shares.values()) <= most_even(mean):
        # As even as can be, whatever the subscriptions: most groups are.
        return Spread(shares, max(mean, 1.0), 1.0)
    fair = max(mean if _want_alike(view) else fair_share(_held(view), wanted_topics(view)), 1.0)
    largest = max(shares.values())
    return Spread(shares, fair, 1.0 if largest <= most_even(fair) else largest / fair)


def _held(view: GroupView) -> Counter[str]:
    counts: Counter[str] = Counter()
    for member in view.members:
        counts.update({topic: len(partitions) for topic, partitions in holds(member).items()})
    return counts


def load_spread(view: GroupView, consumed: Mapping[Slot, int]) -> Spread | None:
    """Records by member, of the partitions that each has now. None where none were consumed, and for share groups."""
    if view.group_type == GroupType.SHARE:
        return None
    amounts: Counter[str] = Counter()
    shares: dict[str, int] = {}
    partitions = 0
    for member in view.members:
        shares[member.member_id] = 0
        for topic, numbers in holds(member).items():
            records = sum(consumed.get((topic, number), 0) for number in numbers)
            shares[member.member_id] += records
            amounts[topic] += records
            partitions += len(numbers)
    total = amounts.total()
    if not total:
        return None
    fair = max(fair_share(amounts, wanted_topics(view)), total / partitions)
    return Spread(shares, fair, max(shares.values()) / fair)


class LoadPlan(NamedTuple):
    """What tells the load's imbalance of a group whose members all want the same, in short: for who asks often."""

    owned: tuple[tuple[Slot, ...], ...]
    """What each member has."""

    def imbalance(self, consumed: Mapping[Slot, int]) -> float | None:
        """As `load_imbalance`."""
        shares = [sum([consumed.get(slot, 0) for slot in slots]) for slots in self.owned]
        total = sum(shares)
        if not total:
            return None
        return max(shares) / max(total / len(shares), total / sum(map(len, self.owned)))


def load_plan(view: GroupView, slots: Iterable[Slot] = ()) -> LoadPlan | None:
    """None where members want different topics, or where nothing is told of a group's load.

    The plan takes those of `slots` that it needs for its own, so that they are not in memory twice.
    """
    if view.group_type == GroupType.SHARE or not _want_alike(view):
        return None
    same = {slot: slot for slot in slots}
    owned = []
    for member in view.members:
        has = ((topic, number) for topic, numbers in holds(member).items() for number in numbers)
        owned.append(tuple([same.get(slot, slot) for slot in has]))
    return LoadPlan(tuple(owned))


def _want_alike(view: GroupView) -> bool:
    """Whether every member wants every topic that is held: nearly always so, and seen soon. False may mean no more
    than that it is not seen here."""
    if view.group_type in _TASKS:
        return True
    first = view.members[0].subscription if view.members else ()
    if any(member.subscription != first or member.subscription_regex is not None for member in view.members):
        return False
    return all(topic in first for member in view.members for topic in holds(member))


def most_even(fair: float) -> int:
    """The largest share of partitions where they are shared out as evenly as whole partitions can be."""
    return ceil(fair - _CLOSE)


def wanted_topics(view: GroupView) -> dict[str, frozenset[str]]:
    """By member id, the topics that are held in the group and that it could get partitions of."""
    every = {topic for member in view.members for topic in holds(member)}
    by_pattern: dict[str | None, set[str]] = {}
    for member in view.members:
        by_pattern.setdefault(member.subscription_regex, set()).update(holds(member))
    out: dict[str, frozenset[str]] = {}
    for member in view.members:
        topics = every.intersection(member.subscription).union(holds(member))
        if view.group_type in _TASKS:
            topics = every
        elif member.subscription_regex is not None:
            # Which topics a pattern matches shows in what members with that pattern hold.
            topics |= by_pattern[member.subscription_regex]
        out[member.member_id] = frozenset(topics)
    return out


def problem_of(view: GroupView) -> Problem:
    """What an assignor would be asked. Topics have as many partitions as are held."""
    partitions: dict[str, int] = {}
    for member in view.members:
        for topic, numbers in holds(member).items():
            partitions[topic] = max(partitions.get(topic, 0), *(number + 1 for number in numbers), 0)
    wanted = wanted_topics(view)
    members = {it.member_id: Subscribed(wanted[it.member_id], it.instance_id) for it in view.members}
    return Problem(partitions, members)


def fair_share(amounts: Mapping[str, int], wanted: Mapping[str, frozenset[str]]) -> float:
    """The largest share where each topic's amount is shared out, in any pieces, among the members that want it; some
    amount is above zero, and somebody wants it.

    Subscriptions may differ: topic by topic each amount is poured over the members that want it, onto the emptiest
    first, and again until nothing moves. What comes out can be reached, and at the end is the least.
    """
    topics = frozenset(topic for topic, amount in amounts.items() if amount)
    kinds = Counter(shared for it in wanted.values() if (shared := it & topics))
    if len(kinds) == 1:
        return sum(amounts.values()) / kinds.total()
    sizes = list(kinds.values())
    pools: Counter[tuple[int, ...]] = Counter()
    for topic in sorted(topics):
        pools[tuple(at for at, kind in enumerate(kinds) if topic in kind)] += amounts[topic]
    levels = [0.0] * len(sizes)
    poured = {takers: dict.fromkeys(takers, 0.0) for takers in pools}
    for _ in range(max(1, min(_SWEEPS, _MOST_WORK // (len(pools) * len(sizes))))):
        before = levels.copy()
        for takers, amount in pools.items():
            for at, height in poured[takers].items():
                levels[at] -= height
            poured[takers] = _pour(amount, takers, levels, sizes)
            for at, height in poured[takers].items():
                levels[at] += height
        if all(abs(level - was) < _CLOSE for level, was in zip(levels, before, strict=True)):
            break
    return max(levels)


def _pour(amount: int, takers: Collection[int], levels: list[float], sizes: list[int]) -> dict[int, float]:
    """By how much each taker's level rises."""
    order = sorted(takers, key=levels.__getitem__)
    volume, width, level = float(amount), 0, 0.0
    for at, following in zip(order, [*order[1:], None], strict=True):
        volume += levels[at] * sizes[at]
        width += sizes[at]
        level = volume / width
        if following is not None and level <= levels[following]:
            break
    return {at: max(level - levels[at], 0.0) for at in takers}
