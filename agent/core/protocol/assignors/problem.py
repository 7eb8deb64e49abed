"""What an assignor is asked and what it answers, and the orders in which Kafka's classes look at both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from agent.core.protocol.hashing import hash_map_bucket

Slot = tuple[str, int]
"""A topic's name and a partition of it."""

Assignment = dict[str, list[Slot]]
"""By member id, partitions sorted by topic and number; every member is in it."""


class AssignmentNeverEnds(ValueError):
    """Kafka's own class does not come to an end for a problem: the member that leads would never answer."""


class MemberSubscription(Struct, frozen=True):
    """What an assignor knows of a member: the topics that it wants, its static id, and what it has.

    `generation` is the one in which it got what it has, where that is known: of two that claim the same partition
    the one with the newer generation has it.
    """

    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[Slot, ...] = ()
    generation: int | None = None


class AssignmentProblem(Struct, frozen=True):
    """What is to be assigned: how many partitions each topic has, and the members by id.

    A subscribed topic that is not in `partitions` does not exist.
    """

    partitions: Mapping[str, int]
    members: Mapping[str, MemberSubscription]

    def subscribed_topics(self) -> dict[str, int]:
        """The topics with partitions that somebody wants, in order: what is shared out."""
        topics = frozenset[str]().union(*(member.topics for member in self.members.values()))
        return {topic: count for topic, count in sorted(self.partitions.items()) if count > 0 and topic in topics}

    def has_equal_subscriptions(self) -> bool:
        """Whether all members subscribe to the same topics, those included that do not exist."""
        return len({member.topics for member in self.members.values()}) <= 1


def sorted_member_ids(problem: AssignmentProblem) -> list[str]:
    """Member ids as assignors sort them (`MemberInfo.compareTo`): static members first, by their static ids."""

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = problem.members[member_id].instance_id
        return instance_id is None, java_sort_key(instance_id or member_id)

    return sorted(problem.members, key=place)


def java_sort_key(text: str) -> bytes:
    """What to sort texts by to have Java's order, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_set_order(numbers: Iterable[int]) -> list[int]:
    """Ascending numbers in the order in which a `HashSet` made of their list goes through them."""
    items = sorted(numbers)
    # Sized for the list at once, and more generously than a set that grows.
    size = 16
    while size < int(len(items) / 0.75) + 1:
        size *= 2
    return sorted(items, key=lambda number: hash_map_bucket(number, size))


def by_topic(slots: Iterable[Slot]) -> dict[str, list[int]]:
    """Each topic once, with its partitions, in the order in which they come."""
    out: dict[str, list[int]] = {}
    for topic, number in slots:
        out.setdefault(topic, []).append(number)
    return out


def to_assignment(problem: AssignmentProblem, held: Mapping[str, Iterable[Slot]]) -> Assignment:
    """An answer: every member, its partitions sorted."""
    return {member_id: sorted(held.get(member_id, ())) for member_id in problem.members}
