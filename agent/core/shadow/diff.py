"""What differs between two memberships of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import ne
from typing import NamedTuple

from agent.core.shadow.views import Member

Assignment = Mapping[str, tuple[int, ...]]
Partition = tuple[str, int]


class MemberChanges(NamedTuple):
    """Members that joined, that left, and static members that came back under a new id (old, new)."""

    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    replaced: tuple[tuple[Member, Member], ...]


def member_changes(old: Mapping[str, Member], new: Mapping[str, Member]) -> MemberChanges:
    """Compare two memberships by member id.

    A static member that is in both under different ids was replaced (KIP-345): it neither joined nor left.
    """
    came = {member_id: member for member_id, member in new.items() if member_id not in old}
    gone = {member_id: member for member_id, member in old.items() if member_id not in new}
    replaced = []
    if came and gone:
        by_instance = {member.instance_id: member for member in gone.values() if member.instance_id is not None}
        for member in list(came.values()):
            before = by_instance.pop(member.instance_id, None) if member.instance_id is not None else None
            if before is not None:
                replaced.append((before, member))
                del came[member.member_id], gone[before.member_id]
    return MemberChanges(tuple(came.values()), tuple(gone.values()), tuple(replaced))


class AssignmentDiff(NamedTuple):
    """Partitions assigned in all; those that gained an owner they had not; those that have none any more."""

    assigned: int
    gained: int
    lost: int


def assignment_diff(before: Mapping[Partition, str], after: Mapping[Partition, str]) -> AssignmentDiff:
    """Compare two assignments, each partition's owner in each. An owner is whatever stays the same for one member."""
    # Groups of some 100,000 partitions are seen, and whoever asks waits meanwhile: so it runs in C.
    gained = sum(map(ne, map(before.get, after), after.values()))
    return AssignmentDiff(len(after), gained, len(before.keys() - after.keys()))


def owners_by_partition(assignments: Mapping[str, Assignment]) -> dict[Partition, str]:
    """Each assigned partition's owner, from each owner's assignment."""
    out: dict[Partition, str] = {}
    for owner, assignment in assignments.items():
        for topic, partitions in assignment.items():
            out.update(zip(zip(repeat(topic), partitions), repeat(owner)))
    return out


def owner_key(member_id: str, instance_id: str | None) -> str:
    """What stays the same for one member: its static id if it has one, else its member id."""
    # A member id ends in a UUID, so a static id cannot be taken for one; the prefix makes sure of it.
    return member_id if instance_id is None else f"instance:{instance_id}"


def held_partitions(members: Iterable[Member]) -> dict[Partition, str]:
    """The `owner_key` of each partition that one of them has."""
    return owners_by_partition({owner_key(it.member_id, it.instance_id): it.assignment for it in members})
