"""Scaling that feeds itself: told where Kubernetes tells who scaled, and nowhere else."""

from __future__ import annotations

from typing import cast

from agent.core.diagnosis.api import Finding, GroupContext, LagLook
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.inference.origins import Origin
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.views import Member
from agent.persistence.cluster_state import ClusterState
from analyzers.autoscaler_storm import AutoscalerStorm
from analyzers.registry import select_analyzers
from tests.unit.analyzers.story import Story
from tests.unit.core.inference.test_origin_evidence import origin
from tests.unit.core.shadow import build as b

NAME = "autoscaler_storm"
BY_HPA = "Deployment/payments went from 2 to 4 replicas, by HorizontalPodAutoscaler `payments` (ScaledObject)"
BY_KEDA = "Deployment/payments went from 2 to 4 replicas, by KEDA's ScaledObject `payments`"
BY_HAND = "Deployment/payments went from 2 to 4 replicas, by hand (kubectl-scale)"


class Scaled:
    """Says that all who came and went since the beginning were scaled."""

    is_behind = False

    def __init__(self, message: str = BY_HPA, at_first: tuple[str, ...] = ("a", "b")) -> None:
        self.message, self.at_first = message, at_first

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        return origin("scaled_down", message=self.message)

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        return None if member.client_id in self.at_first else origin("scaled_up", message=self.message)


def scaling(times: int, pause_s: int = 120) -> Story:
    """Two members come and go, again and again."""
    story = Story().change(["a", "b"]).work(20)
    for _ in range(times):
        story.change(["c", "d"]).work(pause_s).change(leave=["c", "d"]).work(pause_s)
    return story


def test_turns_of_an_autoscaler_without_lag_are_told_as_what_they_are() -> None:
    (found,) = scaling(2).findings(NAME, origin_source=Scaled())
    assert found.severity == "info", "the topic alone does not tell lag"
    assert found.numbers["turns"] == 3
    assert (found.numbers["scale_ups"], found.numbers["scale_downs"]) == (2, 2)
    assert found.summary == (
        "An autoscaler turned 3 times in 30 min, with 4 rebalances: whether by lag is not known."
    )
    # The scale-down in the middle, and the scale-up that undid it.
    assert found.numbers["rebalances_saved"] == 2
    assert found.numbers["advised_stabilization_window_s"] == 300, "no less than the default"
    assert "stabilizationWindowSeconds under behavior.scaleDown" in found.advice
    assert "to 300 or more: 2 of 4 rebalances would not have been" in found.advice


def test_the_window_is_longer_than_what_was_undone() -> None:
    (found,) = scaling(2, pause_s=400).findings(NAME, {"autoscaler_storm.window_s": "3600"}, origin_source=Scaled())
    assert found.numbers["advised_stabilization_window_s"] == 420


def test_keda_is_an_autoscaler_and_a_hand_is_none() -> None:
    assert scaling(2).findings(NAME, origin_source=Scaled(BY_KEDA)) != []
    assert scaling(2).findings(NAME, origin_source=Scaled(BY_HAND)) == []


def test_without_kubernetes_nothing_is_said() -> None:
    assert scaling(6).findings(NAME) == []


def test_a_day_s_load_is_none() -> None:
    assert scaling(1).findings(NAME, origin_source=Scaled()) == []
    assert scaling(3, pause_s=1_000).findings(NAME, origin_source=Scaled()) == []


def test_it_closes_when_the_window_is_over() -> None:
    found = scaling(2).findings(NAME, origin_source=Scaled(), until_s=3_600)
    assert [str(it.state) for it in found] == ["firing", "resolved"]


class Late(Scaled):
    """Knows nothing when it is asked at first, as where the controllers tell a second later."""

    def __init__(self) -> None:
        super().__init__()
        self.knows = False

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        return super().departure_origin(member, departed_ms, shown_ms) if self.knows else None

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        return super().join_origin(member, shown_ms) if self.knows else None


def lagging(lags: list[int]) -> list[Finding]:
    """What is found where after each change so many records wait for a minute."""
    story = Story().change(["a", "b"]).work(20)
    mirror = PartitionMirror(story.log.partition, origin_source=Scaled())
    diagnosis = PartitionDiagnosis(mirror, select_analyzers([NAME]).makes)
    out = diagnosis.replay_batch(b.run_of(story.log.records))
    for number, lag in enumerate(lags):
        seen = len(story.log.records)
        story.change(["c", "d"]) if number % 2 == 0 else story.change(leave=["c", "d"])
        out += diagnosis.replay_batch(b.run_of(story.log.records[seen:]))
        for after_ms, records in ((5_000, lag), (60_000, 0)):
            at_ms = story.log.now_ms + after_ms
            analyzer_of(diagnosis).look(LagLook(at_ms, at_ms, {}, {("t", 0): records}), CONTEXT)
        seen = len(story.log.records)
        story.work(120)
        out += diagnosis.replay_batch(b.run_of(story.log.records[seen:]))
    return [it for it in out if isinstance(it, Finding)]


CONTEXT = cast(GroupContext, None)
"""Of a look it is not asked for anything."""


def analyzer_of(diagnosis: PartitionDiagnosis) -> AutoscalerStorm:
    (found,) = (it.analyzer for group in diagnosis._groups.values() for it in group.watches)
    assert isinstance(found, AutoscalerStorm)
    return found


def test_lag_after_each_rebalance_shows_that_it_feeds_itself() -> None:
    found = lagging([900, 900, 900, 900, 900, 900])
    assert found[-1].severity == "warning"
    assert found[-1].numbers["scale_ups_after_lag"] == 2
    assert "2 of its scale-ups followed lag of its own rebalances" in found[-1].summary


def test_lag_that_stays_clears_it() -> None:
    assert lagging([5, 5, 5, 5, 5, 5]) == []


def test_origins_that_come_late_count_as_well() -> None:
    pods = Late()
    state = ClusterState(select_analyzers([NAME]), origin_source=pods)
    found: list[Finding] = []
    for number, record in enumerate(scaling(3).log.records):
        pods.knows = False
        outputs = state.replay_batch(b.run_of([record]))
        found += [it for it in outputs if isinstance(it, Finding)]
        state.observe_origins(outputs, float(number), record.timestamp_ms)
        pods.knows = True
        state.settle_origins(number + 0.9)
    assert [it.numbers["turns"] for it in found] == [3]
