"""A broker's group coordinator: classic groups by name, each in its partition."""

from __future__ import annotations

from collections.abc import Callable

from agent.coordinator.classic import ClassicGroup, Request, has_fair_session
from agent.coordinator.hashing import OFFSETS_PARTITIONS, partition_of
from agent.coordinator.requests import (
    Answered,
    Beaten,
    Effect,
    Error,
    FindCoordinator,
    Found,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Left,
    Synced,
    SyncGroup,
    Token,
    Wrote,
)
from agent.coordinator.script import BrokerSettings


class Coordinator:
    """All groups of a cluster, as if one broker led every partition of `__consumer_offsets`."""

    def __init__(
        self, settings: BrokerSettings, new_id: Callable[[], str], offsets_partitions: int = OFFSETS_PARTITIONS
    ) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self._new_id = new_id
        self._offsets_partitions = offsets_partitions

    def handle(self, request: Request | FindCoordinator, token: Token, now_ms: int) -> list[Effect]:
        """Take a request. A group is made by the first who joins it without a member id, even if it is not let in."""
        if isinstance(request, FindCoordinator):
            return [Answered(token, Found(partition_of(request.group, self._offsets_partitions)))]
        group = self.groups.get(request.group)
        if group is not None:
            return group.handle(request, token, now_ms)
        if isinstance(request, JoinGroup) and not has_fair_session(self.settings, request):
            return [Answered(token, Joined(Error.INVALID_SESSION_TIMEOUT, request.member_id))]
        if not isinstance(request, JoinGroup) or request.member_id:
            return [Answered(token, _OF_NOBODY[type(request)](request))]
        group = self.groups[request.group] = ClassicGroup(request.group, self.settings, self._new_id, now_ms)
        empty = group.image()
        return [*group.handle(request, token, now_ms), Wrote(empty)]

    def fire(self, now_ms: int) -> list[Effect]:
        """Let all timers fire that are due at `now_ms` or before."""
        effects: list[Effect] = []
        for group in self.groups.values():
            effects += group.fire(now_ms)
        return effects

    @property
    def due(self) -> int | None:
        """When the next timer fires."""
        return min((due for group in self.groups.values() if (due := group.due) is not None), default=None)

    def delete(self, group: str, now_ms: int) -> list[Effect]:
        """Delete an empty group."""
        effects = self.groups[group].delete(now_ms)
        del self.groups[group]
        return effects


_OF_NOBODY: dict[type, Callable[..., object]] = {
    JoinGroup: lambda request: Joined(Error.UNKNOWN_MEMBER_ID, request.member_id),
    SyncGroup: lambda request: Synced(Error.UNKNOWN_MEMBER_ID),
    Heartbeat: lambda request: Beaten(Error.UNKNOWN_MEMBER_ID),
    LeaveGroup: lambda request: Left(Error.NONE, tuple(Error.UNKNOWN_MEMBER_ID for _ in request.members)),
}
