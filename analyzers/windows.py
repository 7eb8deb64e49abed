"""What analyzers of rebalances share: windows of event time, who is who across restarts, members lost to a timeout.

A member id lasts as long as one membership, so it cannot tell who came back. A *seat* can, as far as clients let it:
the instance id of a static member, else client id and host. Clients that share one client id on one host share a
seat; so what counts is how often a seat changed hands *compared to* how many members sit there at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from sys import intern
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agent.common.interning import Interner, are_short, one_number, short_name
from agent.core.causes import Cause
from agent.core.inference.parameters import PARAMETERS
from agent.core.protocol.client_libraries import library_named
from agent.core.shadow.transitions import (
    GroupCreated,
    GroupEmptied,
    MemberJoined,
    MemberLeft,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import Member
from agent.core.state_fields import StateFields, shared
from analyzers.api import GroupContext
from analyzers.formatting import count_text

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

DEFAULT_CAPACITY = 1_000
"""How many items a window keeps if not told otherwise: what is older falls out, so counts end there."""

FEW_SEATS = 8
"""So many are looked through and copied as fast as they are found in a dict."""

_NOTHING: list[Any] = []
_NO_COUNTS: Counter[Any] = Counter()
NONE_BY_KEY: dict[Any, Any] = {}
_NO_KEYS: set[Any] = set()
EMPTY = _NO_COUNTS, NONE_BY_KEY, _NO_KEYS
"""Stand for what is empty, and stay so: most windows of most groups are, and each group has dozens."""


def counted(items: int, noun: str) -> str:
    """How many things of a window there were, to begin a sentence: as many as it keeps may be fewer."""
    said = count_text(items, noun)
    return said if items < DEFAULT_CAPACITY else f"At least {said}"


def found_members(transition: Transition, group: GroupContext) -> tuple[Member, ...]:
    """The members that the first look at a group finds (`--source admin`): nothing tells that they joined."""
    if not isinstance(transition, GroupCreated) or transition.observed or transition.sampled_every_ms is None:
        return ()
    view = group.view
    return () if view is None else view.members


class RecentItems(Generic[Item]):
    """What happened in the last `window_ms`, at most `kept` items. Times are of the group's clock, so they ascend.

    They are kept in a list: a deque takes 600 bytes for the first, and what has grown old goes together.
    """

    STATE: ClassVar = StateFields(
        {
            "window_ms": int,
            "kept": int,
            "_items": deque[tuple[int, Item]],
        }
    )

    __slots__ = ("_items", "kept", "window_ms")

    def __init__(self, window_ms: int, kept: int = DEFAULT_CAPACITY) -> None:
        self.window_ms, self.kept = window_ms, kept
        self._items: list[tuple[int, Item]] = _NOTHING

    def after_restore(self) -> None:
        """All empty windows share one list."""
        self.window_ms, self.kept = one_number[self.window_ms], one_number[self.kept]
        self._items = list(self._items) if self._items else _NOTHING

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return (item for _, item in self._items)

    def add(self, now_ms: int, item: Item) -> list[tuple[int, Item]]:
        """Keep one more; what falls out for want of room."""
        if self._items is _NOTHING:
            self._items = []
        self._items.append((now_ms, item))
        return [self._items.pop(0)] if len(self._items) > self.kept else []

    def prune(self, now_ms: int) -> list[tuple[int, Item]]:
        """Forget what is too old; that, with when it happened."""
        if not self._items or self._items[0][0] + self.window_ms > now_ms:
            return []
        until_ms = now_ms - self.window_ms
        old = next((at for at, (came_ms, _) in enumerate(self._items) if came_ms > until_ms), len(self._items))
        gone, self._items = self._items[:old], self._items[old:] or _NOTHING
        return gone

    @property
    def expires_ms(self) -> int | None:
        """When the oldest item will be too old; None without any."""
        return self._items[0][0] + self.window_ms if self._items else None


class DepartureCounter(Generic[Key]):
    """How often keys (seats, say) were left in the last `window_ms`, in rounds: departures by how many sit there."""

    STATE: ClassVar = StateFields(
        {
            "_least": int,
            "_here": Counter[Key],
            "_left": RecentItems[Key],
            "_counts": Counter[Key],
            "_peaks": dict[Key, int],
            "_busy": set[Key],
        }
    )

    __slots__ = ("_busy", "_counts", "_least", "_left", "_peaks", "_sitting")

    def __init__(self, window_ms: int, least: int, kept: int = DEFAULT_CAPACITY) -> None:
        """`least`: how many rounds are often."""
        self._least = least
        self._sitting: tuple[Any, ...] | dict[Key, int] = ()
        """How many sit where. Of few keys, once all of a record is counted, a row, each with its number behind it: a
        dict takes twice as much."""
        self._left: RecentItems[Key] = RecentItems(window_ms, kept)
        self._counts: Counter[Key] = _NO_COUNTS
        self._peaks: dict[Key, int] = NONE_BY_KEY
        # Those with enough departures for `often`: so that it need not look at all.
        self._busy: set[Key] = _NO_KEYS

    def after_restore(self) -> None:
        """What is empty is shared, and a dict takes half the room of a counter."""
        self._here = {_shared_key(key): here for key, here in self._here.items()}
        self._share_what_is_empty()
        self._close()

    @property
    def _here(self) -> dict[Key, int]:
        it = self._sitting
        return it if isinstance(it, dict) else dict(zip(it[::2], it[1::2], strict=True))

    @_here.setter
    def _here(self, here: dict[Key, int]) -> None:
        self._sitting = here

    def _opened(self) -> dict[Key, int]:
        if not isinstance(self._sitting, dict):
            self._sitting = self._here
        return self._sitting

    def _close(self) -> None:
        if isinstance(self._sitting, dict) and len(self._sitting) <= FEW_SEATS:
            row = tuple(chain.from_iterable(self._sitting.items()))
            self._sitting = _one_row[row] if row and type(row[0]) is ClientIdentity else row

    def _share_what_is_empty(self) -> None:
        if not self._counts:
            self._counts, self._peaks, self._busy = _NO_COUNTS, NONE_BY_KEY, _NO_KEYS

    def raise_capacity(self, kept: int) -> None:
        """Keep at least so many departures from now on."""
        self._left.kept = max(self._left.kept, kept)

    def join(self, key: Key) -> None:
        """A member is there that was not."""
        here = self._opened()
        here[key] = sits = here.get(key, 0) + 1
        if key in self._peaks:
            self._peaks[key] = max(self._peaks[key], sits)

    def leave(self, key: Key, now_ms: int | None) -> None:
        """A member is gone; `now_ms` None: it is not to be counted."""
        sitting = self._opened()
        here = max(sitting.pop(key, 0), 1)
        if here > 1:
            sitting[key] = here - 1
        if now_ms is None:
            return
        if self._counts is _NO_COUNTS:
            self._counts, self._peaks, self._busy = Counter(), {}, set()
        self._peaks[key] = max(self._peaks.get(key, 1), here)
        self._counts[key] += 1
        if self._counts[key] >= self._least:
            self._busy.add(key)
        self._forget(self._left.add(now_ms, key))

    def prune(self, now_ms: int) -> None:
        """Forget departures that are too old. All of a record is counted."""
        self._close()
        self._forget(self._left.prune(now_ms))

    def _forget(self, gone: Iterable[tuple[int, Key]]) -> None:
        for _, key in gone:
            self._counts[key] -= 1
            if self._counts[key] < self._least:
                self._busy.discard(key)
            if not self._counts[key]:
                del self._counts[key], self._peaks[key]
        self._share_what_is_empty()

    def departures(self, key: Key) -> int:
        """How often it was left."""
        return self._counts[key]

    def rounds(self, key: Key) -> int:
        """The same, by the most members that sat there at once."""
        return self._counts[key] // self._peaks.get(key, 1)

    def frequent(self) -> set[Key]:
        """Keys that were left in at least `least` rounds."""
        return {key for key in self._busy if self.rounds(key) >= self._least}


@shared
class Occupant(Struct, gc=False):
    """A member in a seat, or gone from it. `restarts_ms` is when those went whose place it took, one after the other,
    the newest last; `took_place` whether it is known whose place it took. Times are of the group's clock."""

    STATE: ClassVar = StateFields({"joined_ms": int, "restarts_ms": tuple[int, ...], "took_place": bool})

    joined_ms: int
    restarts_ms: tuple[int, ...] = ()
    took_place: bool = False
    member_id: str = ""

    def after_restore(self) -> None:
        """Who holds it says whose it is."""
        self.member_id = ""


