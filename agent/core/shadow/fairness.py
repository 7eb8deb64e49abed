"""How evenly members share something out: pure functions, for the mirror, for analyzers and for metrics.

A fair share is the largest share if everything were shared out as evenly as the subscriptions allow; with one
subscription for all it is the mean. Where a partition could be cut in pieces it would be reached; it cannot, so no
fair share is less than one partition, and shares that no assignor could even out further count as even.

What a member shall hold (`Member.target`) counts before what it holds: that it gets there is its protocol's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from agent.core.protocol.states import GroupType
from agent.core.shadow.views import Member

_SWEEPS = 20
_MOST_WORK = 100_000
_CLOSE = 1e-6

_TASKS = (GroupType.CONNECT, GroupType.STREAMS)
"""Whose members share tasks, and name no topics."""


class Fairness(NamedTuple):
    """A fair share of partitions (or tasks), and how far from it the largest is."""

    fair: float
    ratio: float
    """Largest share / fair share; 1 is even."""


def fairness(
    group_type: str,
    shares: Collection[int],
    members: Callable[[], Sequence[Member]],
    are_alike: Callable[[], bool] = lambda: False,
) -> Fairness | None:
    """Of each member's share of partitions. None without members or partitions, and for share groups, whose
    partitions may have several members each.

    `members` gives them in the order of their ids, where the shares are uneven and `are_alike` does not know already
    that all of them want all that is held.
    """
    total = sum(shares)
    if group_type == GroupType.SHARE or not total:
        return None
    mean, largest = total / len(shares), max(shares)
    if largest <= largest_even_share(mean):
        # As even as can be, whatever the subscriptions: most groups are.
        return Fairness(max(mean, 1.0), 1.0)
    if not (group_type in _TASKS or are_alike() or share_subscription(group_type, known := members())):
        mean = fair_share(_held(known), obtainable_topics(group_type, known))
    fair = max(mean, 1.0)
    return Fairness(fair, 1.0 if largest <= largest_even_share(fair) else largest / fair)


def target_or_assignment(member: Member) -> Mapping[str, tuple[int, ...]]:
    """What a member holds, or shall hold soon."""
    return member.assignment if member.target is None else member.target


def largest_even_share(fair: float) -> int:
    """The largest share of partitions where they are shared out as evenly as whole partitions can be."""
    return ceil(fair - _CLOSE)


def _held(members: Sequence[Member]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for member in members:
        counts.update({topic: len(partitions) for topic, partitions in target_or_assignment(member).items()})
    return counts


def share_subscription(group_type: str, members: Sequence[Member]) -> bool:
    """Whether every member wants every topic that is held: nearly always so, and seen soon. False may mean no more
    than that it is not seen here."""
    if _name_no_topics(group_type, members):
        return True
    topics, pattern = (members[0].subscription, members[0].subscription_regex) if members else ((), None)
    if any(member.subscription != topics or member.subscription_regex != pattern for member in members):
        return False
    # What a member with a pattern holds all with that pattern want.
    return pattern is not None or all(topic in topics for member in members for topic in target_or_assignment(member))


def _name_no_topics(group_type: str, members: Sequence[Member]) -> bool:
    """Whether nothing tells what any member subscribes to, as where groups are sampled: any may get any."""
    return group_type in _TASKS or not any(it.subscription or it.subscription_regex for it in members)


def obtainable_topics(group_type: str, members: Sequence[Member]) -> dict[str, frozenset[str]]:
    """By member id, the topics that are held in the group and that it could get partitions of."""
    every = frozenset(topic for member in members for topic in target_or_assignment(member))
    if _name_no_topics(group_type, members):
        return dict.fromkeys((member.member_id for member in members), every)
    by_pattern: dict[str | None, set[str]] = {}
    for member in members:
        by_pattern.setdefault(member.subscription_regex, set()).update(target_or_assignment(member))
    out: dict[str, frozenset[str]] = {}
    for member in members:
        topics = every.intersection(member.subscription).union(target_or_assignment(member))
        if member.subscription_regex is not None:
            # Which topics a pattern matches shows in what members with that pattern hold.
            topics |= by_pattern[member.subscription_regex]
        out[member.member_id] = frozenset(topics)
    return out


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
