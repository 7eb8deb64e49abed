"""Sums over orders of departures, held against each order by itself."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest

from agent.core.causes import Cause
from agent.core.inference.likelihood_sums import DepartureTerm, OrderSums, Posterior, TermsByCause, departure_orders
from agent.core.inference.parameters import PARAMETERS as P

LEFT, DIED, UNKNOWN = Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT, Cause.UNKNOWN_DEPARTURE
MEMBERS: list[TermsByCause] = [
    {LEFT: DepartureTerm(0.2, 0.3, 0.5), DIED: DepartureTerm(0.7, 0.1, 0.4), UNKNOWN: DepartureTerm(0.1, 0.1, 0.2)},
    {LEFT: DepartureTerm(0.0, 0.6, 0.1), DIED: DepartureTerm(0.3, 0.9, 0.8)},
    {DIED: DepartureTerm(0.4, 0.2, 0.6), UNKNOWN: DepartureTerm(0.5, 0.3, 0.1)},
]
WEIGHTS = OrderSums(0.3, 0.5, 0.7, 0.2)


@pytest.mark.parametrize("count", range(len(MEMBERS) + 1))
def test_each_order_counts_once(count: int) -> None:
    members = MEMBERS[:count]
    out = Posterior([dict.fromkeys(terms, 0.0) for terms in members])
    total = sum(it.add(WEIGHTS, out) for it in departure_orders(members))
    causes = [defaultdict[Cause, float](float) for _ in members]
    first = defaultdict[Cause, float](float)
    for order in product(*([(cause, kind) for cause in terms for kind in "swa"] for terms in members)):
        ways = [cause for cause, _ in order]
        kinds = "".join(kind for _, kind in order)
        if kinds.count("s") > 1 or kinds.count("a") > 1:
            continue
        weight = {(0, 0): WEIGHTS.neither, (1, 0): WEIGHTS.started, (0, 1): WEIGHTS.awaited, (1, 1): WEIGHTS.both}[
            kinds.count("s"), kinds.count("a")
        ]
        for terms, (cause, kind) in zip(members, order, strict=True):
            term = terms[cause]
            weight *= {"s": term.started_density, "w": term.within_probability, "a": term.awaited_density}[kind]
        if count > 1:
            prior = P.departure_shares.get(ways[0]) if len(set(ways)) == 1 else None
            weight *= 1 - P.same_way_share + (P.same_way_share * prior ** (1 - count) if prior else 0.0)
        for index, (cause, kind) in enumerate(order):
            causes[index][cause] += weight
            if kind == "s":
                first[cause] += weight
    assert out.cause_probabilities == [pytest.approx(dict(it)) for it in causes]
    assert {cause: it for cause, it in out.departed_first.items() if it} == pytest.approx(dict(first))
    assert total == out.total_weight
    if members:
        assert total == pytest.approx(sum(causes[0].values()))
    else:
        assert total == WEIGHTS.neither


def test_where_one_cannot_have_gone_there_is_no_order() -> None:
    assert departure_orders([*MEMBERS, {}]) == []