class SeatChains(Generic[Key]):
    """How often the place of one member was taken by another, for each seat: restarts, one after the other.

    Members that share a seat are told apart by this: a deploy restarts each once, a crash loop one of them again and
    again. Who comes takes the place that was left last. A dead member sits there until its session has run out, long
    after the next was started in its place: so when it goes by its session timeout, its place is found to be taken by
    who came first after its last sign of life. Of those that came with one rebalance, the dead had a place before.
    """

    STATE: ClassVar = StateFields({"_here": dict[Key, dict[str, Occupant]], "_vacant": dict[Key, list[Occupant]]})

    KEPT = 16
    """Restarts of one place, and places of one seat that nobody took, that are remembered."""

    __slots__ = ("_seats", "_vacant")

    def __init__(self) -> None:
        self._seats: dict[Key, Occupant | dict[str, Occupant]] = {}
        """Who sits in a seat, by member id. One alone, as in most, is no dict: that would take 200 bytes more."""
        self._vacant: dict[Key, list[Occupant]] = NONE_BY_KEY

    def after_restore(self) -> None:
        """What is empty is shared."""
        self._vacant = self._vacant or NONE_BY_KEY

    @property
    def _here(self) -> dict[Key, dict[str, Occupant]]:
        return {key: self._members(key) for key in self._seats}

    @_here.setter
    def _here(self, here: Mapping[Key, dict[str, Occupant]]) -> None:
        self._seats = {}
        for key, members in here.items():
            for member_id, occupant in members.items():
                occupant.member_id = intern(member_id)
            self._put(_shared_key(key), {it.member_id: it for it in members.values()})

    def _members(self, key: Key) -> dict[str, Occupant]:
        found = self._seats.get(key, {})
        return {found.member_id: found} if isinstance(found, Occupant) else found

    def _put(self, key: Key, members: dict[str, Occupant]) -> None:
        if members:
            self._seats[key] = members if len(members) > 1 else next(iter(members.values()))
        else:
            self._seats.pop(key, None)

    def join(self, key: Key, member_id: str, now_ms: int) -> None:
        """A member is there that was not."""
        occupant = Occupant(now_ms, member_id=member_id)
        if key in self._vacant:
            occupant.restarts_ms, occupant.took_place = self._vacant[key].pop().restarts_ms, True
            if not self._vacant[key]:
                del self._vacant[key]
        members = self._members(key)
        members[member_id] = occupant
        self._put(key, members)

    def leave(self, key: Key, member_id: str, now_ms: int, alive_ms: int | None) -> None:
        """A member is gone that was alive last at `alive_ms` (None: until it went)."""
        members = self._members(key)
        gone = members.pop(member_id, None) or Occupant(now_ms)
        self._put(key, members)
        gone.restarts_ms, gone.member_id = (*gone.restarts_ms, now_ms)[-self.KEPT :], ""
        successors = [] if alive_ms is None else [it for it in members.values() if _took_over(it, gone, alive_ms)]
        if alive_ms is not None and _died_waiting(gone, alive_ms) and not gone.took_place:
            # Of those that came at once any may have taken the place that one took: who died had it first.
            heirs = [it for it in members.values() if it.took_place and it.joined_ms == gone.joined_ms]
            if heirs:
                heirs[0].restarts_ms = (*heirs[0].restarts_ms, *gone.restarts_ms)[-self.KEPT :]
                return
        if successors:
            successor = min(successors, key=lambda it: it.joined_ms)
            successor.restarts_ms, successor.took_place = gone.restarts_ms, True
        else:
            if self._vacant is NONE_BY_KEY:
                self._vacant = {}
            self._vacant[key] = [*self._vacant.get(key, []), gone][-self.KEPT :]

    def replace(self, old: Key, old_id: str, new: Key, new_id: str) -> None:
        """A static member is back under another member id: its place was not left."""
        members = self._members(old)
        occupant = members.pop(old_id, None)
        self._put(old, members)
        if occupant is not None:
            occupant.member_id = new_id
            self._put(new, self._members(new) | {new_id: occupant})

    def discard(self, key: Key, member_id: str) -> None:
        """A member is gone whose departure is not to be counted."""
        members = self._members(key)
        members.pop(member_id, None)
        self._put(key, members)

    def restarts(self, key: Key, since_ms: int) -> int:
        """How often one place of the seat was left since then: of the place that was most often."""
        places = (*self._members(key).values(), *self._vacant.get(key, ()))
        return max((sum(at_ms > since_ms for at_ms in it.restarts_ms) for it in places), default=0)

    def forget_before(self, since_ms: int) -> None:
        """Forget places that nobody has taken since then."""
        for key, places in list(self._vacant.items()):
            self._vacant[key] = kept = [it for it in places if it.restarts_ms[-1] > since_ms]
            if not kept:
                del self._vacant[key]


