"""A source of origins that fails."""

from __future__ import annotations

import logging

import pytest

from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from agent.persistence.cluster_state import ClusterState
from agent.runtime.guarded_origins import GuardedOrigins
from tests.unit.core.inference.test_origin_evidence import EveryPod, a_departure, origin, play
from tests.unit.core.shadow import build as b


class Broken(EveryPod):
    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        raise KeyError(member.member_id)


def test_a_source_that_raises_is_told_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    came = origin("scaled_up")
    state = ClusterState(origin_source=GuardedOrigins(Broken(came, came)))
    with caplog.at_level(logging.ERROR, "kshadow"):
        play(state, a_departure())
        state.settle_origins(1.0)
    assert [it.message for it in caplog.records] == [
        "what happened to a member's pod could not be looked up; it counts as unknown"
    ]
    assert caplog.records[0].exc_info is not None
    origins = state.mirror.partitions[7].origins
    assert origins.departed == {}
    assert origins.joined == {b.GROUP: {"m-1": came}}
