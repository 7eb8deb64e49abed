"""Who sat where: member ids folded into the seats that people know, and into lanes where several share one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.story.reading import Who

FOREVER = 1 << 62
"""Later than any time; its negative is before any."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A member was there."""

    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Departure:
    """A member went. `silent_since_ms` is its last commit, where it was taken out for its silence."""

    at_ms: int
    cause: str
    confidence: float
    silent_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One seat: its name, what else tells it from others (host, client id), and what happened in it.

    `joined` are the times at which somebody came, `replaced` those at which a static member came back under a new id.
    """

    label: str
    about: str
    is_static: bool
    stays: tuple[Stay, ...]
    departures: tuple[Departure, ...]
    joined: tuple[int, ...]
    replaced: tuple[int, ...]

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened in it but being there."""
        return not (self.departures or self.joined or self.replaced)


@dataclass(slots=True)
class _Slot:
    """A lane as it grows: stays as [from, to], the last of them open while `member` sits there."""

    who: Who
    member: str | None = None
    since_ms: int = -FOREVER
    stays: list[Stay] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)

    def close(self, at_ms: int) -> None:
        self.stays.append(Stay(self.since_ms, at_ms))
        self.member = None


class Seats:
    """Takes who comes and goes, in order; says the lanes."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, ...], list[_Slot]] = {}
        self._sits: dict[str, _Slot] = {}
        self._gone: set[str] = set()

    @property
    def open(self) -> int:
        """How many are there now."""
        return len(self._sits)

    def join(self, it: Who, at_ms: int) -> None:
        """Somebody came. Told twice, it is one coming."""
        if it.member_id in self._sits:
            return
        self._gone.discard(it.member_id)
        slots = self._slots.setdefault(_key(it), [])
        free = [slot for slot in slots if slot.member is None]
        # Who was the last to go is the likeliest to come back.
        slot = max(free, key=lambda slot: slot.stays[-1].until_ms, default=None)
        slot = self._new(it) if slot is None else slot
        slot.member, slot.since_ms, slot.who = it.member_id, at_ms, it
        slot.joined.append(at_ms)
        self._sits[it.member_id] = slot

    def leave(self, it: Who, at_ms: int, cause: str, confidence: float, silent_since_ms: int | None = None) -> None:
        """Somebody went. Who was not known to be there was so from the beginning."""
        if it.member_id in self._gone:
            return
        slot = self._sits.pop(it.member_id, None) or self._new(it)
        slot.close(at_ms)
        slot.departures.append(Departure(at_ms, cause, confidence, silent_since_ms))
        self._gone.add(it.member_id)
        if silent_since_ms is not None:
            self._succeed(slot, _key(it), silent_since_ms)

    def _succeed(self, slot: _Slot, key: tuple[str, ...], silent_since_ms: int) -> None:
        # A process that died comes back before its old session has run out: for a while there are two members, but it
        # is the same seat.
        slots = self._slots.get(key, [])
        for other in slots:
            if other is slot or other.member is None or other.stays or other.since_ms < silent_since_ms:
                continue
            slots.remove(other)
            slot.member, slot.since_ms, slot.who = other.member, other.since_ms, other.who
            slot.joined += other.joined
            slot.replaced += other.replaced
            self._sits[other.member] = slot
            return

    def replace(self, old: Who, new: Who, at_ms: int) -> None:
        """A static member came back under another member id, without a rebalance."""
        slot = self._sits.pop(old.member_id, None)
        if slot is None:
            slot = self._new(old)
        slot.member, slot.who = new.member_id, new
        slot.replaced.append(at_ms)
        self._sits[new.member_id] = slot
        self._gone.add(old.member_id)

    def vacate(self, at_ms: int) -> None:
        """The group was deleted: nobody is there."""
        for slot in self._sits.values():
            slot.close(at_ms)
        self._sits.clear()

    def stay(self, members: Iterable[Who]) -> None:
        """Those are there in the end; who of them never came was there all the time."""
        for it in members:
            if it.member_id not in self._sits and it.member_id not in self._gone:
                slot = self._new(it)
                slot.member = it.member_id
                self._sits[it.member_id] = slot

    def _new(self, it: Who) -> _Slot:
        slots = self._slots.setdefault(_key(it), [])
        slots.append(_Slot(it))
        return slots[-1]

    def lanes(self, since_ms: int, until_ms: int) -> list[Lane]:
        """All in which anybody was in the range, cut to it."""
        every = [
            _lane(slot, number, since_ms, until_ms)
            for slots in self._slots.values()
            for number, slot in enumerate(slots, 1)
        ]
        return [lane for lane in every if lane.stays or lane.departures]


def _key(it: Who) -> tuple[str, ...]:
    return (it.instance_id,) if it.instance_id is not None else (it.client_id or it.member_id, it.host)


def _lane(slot: _Slot, number: int, since_ms: int, until_ms: int) -> Lane:
    stays = [*slot.stays, *([Stay(slot.since_ms, FOREVER)] if slot.member is not None else [])]
    it = slot.who
    again = f"#{number}" if number > 1 else ""
    static = it.instance_id is not None
    about = [again, it.label if static and it.label != it.instance_id else "", it.host]
    return Lane(
        label=it.instance_id if it.instance_id is not None else it.label,
        about=" · ".join(part for part in about if part),
        is_static=static,
        stays=tuple(
            Stay(max(stay.since_ms, since_ms), min(stay.until_ms, until_ms))
            for stay in stays
            if stay.until_ms >= since_ms and stay.since_ms <= until_ms
        ),
        departures=tuple(gone for gone in slot.departures if since_ms <= gone.at_ms <= until_ms),
        joined=tuple(at for at in slot.joined if since_ms <= at <= until_ms),
        replaced=tuple(at for at in slot.replaced if since_ms <= at <= until_ms),
    )