def _took_over(occupant: Occupant, gone: Occupant, alive_ms: int) -> bool:
    if occupant.took_place:
        return False
    # One that died as it waited for a rebalance was replaced by who came to the same.
    came_along = occupant.joined_ms == gone.joined_ms and _died_waiting(gone, alive_ms)
    return occupant.joined_ms > alive_ms or came_along


def _died_waiting(gone: Occupant, alive_ms: int) -> bool:
    return alive_ms <= gone.joined_ms + PARAMETERS.log_time_tolerance_ms


class ClientIdentity(NamedTuple):
    """Who a member is across restarts, by names as they are kept (`short_name`). A static member's host does not
    matter, and is empty."""

    client_id: str
    host: str = ""
    instance_id: str | None = None

    @property
    def name(self) -> str:
        """For a sentence."""
        return self.client_id if self.instance_id is None else self.instance_id


def identity_of(member: Member) -> ClientIdentity:
    """The seat of a member."""
    client_id = short_name(member.client_id)
    if member.instance_id is not None:
        return _one_identity[ClientIdentity(client_id, "", short_name(member.instance_id))]
    return _one_identity[ClientIdentity(client_id, short_name(member.client_host))]


def client_of(member: Member) -> ClientIdentity:
    """The seats of all members with its client id, as one."""
    return ClientIdentity(short_name(member.client_id))


