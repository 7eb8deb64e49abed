"""Sums over every order in which some members may have gone, for `agent.core.inference.rebalance_posterior`.

Of n members each has, by cause, three terms: `started` (the density of going just as the rebalance began), `within`
(the probability of going from then to the end) and `awaited` (the density of going at the end, which waited for it).
An order is a product with one term of each member, at most one `started` and at most one `awaited`, times a weight by
which of the two there are. `OrderSums` holds the four sums by that; two members' are combined as polynomials are
multiplied, so all orders cost n steps instead of n².
"""

from __future__ import annotations

from typing import NamedTuple

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


class DepartureTerm(NamedTuple):
    """One cause for which one member may have gone; see the module."""

    cause: Cause
    started_density: float
    within_probability: float
    awaited_density: float


class OrderSums(NamedTuple):
    """Sums over orders in which none of some members began the rebalance or was waited for, one began it, one was
    waited for, one did and another was. As weights: what an order of all members is worth that lacks those."""

    neither: float
    started: float
    awaited: float
    both: float

    def combined_with(self, other: OrderSums) -> OrderSums:
        """The same over these members and others."""
        neither, started, awaited, both = self
        its_neither, its_started, its_awaited, its_both = other
        return OrderSums(
            neither * its_neither,
            started * its_neither + neither * its_started,
            awaited * its_neither + neither * its_awaited,
            both * its_neither + started * its_awaited + awaited * its_started + neither * its_both,
        )

    def weighed(self, weights: OrderSums) -> float:
        """All four, each times its weight."""
        total = self.neither * weights.neither + self.started * weights.started
        return total + (self.awaited * weights.awaited + self.both * weights.both)

    def scaled(self, factor: float) -> OrderSums:
        """All four times `factor`."""
        return OrderSums(*(part * factor for part in self))


NOBODY = OrderSums(1.0, 0.0, 0.0, 0.0)


def add_departure_orders(
    members: list[list[DepartureTerm]], weights: OrderSums, out: Posterior, *, one_reason: bool = True
) -> float:
    """Add every order in which each member went in its own way, and in which all went in the same, unless they cannot
    have had `one_reason`; their weight."""
    if len(members) < 2:
        return add_independent_orders(members, weights, out)
    total = add_independent_orders(members, weights.scaled(1 - P.same_way_share), out)
    for cause, prior in P.departure_shares.items() if one_reason else ():
        same = [[term for term in terms if term.cause is cause] for terms in members]
        # The prior is in each member's terms, and all went so for one reason.
        total += add_independent_orders(same, weights.scaled(P.same_way_share * prior ** (1 - len(members))), out)
    return total


def add_independent_orders(members: list[list[DepartureTerm]], weights: OrderSums, out: Posterior) -> float:
    """Add every order of departures to the probabilities of each one's cause, and of who was first; their weight."""
    if not all(members):
        return 0.0  # there is no order without a term of each: so it is of most causes
    each = [_alone(terms) for terms in members]
    after = [NOBODY]
    for sums in reversed(each):
        after.append(after[-1].combined_with(sums))
    after.reverse()
    total = after[0].weighed(weights)
    if not total:
        return 0.0
    before = NOBODY
    for index, terms in enumerate(members):
        rest = before.combined_with(after[index + 1])
        before = before.combined_with(each[index])
        inside = rest.weighed(weights)
        as_first = rest.neither * weights.started + rest.awaited * weights.both
        as_last = rest.neither * weights.awaited + rest.started * weights.both
        probabilities = out.cause_probabilities[index]
        for cause, started, within, awaited in terms:
            began = started * as_first
            probabilities[cause] += within * inside + began + awaited * as_last
            out.departed_first[cause] = out.departed_first.get(cause, 0.0) + began
    out.total_weight += total
    return total


def _alone(terms: list[DepartureTerm]) -> OrderSums:
    """The sums of one member."""
    neither = begins = is_awaited = 0.0
    for _, started, within, awaited in terms:
        neither += within
        begins += started
        is_awaited += awaited
    return OrderSums(neither, begins, is_awaited, 0.0)
