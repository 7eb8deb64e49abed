"""Who sat where: member ids folded into the seats that people know, and into lanes where several share one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from agent.core.inference.origins import Origin
from agent.presentation.narrative.events import MemberRef

FOREVER = 1 << 62
"""Later than any time; its negative is before any."""


class Span(Struct, frozen=True):
    """From a time to another: a member was there, or nobody was."""

    since_ms: int
    until_ms: int


class LaneDeparture(Struct, frozen=True):
    """A member went. `silent_since_ms` is its last commit, where it was taken out for its silence; `origin` what
    happened to its pod."""

    at_ms: int
    cause: str
    confidence: float
    silent_since_ms: int | None = None
    origin: Origin | None = None


class Lane(Struct, frozen=True):
    """One seat: its name, what else tells it from others (host, client id), and what happened in it.

    `joined` are the times at which somebody came, `replaced` those at which a static member came back under a new id.
    """

    label: str
    about: str
    is_static: bool
    presences: tuple[Span, ...]
    departures: tuple[LaneDeparture, ...]
    joined: tuple[int, ...]
    replaced: tuple[int, ...]

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened in it but being there."""
        return not (self.departures or self.joined or self.replaced)


class _Slot(Struct):
    """A lane as it grows: stays as [from, to], the last of them open while `member` sits there."""

    member: MemberRef
    member_id: str | None = None
    since_ms: int = -FOREVER
    presences: list[Span] = field(default_factory=list)
    departures: list[LaneDeparture] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)

    def close(self, at_ms: int) -> None:
        self.presences.append(Span(self.since_ms, at_ms))
        self.member_id = None


class MemberSlots:
    """Takes who comes and goes, in order; says the lanes."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, ...], list[_Slot]] = {}
        self._slot_by_member: dict[str, _Slot] = {}
        self._departed_ids: set[str] = set()

    @property
    def occupied(self) -> int:
        """How many are there now."""
        return len(self._slot_by_member)

    def join(self, member: MemberRef, at_ms: int) -> None:
        """Somebody came. Told twice, it is one coming."""
        if member.member_id in self._slot_by_member:
            return
        self._departed_ids.discard(member.member_id)
        slots = self._slots.setdefault(_key(member), [])
        free = [slot for slot in slots if slot.member_id is None]
        # Who was the last to go is the likeliest to come back.
        slot = max(free, key=lambda slot: slot.presences[-1].until_ms, default=None)
        slot = self._new(member) if slot is None else slot
        slot.member_id, slot.since_ms, slot.member = member.member_id, at_ms, member
        slot.joined.append(at_ms)
        self._slot_by_member[member.member_id] = slot

    def leave(
        self, member: MemberRef, at_ms: int, cause: str, confidence: float, silent_since_ms: int | None = None
    ) -> None:
        """Somebody went. Who was not known to be there was so from the beginning."""
        if member.member_id in self._departed_ids:
            return
        slot = self._slot_by_member.pop(member.member_id, None) or self._new(member)
        slot.close(at_ms)
        slot.departures.append(LaneDeparture(at_ms, cause, confidence, silent_since_ms, member.origin))
        self._departed_ids.add(member.member_id)
        if silent_since_ms is not None:
            self._take_over_successor(slot, _key(member), silent_since_ms)

    def _take_over_successor(self, slot: _Slot, key: tuple[str, ...], silent_since_ms: int) -> None:
        # A process that died comes back before its old session has run out: for a while there are two members, but it
        # is the same seat.
        slots = self._slots.get(key, [])
        for other in slots:
            if other is slot or other.member_id is None or other.presences or other.since_ms < silent_since_ms:
                continue
            slots.remove(other)
            slot.member_id, slot.since_ms, slot.member = other.member_id, other.since_ms, other.member
            slot.joined += other.joined
            slot.replaced += other.replaced
            self._slot_by_member[other.member_id] = slot
            return

    def replace(self, old: MemberRef, new: MemberRef, at_ms: int) -> None:
        """A static member came back under another member id, without a rebalance."""
        slot = self._slot_by_member.pop(old.member_id, None)
        if slot is None:
            slot = self._new(old)
        slot.member_id, slot.member = new.member_id, new
        slot.replaced.append(at_ms)
        self._slot_by_member[new.member_id] = slot
        self._departed_ids.add(old.member_id)

    def vacate_all(self, at_ms: int) -> None:
        """The group was deleted: nobody is there."""
        for slot in self._slot_by_member.values():
            slot.close(at_ms)
        self._slot_by_member.clear()

    def remain(self, members: Iterable[MemberRef]) -> None:
        """Those are there in the end; who of them never came was there all the time."""
        for it in members:
            if it.member_id not in self._slot_by_member and it.member_id not in self._departed_ids:
                slot = self._new(it)
                slot.member_id = it.member_id
                self._slot_by_member[it.member_id] = slot

    def _new(self, member: MemberRef) -> _Slot:
        slots = self._slots.setdefault(_key(member), [])
        slots.append(_Slot(member))
        return slots[-1]

    def lanes(self, since_ms: int, until_ms: int) -> list[Lane]:
        """All in which anybody was in the range, cut to it."""
        every = [
            _lane(slot, number, since_ms, until_ms)
            for slots in self._slots.values()
            for number, slot in enumerate(slots, 1)
        ]
        return [lane for lane in every if lane.presences or lane.departures]


def _key(member: MemberRef) -> tuple[str, ...]:
    if member.instance_id is not None:
        return (member.instance_id,)
    return member.client_id or member.member_id, member.host


def _lane(slot: _Slot, number: int, since_ms: int, until_ms: int) -> Lane:
    stays = [*slot.presences, *([Span(slot.since_ms, FOREVER)] if slot.member_id is not None else [])]
    it = slot.member
    again = f"#{number}" if number > 1 else ""
    static = it.instance_id is not None
    about = [again, it.label if static and it.label != it.instance_id else "", it.host]
    return Lane(
        label=it.instance_id if it.instance_id is not None else it.label,
        about=" · ".join(part for part in about if part),
        is_static=static,
        presences=tuple(
            Span(max(stay.since_ms, since_ms), min(stay.until_ms, until_ms))
            for stay in stays
            if stay.until_ms >= since_ms and stay.since_ms <= until_ms
        ),
        departures=tuple(gone for gone in slot.departures if since_ms <= gone.at_ms <= until_ms),
        joined=tuple(at for at in slot.joined if since_ms <= at <= until_ms),
        replaced=tuple(at for at in slot.replaced if since_ms <= at <= until_ms),
    )
