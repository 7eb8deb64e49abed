"""What a witness tells stands in place of what was inferred; without one nothing changes."""

from __future__ import annotations

import pytest

from agent.shadow.cluster import ClusterMirror
from agent.shadow.told import Told
from agent.shadow.transitions import Rebalanced
from tests.shadow import build as b
from tests.shadow.build import Log


class Saw:
    """A witness who knows one thing of every rebalance, and notes what it was asked."""

    def __init__(self, told: Told | None) -> None:
        self.answer = told
        self.asked: list[tuple[str, int, int]] = []

    def told(self, group: str, generation: int, end_ms: int) -> Told | None:
        self.asked.append((group, generation, end_ms))
        return self.answer


def rebalanced(witness: Saw) -> Rebalanced:
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]}), state_ms=log.now_ms + b.STEP_MS - 40))
    mirror = ClusterMirror(witness)
    transitions = [it for record in log.records for it in mirror.replay(record)]
    return next(it for it in transitions if isinstance(it, Rebalanced))


def test_a_witness_is_asked_for_the_join_phase_that_ended_before_the_sync_phase() -> None:
    witness = Saw(None)
    rebalance = rebalanced(witness)
    assert witness.asked == [(b.GROUP, 1, rebalance.at.timestamp_ms - 40)]
    assert (rebalance.observed, rebalance.join_ms) == (False, None)


@pytest.mark.parametrize(("began_before_ms", "join_ms"), [(2_500, 2_500), (-30, 0)])
def test_when_it_began_gives_the_length_of_the_join_phase(began_before_ms: int, join_ms: int) -> None:
    end_ms = rebalanced(Saw(None)).at.timestamp_ms - 40
    rebalance = rebalanced(Saw(Told("admin_api", began_ms=end_ms - began_before_ms)))
    assert (rebalance.observed, rebalance.join_ms) == (True, join_ms)


def test_a_witness_who_did_not_see_the_beginning_observed_nothing() -> None:
    rebalance = rebalanced(Saw(Told("admin_api")))
    assert (rebalance.observed, rebalance.join_ms) == (False, None)
