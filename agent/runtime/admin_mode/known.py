"""What the brokers said of each group last, as views and committed offsets.

Owns no process and no clock: times are arguments, epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from agent.core.protocol.states import GroupState
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.views import CommittedOffset, GroupView, Member
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.kafka.admin_api.answers import DescribedGroup, FetchedOffset, ListedGroup
from agent.presentation.json_views import LagOf, describe_json, group_json

UNKNOWN_NUMBER = -1
"""Of a number that the Admin API does not give: a group's generation, its partition of the topic."""

Form = dict[str, Any]


class AdminGroups:
    """All groups. One thread changes it; whoever else reads it holds the lock that it does so under."""

    def __init__(self) -> None:
        self.offsets = CommittedOffsets()
        """What was committed, as the mirror keeps it; with the time at which it was asked for in place of its own."""
        self._views: dict[str, GroupView] = {}
        self._waiting: set[str] = set()

    @property
    def groups(self) -> Collection[str]:
        """Those that there are."""
        return self._views.keys()

    @property
    def pending(self) -> int:
        """How many groups were listed and not asked for yet, or not with an answer."""
        return len(self._waiting)

    def update_list(self, groups: Mapping[str, ListedGroup], *, is_whole: bool) -> list[str]:
        """Groups that there are, and no others if `is_whole`; those in another state than before."""
        moved = []
        for group, it in groups.items():
            view = self._views.get(group)
            if view is None:
                self._waiting.add(group)
                self._views[group] = _view(group, it)
            elif view.state != it.state:
                moved.append(group)
                self._views[group] = replace(view, state=it.state)
        if is_whole:
            for group in self._views.keys() - groups.keys():
                self._drop(group)
        return moved

    def update_description(self, group: str, it: DescribedGroup) -> None:
        """A broker's description."""
        view = self._views.get(group)
        if view is None:
            return
        if it.state == GroupState.DEAD:
            # What a coordinator says of a group that it has not got.
            self._drop(group)
            return
        self._views[group] = replace(
            view,
            group_type=_type(it.group_type),
            state=it.state,
            protocol=it.protocol or None,
            protocol_type="consumer",
            members=tuple(
                Member(
                    member_id=member_id,
                    client_id=client.client_id,
                    client_host=client.host,
                    instance_id=client.instance_id,
                    assignment={topic: tuple(sorted(numbers)) for topic, numbers in it.members[member_id].items()},
                )
                for member_id, client in it.clients.items()
            ),
        )

    def mark_unavailable(self, group: str) -> None:
        """It cannot be asked for more: what the list tells is all."""
        self._waiting.discard(group)

    def update_offsets(self, group: str, positions: Collection[FetchedOffset], at_ms: int) -> None:
        """All that a group has committed, as of then."""
        view = self._views.get(group)
        if view is None:
            return
        self._waiting.discard(group)
        before = set(self.offsets.groups.get(group, ()))
        for it in positions:
            key = commit_key(group, it.topic, it.partition)
            value = commit_value(it.offset, at_ms, it.leader_epoch, it.metadata)
            self.offsets.put(key, group, it.topic, it.partition, value)
            before.discard(key)
        for key in before:
            self.offsets.remove(key, group)
        self._views[group] = replace(view, committed_partitions=len(positions))

    def _drop(self, group: str) -> None:
        self._views.pop(group, None)
        self._waiting.discard(group)
        for key in list(self.offsets.groups.get(group, ())):
            self.offsets.remove(key, group)

    def views(self) -> list[GroupView]:
        """Every group, by name."""
        return [view for _, view in sorted(self._views.items())]

    def find(self, group: str) -> tuple[GroupView, tuple[CommittedOffset, ...]] | None:
        """One group with what it has committed."""
        view = self._views.get(group)
        return None if view is None else (view, self.offsets.view(group))


def group_row(view: GroupView, lag: int | None) -> Form:
    """`group_form`, with null for what is not known here."""
    return {**group_json(view, lag), **_NOT_KNOWN}


def group_description(view: GroupView, offsets: tuple[CommittedOffset, ...], lag: LagOf) -> Form:
    """`describe_form`, likewise."""
    form = {**describe_json(view, offsets, lag), **_NOT_KNOWN}
    form["offsets"] = [{**it, "committed_ms": None} for it in form["offsets"]]
    return form


_NOT_KNOWN = dict.fromkeys(("coordinator_partition", "last_commit_ms", "rebalances", "generations_skipped"))


def _view(group: str, it: ListedGroup) -> GroupView:
    return GroupView(
        group=group,
        group_type=_type(it.group_type),
        state=it.state,
        generation=UNKNOWN_NUMBER,
        protocol_type=None,
        protocol=None,
        leader=None,
        target_generation=None,
        state_since_ms=UNKNOWN_NUMBER,
        members=(),
        coordinator_partition=UNKNOWN_NUMBER,
        committed_partitions=0,
        last_commit_ms=None,
        rebalances=0,
        generations_skipped=0,
        anomalies=(),
    )


def _type(name: str) -> str:
    # Brokers that know one type do not say which.
    return "classic" if name == "unknown" else name
