"""Which client is behind a member id: a member id lasts one membership, a client is restarted and comes back.

A client is told by its static id, else by its client id and host; several such at once are numbered. A newcomer that
nobody of that description left room for takes the place of the one that left last, if that one never comes back: so a
rolling deploy under new names, or on new hosts, is seen as restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.shadow.diff import MemberChanges, member_changes
from agent.core.shadow.views import Member
from agent.simulation.whatif.recorder import GroupRecording, RecordedState

Identity = tuple[str, ...]


class ClientNames(Struct):
    """The clients of a recording. `replacements`: the client ids of newcomers, with whose place they took."""

    by_member_id: dict[str, str] = field(default_factory=dict)
    replacements: list[tuple[str, str]] = field(default_factory=list)


def consecutive_states(recording: GroupRecording) -> Iterator[tuple[RecordedState, RecordedState, MemberChanges]]:
    """Each record but the first, with the one before it and what differs."""
    for before, seen in zip(recording.states, recording.states[1:], strict=False):
        yield before, seen, member_changes(before.members, seen.members)


def identify_clients(recording: GroupRecording) -> ClientNames:
    """Name the client of every member."""
    finder = _ClientMatcher(recording)
    for seen in recording.states[:1]:
        finder.come(0, seen.members.values())
    for index, (before, seen, changes) in enumerate(consecutive_states(recording), 1):
        for old, new in changes.replaced:
            finder.found.by_member_id[new.member_id] = finder.found.by_member_id[old.member_id]
        # Where nobody stays, whoever left in order was still there when its successor came.
        overlap = bool(changes.joined) and not before.members.keys() & seen.members.keys() and not changes.replaced
        closed = [it for it in changes.left if overlap and left_gracefully(it, seen)]
        finder.go([it for it in changes.left if it not in closed], seen)
        finder.come(index, changes.joined)
        finder.go(closed, seen)
    return finder.found


def left_gracefully(member: Member, seen: RecordedState) -> bool:
    """Whether a member that is gone with this record is taken to have closed."""
    return departure_cause(member, seen) in (Cause.MEMBER_LEFT, Cause.UNKNOWN_DEPARTURE)


def departure_cause(member: Member, seen: RecordedState) -> Cause:
    """How a member that is gone with this record went, as far as can be told."""
    departures = {} if seen.inferred is None else seen.inferred.departures
    departure = departures.get(member.member_id)
    return Cause.UNKNOWN_DEPARTURE if departure is None else departure.cause


class _ClientMatcher:
    def __init__(self, recording: GroupRecording) -> None:
        self.found = ClientNames()
        self._identities: dict[str, Identity] = {}
        # Clients that are gone, by how they are known; who left last is last.
        self._free: dict[str, Member] = {}
        # Of those, who still runs.
        self._stalled: set[str] = set()
        self._last_come = _last_come(recording)

    def go(self, members: Iterable[Member], seen: RecordedState) -> None:
        for member in members:
            name = self.found.by_member_id[member.member_id]
            self._free[name] = member
            if departure_cause(member, seen) in (Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT):
                self._stalled.add(name)

    def come(self, index: int, members: Iterable[Member]) -> None:
        strangers = []
        for member in members:
            back = next((name for name in self._free if self._identities[name] == client_identity(member)), None)
            if back is None:
                strangers.append(member)
            else:
                self._sit(member, back)
        for member in strangers:
            place = self._vacated(index, member)
            if place is None:
                self._sit(member, self._new_name(member))
            else:
                self.found.replacements.append((member.client_id, place))
                self._sit(member, place)

    def _sit(self, member: Member, name: str) -> None:
        self._free.pop(name, None)
        self._stalled.discard(name)
        self._identities[name] = client_identity(member)
        self.found.by_member_id[member.member_id] = name

    def _vacated(self, index: int, member: Member) -> str | None:
        """A place whose client is gone for good: of the same client id, else the one that was left last."""
        if member.instance_id is not None:
            return None
        places = [
            name
            for name, gone in self._free.items()
            if gone.instance_id is None
            and name not in self._stalled
            and self._last_come[client_identity(gone)] <= index
        ]
        alike = [name for name in places if self._free[name].client_id == member.client_id]
        return next(reversed(alike or places), None)

    def _new_name(self, member: Member) -> str:
        name = member.instance_id or member.client_id or "-"
        if name in self._identities:
            name = f"{name}@{member.client_host.lstrip('/')}"
        numbered = (f"{name}#{number}" for number in count(2))
        return next(it for it in chain([name], numbered) if it not in self._identities)


def client_identity(member: Member) -> Identity:
    """What stays the same for a client."""
    return (member.client_id, member.client_host) if member.instance_id is None else (member.instance_id,)


def _last_come(recording: GroupRecording) -> Mapping[Identity, int]:
    """The index of the last record with which a client of some description came."""
    last: dict[Identity, int] = {}
    known: set[str] = set()
    for index, seen in enumerate(recording.states):
        last.update((client_identity(it), index) for member_id, it in seen.members.items() if member_id not in known)
        known |= seen.members.keys()
    return last
