"""Puts origins beside causes: asks an `OriginSource` of the members that a record shows to come and go.

`PartitionOrigins` remembers of each group where its members came from, and of those that left lately why: what views
and analyzers are told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import ClassVar

from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.facts import Departure
from agent.core.inference.origins import MemberOrigins, Origin, OriginQuestion, OriginSource
from agent.core.shadow.transitions import (
    GroupDeleted,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import Member
from agent.core.state_fields import StateFields, put_or_drop

MAX_DEPARTED = 200
"""Origins of departures that are remembered of a group: more than any analyzer counts in its window."""

NOTHING: Mapping[str, Origin] = {}


class PartitionOrigins:
    """The origins of one partition's members, by group and member id."""

    STATE: ClassVar = StateFields({"joined": dict[str, dict[str, Origin]], "departed": dict[str, dict[str, Origin]]})

    def __init__(self) -> None:
        self.joined: dict[str, dict[str, Origin]] = {}
        """Of members that are there: how they came."""
        self.departed: dict[str, dict[str, Origin]] = {}
        """Of the latest that left: why, the latest last."""

    def fork(self, group: str) -> PartitionOrigins:
        """What is known of one group, to be added to aside."""
        out = PartitionOrigins()
        for known, its in ((self.joined, out.joined), (self.departed, out.departed)):
            if group in known:
                its[group] = dict(known[group])
        return out

    def adopt(self, fork: PartitionOrigins, group: str) -> None:
        """Take what a fork has of its group in place of what is here."""
        put_or_drop(self.joined, fork.joined, group)
        put_or_drop(self.departed, fork.departed, group)

    def attach(self, transitions: Iterable[Transition], source: OriginSource) -> list[Transition]:
        """The transitions of one record, with the origins that the source knows of."""
        out = list(transitions)
        origins = MemberOrigins()
        departures: dict[str, Departure] = {}
        for it in out:
            if isinstance(it, Rebalanced):
                departures |= it.inferred.departures
        for place, it in enumerate(out):
            if isinstance(it, GroupDeleted):
                self.joined.pop(it.group, None)
                self.departed.pop(it.group, None)
            for question in _questions(it, departures):
                self._ask(it.group, question, origins, source)
                if it.origins is None:
                    it = out[place] = replace(it, origins=origins)
        return out

    def _ask(self, group: str, question: OriginQuestion, origins: MemberOrigins, source: OriginSource) -> None:
        name = question.member.member_id
        if origins.has(name):
            return
        # Newer types of groups show a change twice: by the member's own record, and by the epoch's.
        known = self.departed if question.has_left else self.joined
        answer = question.ask(source) or known.get(group, NOTHING).get(name)
        origins.put(question, answer)
        if question.has_left and (there := self.joined.get(group)) is not None:
            there.pop(name, None)
            if not there:
                del self.joined[group]
        if answer is not None:
            self._remember(group, question, answer)

    def learn(self, group: str, origins: MemberOrigins, *, members: Collection[str]) -> None:
        """Take what the source told since; `members` are the ids of those that are there."""
        for question, origin in origins.answers():
            if question.has_left or question.member.member_id in members:
                self._remember(group, question, origin)

    def _remember(self, group: str, question: OriginQuestion, origin: Origin) -> None:
        known = (self.departed if question.has_left else self.joined).setdefault(group, {})
        known[question.member.member_id] = origin
        if question.has_left and len(known) > MAX_DEPARTED:
            del known[next(iter(known))]


def _questions(transition: Transition, departures: Mapping[str, Departure]) -> Iterator[OriginQuestion]:
    shown_ms = transition.at.timestamp_ms
    match transition:
        case Rebalanced(joined=joined, left=left):
            yield from (OriginQuestion(member, False, None, shown_ms) for member in joined)
            yield from (_departure(member, departures.get(member.member_id), shown_ms) for member in left)
        case MemberJoined(member=member):
            yield OriginQuestion(member, False, None, shown_ms)
        case MemberLeft(member=member, inferred=inferred):
            yield _departure(member, departures.get(member.member_id, inferred), shown_ms)
        case StaticMemberReplaced(old=old, new=new):
            yield _departure(old, None, shown_ms)
            yield OriginQuestion(new, False, None, shown_ms)


def _departure(member: Member, departure: Departure | None, shown_ms: int) -> OriginQuestion:
    """A session runs out its timeout after the last heartbeat: that was when the pod was seen alive."""
    departed_ms = None if departure is None else departure.departed_ms
    if departure is not None and departure.cause is Cause.SESSION_TIMEOUT and departed_ms is not None:
        departed_ms -= member.session_timeout_ms or 0
    return OriginQuestion(member, True, departed_ms, shown_ms)
