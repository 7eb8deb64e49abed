"""Places where members sit one after the other, and which of many is the best for a member, without a look at each.

Owns what makes one place better than another. Knows nothing of rollouts, nor who takes a place when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct, field

from agent.presentation.narrative.events import MemberRef


class Place(Struct, eq=False):
    """Where one member after the other sits. `restarts_ms`: when new members left it, since the rollout began."""

    pattern: str
    last: MemberRef
    is_replaced: bool = False
    """Whether a new member took it from one that was there before the rollout."""
    is_extra: bool = False
    """Whether it was taken by who found none vacant: a surge, or one member more."""
    restarts_ms: list[int] = field(default_factory=list)
    is_lost: bool = False
    """Whether it was left last in an outage of the coordinator, or as that had stood still."""


def _likenesses(member: MemberRef) -> list[Hashable]:
    """What members have in common of which much speaks for being the same client, and what those have that less and
    less does: the instance id; without one the name and the host, then the name; nothing."""
    if member.instance_id is not None:
        return [(member.instance_id,), ()]
    return [(member.client_id, member.host, None), (member.client_id, None), ()]


class _Heaps:
    """Places under keys, by their numbers. One that was taken out stays until it would be the first."""

    def __init__(self) -> None:
        self._heaps: defaultdict[Hashable, list[tuple[int, int, Place]]] = defaultdict(list)
        self._entry = count()

    def push(self, key: Hashable, number: int, place: Place) -> None:
        """Places of one key may have the same number only if all but one were taken out."""
        heappush(self._heaps[key], (number, next(self._entry), place))

    def first(self, key: Hashable, numbers: dict[Place, int], left_out: Collection[str] = ()) -> Place | None:
        """The one of the least number, of those that have theirs in `numbers`, or its negative, and whose pattern is
        not in `left_out`, from which nothing is taken."""
        heap = self._heaps.get(key)
        while heap:
            number, _, place = heap[0]
            if numbers.get(place) == abs(number) and place.pattern not in left_out:
                return place
            heappop(heap)
        return None


class PlacesByLikeness:
    """Places in the order of their numbers. While a place is among them, it does not change.

    The best for a member is one of its own pattern, else of one that is not closed; of those where most speaks for
    the same client having sat there last; of those one that no new member has taken from an old one. Of several the
    last (`is_last_best`) or the first.
    """

    def __init__(self, *, is_last_best: bool) -> None:
        self._sign = -1 if is_last_best else 1
        self.closed: set[str] = set()
        """Patterns whose places are for members of the same pattern alone. None is taken away again."""
        self._numbers: dict[Place, int] = {}
        self._heaps, self._own = _Heaps(), _Heaps()

    def put(self, place: Place, number: int) -> None:
        """`number`: 0 or more, of no other place that is here."""
        self._numbers[place] = number
        likenesses = _likenesses(place.last)
        for key in likenesses:
            for pattern in (place.pattern, None):
                self._heaps.push((pattern, key, place.is_replaced), self._sign * number, place)
        self._own.push(place.last.member_id, number, place)
        if place.is_lost:
            self._own.push(likenesses[0], number, place)

    def take(self, place: Place) -> int:
        """Take one out; its number."""
        return self._numbers.pop(place)

    def own(self, member: MemberRef) -> Place | None:
        """The first where the same process sat last, as far as anybody knows."""
        keys = member.member_id, _likenesses(member)[0]
        found = [it for it in (self._own.first(key, self._numbers) for key in keys) if it is not None]
        return min(found, key=self._numbers.__getitem__, default=None)

    def best(self, pattern: str, member: MemberRef, *, of_others: bool) -> Place | None:
        """The best for a member of that pattern; `of_others`: one of another pattern will do."""
        for at in (pattern, None) if of_others else (pattern,):
            for key in _likenesses(member):
                for is_replaced in (False, True):
                    left_out = self.closed if at is None else ()
                    place = self._heaps.first((at, key, is_replaced), self._numbers, left_out)
                    if place is not None:
                        return place
        return None
