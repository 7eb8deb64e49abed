"""The best place for a member is the one that a look at each would find."""

from __future__ import annotations

from random import Random

import pytest

from agent.presentation.narrative.events import MemberRef
from agent.presentation.rollouts.places import Place, PlacesByLikeness


def some_member(play: Random) -> MemberRef:
    instance_id = play.choice([None, None, "i1", "i2"])
    return MemberRef(f"m{play.randrange(9)}", play.choice("ab"), play.choice(["h1", "h2"]), instance_id)


def likeness(place: Place, member: MemberRef) -> int:
    old = place.last
    if member.instance_id is not None or old.instance_id is not None:
        return 2 if member.instance_id == old.instance_id else 0
    return (member.client_id == old.client_id) + ((member.client_id, member.host) == (old.client_id, old.host))


@pytest.mark.parametrize("is_last_best", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_all(seed: int, is_last_best: bool) -> None:
    play, places = Random(seed), PlacesByLikeness(is_last_best=is_last_best)
    there: dict[int, Place] = {}
    closed, free = set[str](), list[int]()
    for number in range(400):
        in_order = [place for _, place in sorted(there.items())]
        what, pattern, member = play.randrange(10), play.choice("pqrstuvw"), some_member(play)
        if what < 3:
            place = Place(pattern, member, is_replaced=play.random() < 0.5, is_lost=play.random() < 0.5)
            # A number that was another's may be given again.
            at = free.pop() if free and play.random() < 0.5 else number
            there[at] = place
            places.put(place, at)
        elif what < 6 and in_order:
            place = play.choice(in_order)
            at = places.take(place)
            assert there.pop(at) is place
            if play.random() < 0.3:  # another member leaves the same place
                place.last, there[number] = member, place
                places.put(place, number)
            else:
                free.append(at)
        elif what == 6 and play.random() < 0.2:
            closed.add(pattern)
            places.closed.add(pattern)
        elif what == 7:
            own = [it for it in in_order if it.last.member_id == member.member_id]
            own += [it for it in in_order if it.is_lost and likeness(it, member) == 2]
            assert places.own(member) is min(own, key=in_order.index, default=None)
        else:
            of_others = play.random() < 0.7
            fit = [it for it in in_order if it.pattern == pattern or (of_others and it.pattern not in closed)]
            best = max(
                reversed(fit) if is_last_best else fit,
                key=lambda it: (it.pattern == pattern, likeness(it, member), not it.is_replaced),
                default=None,
            )
            assert places.best(pattern, member, of_others=of_others) is best