def departed(member: Member) -> Member:
    """What is kept of a member that is gone, of which there may be many: names as they are kept, what it had set, and
    of what it held how much (`partitions_held`)."""
    return replace(
        member,
        member_id=short_name(member.member_id),
        client_id=short_name(member.client_id),
        client_host=short_name(member.client_host),
        instance_id=None if member.instance_id is None else short_name(member.instance_id),
        rack_id=None,
        subscription=(),
        subscription_regex=None,
        assignment={_HELD: (partitions_held(member),)},
        target=None,
        standby_tasks=None,
        warmup_tasks=None,
        owned=None,
        library_evidence="",
    )


_HELD = ""
"""No topic is called so."""


def partitions_held(member: Member) -> int:
    """How many partitions a member holds, or held."""
    match member.assignment.get(_HELD):
        case (held,) if len(member.assignment) == 1:
            return held
    return member.partitions


_one_identity: Interner[ClientIdentity] = Interner(4_096, lambda it: are_short(*it))
"""Each analyzer keeps the members' seats."""


_one_row: Interner[tuple[Any, ...]] = Interner(1_024)
"""Three analyzers keep the seats of each group: what is kept here is theirs, of 300 characters a seat at most."""


def _shared_key(key: Key) -> Key:
    """A key that was read anew, as one object with what is equal."""
    if isinstance(key, ClientIdentity):
        if (known := _one_identity.get(key)) is not None:
            return known  # type: ignore[return-value]
        client_id, host, instance_id = key
        return _one_identity[ClientIdentity(intern(client_id), intern(host), instance_id)]  # type: ignore[return-value]
    return key


def leaves_without_goodbye(member: Member) -> bool:
    """Whether it says no goodbye when it is stopped in good order: static members, and in groups of the classic
    protocol those of Kafka Streams."""
    says_goodbye = not member.uses_classic_protocol or library_named(member.client_library).leaves_on_close
    return member.instance_id is not None or not says_goodbye


@shared
class LostMember(Struct, gc=False):
    """A member that the group lost to a timeout. Times are epoch milliseconds.

    `returned_ms` is when its seat was taken again, None if it was not; `overlapped`: by a new membership while the
    old one still stood, which a new process begins, and librdkafka when brokers have not answered for a session.
    `emptied_group`: the group was empty then.
    """

    member: Member
    identity: ClientIdentity
    offset: int
    departed_ms: int
    returned_ms: int | None = None
    overlapped: bool = False
    emptied_group: bool = False

    @property
    def away_ms(self) -> int | None:
        """From its departure to its return."""
        return None if self.returned_ms is None else max(self.returned_ms - self.departed_ms, 0)


