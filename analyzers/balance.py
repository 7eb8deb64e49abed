"""How evenly a group shares out partitions and records: pure functions, for analyzers and for metrics.

`agent.core.shadow.fairness` says what a fair share is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.core.protocol.assignors import AssignmentProblem, MemberSubscription
from agent.core.protocol.states import GroupType
from agent.core.shadow.diff import owners_by_partition
from agent.core.shadow.fairness import (
    fair_share,
    fairness,
    obtainable_topics,
    share_subscription,
    target_or_assignment,
)
from agent.core.shadow.views import GroupView, Member
from analyzers.api import TopicPartition

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


def load_imbalance(view: GroupView, consumed: Mapping[TopicPartition, int]) -> float | None:
    """Largest share of consumed records / fair share; None if nothing was consumed of what members hold."""
    spread = load_spread(view, consumed)
    return None if spread is None else spread.ratio


def settled_from_ms(view: GroupView) -> int:
    """Until when an uneven assignment may be meant to be, epoch milliseconds."""
    if view.group_type == GroupType.CONNECT:
        return view.state_since_ms + CONNECT_DELAY_MS
    if _has_withheld_partitions(view.members):
        # The round that gives them away waits for members that died, up to the longest rebalance timeout.
        return view.state_since_ms + max((it.rebalance_timeout_ms or 0 for it in view.members), default=0)
    return view.state_since_ms


def _has_withheld_partitions(members: Sequence[Member]) -> bool:
    """Whether a cooperative round took partitions back that the next one is to give away."""
    came_with = {(topic, it) for member in members for topic, owned in (member.owned or {}).items() for it in owned}
    return (
        bool(came_with)
        and not came_with <= owners_by_partition({member.member_id: member.assignment for member in members}).keys()
    )


def partition_spread(view: GroupView) -> Spread | None:
    """Partitions by member. None without members or partitions, and for share groups, whose partitions may have
    several members each."""
    shares = {member.member_id: sum(map(len, target_or_assignment(member).values())) for member in view.members}
    found = fairness(view.group_type, shares.values(), lambda: view.members)
    return None if found is None else Spread(shares, *found)


def load_spread(view: GroupView, consumed: Mapping[TopicPartition, int]) -> Spread | None:
    """Records by member, of the partitions that each has now. None where none were consumed, and for share groups."""
    if view.group_type == GroupType.SHARE:
        return None
    amounts: Counter[str] = Counter()
    shares: dict[str, int] = {}
    partitions = 0
    for member in view.members:
        shares[member.member_id] = 0
        for topic, numbers in target_or_assignment(member).items():
            records = sum(consumed.get((topic, number), 0) for number in numbers)
            shares[member.member_id] += records
            amounts[topic] += records
            partitions += len(numbers)
    total = amounts.total()
    if not total:
        return None
    fair = max(fair_share(amounts, obtainable_topics(view.group_type, view.members)), total / partitions)
    return Spread(shares, fair, max(shares.values()) / fair)


class LoadPlan(NamedTuple):
    """What tells the load's imbalance of a group whose members all want the same, in short: for who asks often."""

    owned: tuple[tuple[TopicPartition, ...], ...]
    """What each member has."""

    def imbalance(self, consumed: Mapping[TopicPartition, int]) -> float | None:
        """As `load_imbalance`."""
        shares = [sum([consumed.get(slot, 0) for slot in slots]) for slots in self.owned]
        total = sum(shares)
        if not total:
            return None
        return max(shares) / max(total / len(shares), total / sum(map(len, self.owned)))


def load_plan(view: GroupView, slots: Iterable[TopicPartition] = ()) -> LoadPlan | None:
    """None where members want different topics, or where nothing is told of a group's load.

    The plan takes those of `slots` that it needs for its own, so that they are not in memory twice.
    """
    if view.group_type == GroupType.SHARE or not share_subscription(view.group_type, view.members):
        return None
    same = {slot: slot for slot in slots}
    owned = []
    for member in view.members:
        has = ((topic, number) for topic, numbers in target_or_assignment(member).items() for number in numbers)
        owned.append(tuple([same.get(slot, slot) for slot in has]))
    return LoadPlan(tuple(owned))


def held_partitions(view: GroupView) -> dict[str, list[int]]:
    """By topic the partitions that members hold or shall hold, in order."""
    held: dict[str, set[int]] = {}
    for member in view.members:
        for topic, numbers in target_or_assignment(member).items():
            held.setdefault(topic, set()).update(numbers)
    return {topic: sorted(numbers) for topic, numbers in held.items()}


def assignment_problem(view: GroupView, held: Mapping[str, Collection[int]]) -> AssignmentProblem:
    """What an assignor would be asked. Topics have as many partitions as are `held`: the first there stands for the
    least number, and so on. A number is a client's word, and may be two thousand million."""
    partitions = {topic: len(numbers) for topic, numbers in held.items()}
    wanted = obtainable_topics(view.group_type, view.members)
    members = {it.member_id: MemberSubscription(wanted[it.member_id], it.instance_id) for it in view.members}
    return AssignmentProblem(partitions, members)
