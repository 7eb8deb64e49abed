"""Whether the mirror says of a group what its broker says.

Owns the comparison, and what of it counts. Records are on their way for some milliseconds, so a difference counts
only if it is there a second time, seconds later, and the mirror's view of the group is the same as then. Refuses to
know how the answers came; time is an argument (seconds).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from agent.core.protocol.states import GroupState, GroupType
from agent.core.shadow.views import GroupView
from agent.kafka.admin_api.answers import Assignment, DescribedGroup

FIELDS = ("assignment", "members", "presence", "protocol", "state", "type")
"""What is compared: every value of the metric's label. `presence` is that only one of both has the group."""

CONFIRM_S = 4.0
"""How long after the first a second answer confirms it: longer than a healthy reader is behind, shorter than the
agenda's pause for such groups."""

AT_REST = frozenset({GroupState.STABLE, GroupState.EMPTY})
_ID = re.compile(r"[A-Za-z0-9_-]{22}")

Differences = dict[str, str]
"""By field what both say, for people."""


class ObserverReading(Struct, frozen=True):
    """What a scrape exports of the observer.

    `requests` counts questions by `AdminOutcome`. `divergences` counts groups by field, empty before anything was
    compared; `rebalancing` counts groups by state.
    """

    requests: Mapping[str, int]
    compared_groups: int
    divergences: Mapping[str, int]
    rebalancing: Mapping[str, int]


def is_describable(view: GroupView) -> bool:
    """Whether librdkafka's DescribeConsumerGroups answers for such a group: not for share and streams groups, and of
    classic ones for consumers' only, not for Connect's or a schema registry's."""
    if view.group_type == GroupType.CONSUMER:
        return True
    return view.group_type == GroupType.CLASSIC and view.protocol_type in (None, "consumer")


def differences(view: GroupView, it: DescribedGroup) -> Differences | None:
    """What the mirror and the broker say differently, empty if nothing; None while the group moves at the broker."""
    if it.state == GroupState.DEAD:
        # What a coordinator says of a group that it has not got.
        return {"presence": f"the broker has no such group, the mirror has it in state {view.state}"}
    if it.state not in AT_REST:
        return None
    ours = {member.member_id: member.assignment for member in view.members}
    out: Differences = {}
    if view.group_type != it.group_type:
        out["type"] = _both(it.group_type, view.group_type)
    if view.state != it.state:
        out["state"] = _both(it.state, view.state)
    if ours.keys() != it.members.keys():
        out["members"] = _both(sorted(it.members.keys() - ours.keys()), sorted(ours.keys() - it.members.keys()))
    # A consumer group's assignor may be the broker's default, which no record names.
    if (view.protocol or "") != it.protocol and not (view.protocol is None and view.group_type == GroupType.CONSUMER):
        out["protocol"] = _both(it.protocol, view.protocol)
    for member_id in sorted(ours.keys() & it.members.keys()):
        theirs = it.members[member_id]
        if not _same_partitions(ours[member_id], theirs):
            out["assignment"] = f"member {member_id!r}: {_both(dict(theirs), dict(ours[member_id]))}"
            break
    return out


def _both(theirs: object, ours: object) -> str:
    return f"broker {theirs!r}, mirror {ours!r}"


def _same_partitions(ours: Assignment, theirs: Assignment) -> bool:
    mine = {topic: sorted(numbers) for topic, numbers in ours.items() if numbers}
    their = {topic: sorted(numbers) for topic, numbers in theirs.items() if numbers}
    for topic in mine.keys() & their.keys():
        if mine.pop(topic) != their.pop(topic):
            return False
    # KIP-848 records name topics by id; where nothing showed the name the id stands for it, and numbers must do.
    return all(map(_ID.fullmatch, mine)) and sorted(mine.values()) == sorted(their.values())


def fingerprint(view: GroupView | None) -> object:
    """What is the same as long as no record changed the mirror's view of the group, commits apart."""
    if view is None:
        return None
    return view.group_type, view.state, view.generation, view.target_generation, view.state_since_ms, view.members


class _Suspect(Struct, frozen=True):
    print: object
    since: Mapping[str, float]
    """By field when it was first seen to differ while the mirror's view was this one."""
    confirmed: frozenset[str]


class DivergenceTracker:
    """The groups that differ, and those that may."""

    def __init__(self) -> None:
        self._suspects: dict[str, _Suspect] = {}

    def update(self, group: str, found: Differences, print: object, now: float) -> Differences | None:
        """Take a comparison in; what differs for certain, if these are other fields than before, else None.

        An empty answer is the news that nothing differs any more.
        """
        before = self._suspects.pop(group, None)
        confirmed_before = frozenset[str]() if before is None else before.confirmed
        confirmed = confirmed_before & found.keys()
        if found:
            known = before.since if before is not None and before.print == print else {}
            since = {field: known.get(field, now) for field in found}
            confirmed |= {field for field, first in since.items() if now - first >= CONFIRM_S}
            self._suspects[group] = _Suspect(print, since, confirmed)
        if confirmed == confirmed_before:
            return None
        return {field: found[field] for field in sorted(confirmed)}

    @property
    def suspected_groups(self) -> list[str]:
        """Groups of which another answer is wanted soon."""
        return list(self._suspects)

    def counts(self) -> dict[str, int]:
        """How many groups differ for certain, by field; every field is there."""
        counts = Counter(field for suspect in list(self._suspects.values()) for field in suspect.confirmed)
        return {field: counts[field] for field in FIELDS}