class LostMembers:
    """The members that a group lost to one kind of timeout in the last `window_ms`."""

    STATE: ClassVar = StateFields(
        {
            "_cause": Cause,
            "_min_confidence": float,
            "recent": RecentItems[LostMember],
            "_seats": DepartureCounter[ClientIdentity],
            "_away": dict[ClientIdentity, deque[LostMember]],
            "changed": bool,
        }
    )

    __slots__ = ("_away", "_cause", "_min_confidence", "_seats", "changed", "recent")

    def __init__(self, cause: Cause, min_confidence: float, window_ms: int, repeats: int) -> None:
        """`repeats`: how many rounds make a seat a repeat offender."""
        self._cause, self._min_confidence = cause, min_confidence
        self.recent: RecentItems[LostMember] = RecentItems(window_ms)
        self._seats: DepartureCounter[ClientIdentity] = DepartureCounter(window_ms, repeats)
        self._away: dict[ClientIdentity, deque[LostMember]] = NONE_BY_KEY
        self.changed = False
        """Whether anything is different since it was last set to False."""

    def after_restore(self) -> None:
        """What is empty is shared."""
        self._away = self._away or NONE_BY_KEY

    def find(self, member: Member) -> None:
        """A member is there, since whenever."""
        self._seats.join(identity_of(member))

    def observe(self, transition: Transition, now_ms: int) -> None:
        """Take a change of the group."""
        match transition:
            case MemberLeft():
                self._left(transition, now_ms)
            case MemberJoined(at=at, member=member):
                seat = identity_of(member)
                self._seats.join(seat)
                if seat in self._away:
                    # As in `SeatChains`: who comes takes the place that was left last.
                    lost = self._away[seat].pop()
                    if not self._away[seat]:
                        del self._away[seat]
                    lost.returned_ms, lost.overlapped = at.timestamp_ms, lost.offset == at.offset
                    self.changed = True
            case StaticMemberReplaced(old=old, new=new):
                # It may have another client id.
                self._seats.leave(identity_of(old), None)
                self._seats.join(identity_of(new))
            case GroupEmptied(at=at):
                for lost in self.recent:
                    if lost.offset == at.offset:
                        lost.emptied_group = self.changed = True

    def _left(self, gone: MemberLeft, now_ms: int) -> None:
        how, seat = gone.inferred, identity_of(gone.member)
        if how is None or how.cause is not self._cause or how.confidence < self._min_confidence:
            self._seats.leave(seat, None)
            return
        self._seats.leave(seat, now_ms)
        went_ms = gone.at.timestamp_ms if how.departed_ms is None else how.departed_ms
        # Of a type whose records have no session timeout it is what the brokers say, where they were asked.
        member = replace(departed(gone.member), session_timeout_ms=how.session_timeout_ms)
        lost = LostMember(member, seat, gone.at.offset, went_ms)
        if self._away is NONE_BY_KEY:
            self._away = {}
        self._away.setdefault(seat, deque()).append(lost)
        self._forget(self.recent.add(now_ms, lost))
        self.changed = True

    def prune(self, now_ms: int) -> None:
        """Forget those that are too old."""
        self._seats.prune(now_ms)
        self._forget(self.recent.prune(now_ms))

    def _forget(self, gone: Iterable[tuple[int, LostMember]]) -> None:
        for _, lost in gone:
            self.changed = True
            if lost.returned_ms is None:
                away = self._away[lost.identity]
                away.remove(lost)
                if not away:
                    del self._away[lost.identity]

    def repeat_offenders(self) -> list[ClientIdentity]:
        """Those that were lost in `repeats` rounds or more, the most often first."""
        return sorted(self._seats.frequent(), key=lambda seat: (-self._seats.departures(seat), _order(seat)))

    def identities(self) -> list[ClientIdentity]:
        """Those that were lost in the window, the most often first."""
        counts = Counter(lost.identity for lost in self.recent)
        return sorted(counts, key=lambda seat: (-counts[seat], _order(seat)))


def _order(seat: ClientIdentity) -> tuple[str, str, str]:
    return seat.client_id, seat.host, seat.instance_id or ""
