"""Sums over every order in which some members may have gone, for `agent.core.inference.rebalance_posterior`.

Of n members each has, by cause, three terms: `started` (the density of going just as the rebalance began), `within`
(the probability of going from then to the end) and `awaited` (the density of going at the end, which waited for it).
An order is a product with one term of each member, at most one `started` and at most one `awaited`, times a weight by
which of the two there are. `OrderSums` holds the four sums by that; two members' are combined as polynomials are
multiplied, so all orders cost n steps instead of n².
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.inference.parameters import PARAMETERS as P


class StartInterval(Struct):
    """A stretch of time in which the rebalance may have begun, epoch milliseconds."""

    low_ms: float
    high_ms: float

    @property
    def middle_ms(self) -> float:
        """The moment that stands for it."""
        return (self.low_ms + self.high_ms) / 2


class Posterior(Struct):
    """Probabilities of each cause, for each member that went (in the order of `departure_times`); and of what came
    first.

    `departed_first` is by how that member went. `total_weight` is what all orders weigh, `likeliest_starts` the
    weights of the stretches of time with most, and `began_ms` the median of when the rebalance began (epoch
    milliseconds; None where nothing speaks for any time).
    """

    cause_probabilities: list[dict[Cause, float]]
    joined_first: float = 0.0
    followed_up: float = 0.0
    rejoined_first: float = 0.0
    departed_first: dict[Cause, float] = field(default_factory=dict)
    total_weight: float = 0.0
    likeliest_starts: list[tuple[float, StartInterval]] = field(default_factory=list)
    began_ms: float | None = None

    def normalize(self) -> None:
        """Make probabilities of weights."""
        if self.total_weight > 0:
            for causes in (*self.cause_probabilities, self.departed_first):
                for cause in causes:
                    causes[cause] /= self.total_weight
            self.joined_first /= self.total_weight
            self.followed_up /= self.total_weight
            self.rejoined_first /= self.total_weight


class DepartureTerm(Struct, frozen=True, gc=False):
    """One cause for which one member may have gone; see the module."""

    started_density: float
    within_probability: float
    awaited_density: float


TermsByCause = dict[Cause, DepartureTerm]


class OrderSums(Struct, frozen=True, gc=False):
    """Sums over orders in which none of some members began the rebalance or was waited for, one began it, one was
    waited for, one did and another was. As weights: what an order of all members is worth that lacks those."""

    neither: float
    started: float
    awaited: float
    both: float

    def combined_with(self, other: OrderSums) -> OrderSums:
        """The same over these members and others."""
        if self is NOBODY:
            return other
        neither, started, awaited = self.neither, self.started, self.awaited
        its_neither, its_started, its_awaited = other.neither, other.started, other.awaited
        return OrderSums(
            neither * its_neither,
            started * its_neither + neither * its_started,
            awaited * its_neither + neither * its_awaited,
            self.both * its_neither + started * its_awaited + awaited * its_started + neither * other.both,
        )

    def weighed(self, weights: OrderSums) -> float:
        """All four, each times its weight."""
        total = self.neither * weights.neither + self.started * weights.started
        return total + (self.awaited * weights.awaited + self.both * weights.both)

    def scaled(self, factor: float) -> OrderSums:
        """All four times `factor`."""
        return OrderSums(self.neither * factor, self.started * factor, self.awaited * factor, self.both * factor)


NOBODY = OrderSums(1.0, 0.0, 0.0, 0.0)


class DepartureOrders(Struct, frozen=True):
    """Every order in which members went with one of their `terms` each: `sums` over all members, and, for each of
    them, over the `others`. `share`: so many orders are such."""

    share: float
    terms: Sequence[TermsByCause]
    sums: OrderSums
    others: Sequence[OrderSums]

    def add(self, weights: OrderSums, out: Posterior) -> float:
        """Add every order to the probabilities of each one's cause, and of who was first; their weight."""
        weights = weights.scaled(self.share)
        total = self.sums.weighed(weights)
        if not total:
            return 0.0
        first = out.departed_first
        for terms, rest, probabilities in zip(self.terms, self.others, out.cause_probabilities, strict=True):
            inside = rest.weighed(weights)
            as_first = rest.neither * weights.started + rest.awaited * weights.both
            as_last = rest.neither * weights.awaited + rest.started * weights.both
            for cause, term in terms.items():
                began = term.started_density * as_first
                probabilities[cause] += term.within_probability * inside + began + term.awaited_density * as_last
                first[cause] = first.get(cause, 0.0) + began
        out.total_weight += total
        return total


def departure_orders(members: Sequence[TermsByCause], *, one_reason: bool = True) -> list[DepartureOrders]:
    """The orders in which each member went in its own way, and behind those, unless they cannot have had
    `one_reason`, the ones in which all went in the same."""
    if not all(members):
        return []  # there is no order without a term of each
    if len(members) < 2:
        sums = _alone(members[0]) if members else NOBODY
        return [DepartureOrders(1.0, members, sums, [NOBODY] * len(members))]
    out = [_independent_orders(1 - P.same_way_share, members)]
    for cause, prior in P.departure_shares.items() if one_reason else ():
        same = [{cause: terms[cause]} for terms in members if cause in terms]
        if len(same) == len(members):
            # The prior is in each member's terms, and all went so for one reason.
            out.append(_independent_orders(P.same_way_share * prior ** (1 - len(members)), same))
    return out


def _independent_orders(share: float, members: Sequence[TermsByCause]) -> DepartureOrders:
    each = [_alone(terms) for terms in members]
    before = accumulate(each, OrderSums.combined_with, initial=NOBODY)
    after = [*accumulate(reversed(each), OrderSums.combined_with, initial=NOBODY)][::-1]
    others = [it.combined_with(rest) for rest, it in zip(after[1:], before, strict=False)]
    return DepartureOrders(share, members, after[0], others)


def _alone(terms: TermsByCause) -> OrderSums:
    """The sums of one member."""
    neither = begins = is_awaited = 0.0
    for term in terms.values():
        neither += term.within_probability
        begins += term.started_density
        is_awaited += term.awaited_density
    return OrderSums(neither, begins, is_awaited, 0.0)
