"""By which rule a cluster places its groups, told from where they stand; and the partitions that may hold a group.

A group *tells* where the two rules of `hashing.py` put it into different partitions. One that stands where a rule
puts it would do so by chance once in as many times as there are partitions; so two groups tell it of 50 partitions,
three of 16, seven of 3. Groups that stand where neither puts them speak against both: a topic whose number of
partitions was changed, or a coordinator with a rule of its own. Knows names and numbers, and no broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from agent.core.protocol.hashing import GroupPartitioner, partition_for_group

MAX_CHANCE = 0.001
"""How likely it may be that groups stand where a rule puts them by chance."""
MAX_MISPLACED = 0.1
"""The part of the groups that may stand elsewhere: what was written before the topic got more partitions, or by
hand."""


class GroupPlacement(Struct, frozen=True):
    """Of how many groups only one rule, or neither, says where they stand. Groups that both place alike count
    nowhere."""

    partitions: int
    by_kafka: int = 0
    by_redpanda: int = 0
    elsewhere: int = 0

    @property
    def telling(self) -> int:
        """How many groups tell anything."""
        return self.by_kafka + self.by_redpanda + self.elsewhere

    @property
    def partitioner(self) -> GroupPartitioner | None:
        """The rule, where it is sure enough."""
        likely, count = self._likeliest()
        is_known = self.chance <= MAX_CHANCE and self.telling - count <= MAX_MISPLACED * self.telling
        return likely if is_known else None

    @property
    def chance(self) -> float:
        """How likely it is that as many groups stand where the likelier rule puts them by chance; 0 to 1."""
        _, count = self._likeliest()
        return float(self.partitions) ** -count

    @property
    def is_by_neither(self) -> bool:
        """Whether groups stand where no rule that is known puts them."""
        return self.elsewhere >= 2 and self.elsewhere > MAX_MISPLACED * self.telling and self.partitioner is None

    def describe(self) -> str:
        """What was seen, in words."""
        if not self.telling:
            return "no group is known yet whose partition tells"
        likely, count = self._likeliest()
        return f"{count} of {self.telling} groups that tell stand where {likely.name.capitalize()}'s hash puts them"

    def _likeliest(self) -> tuple[GroupPartitioner, int]:
        if self.by_redpanda > self.by_kafka:
            return GroupPartitioner.REDPANDA, self.by_redpanda
        return GroupPartitioner.KAFKA, self.by_kafka


def observe_placement(groups: Iterable[tuple[str, int]], partitions: int) -> GroupPlacement:
    """What groups say, each with the partition that it stands in, of a topic with so many `partitions`."""
    kafka = redpanda = elsewhere = 0
    for group, partition in groups:
        by_kafka = partition_for_group(group, partitions, GroupPartitioner.KAFKA)
        by_redpanda = partition_for_group(group, partitions, GroupPartitioner.REDPANDA)
        if partition not in (by_kafka, by_redpanda):
            elsewhere += 1
        elif by_kafka != by_redpanda:
            kafka += partition == by_kafka
            redpanda += partition == by_redpanda
    return GroupPlacement(partitions, kafka, redpanda, elsewhere)


def possible_partitions(group: str, partitions: int, partitioner: GroupPartitioner | None) -> list[int]:
    """The partitions that may hold a group: one where the rule is known, else those of both."""
    rules = GroupPartitioner if partitioner is None else (partitioner,)
    return sorted({partition_for_group(group, partitions, it) for it in rules})
