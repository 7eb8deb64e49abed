"""Every classic group of a real broker's log, replayed: the model must come to what the broker did."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from agent.core.protocol.assignors import ASSIGNORS
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.kafka.source.paths import committed_batches_of
from agent.kafka.source.segments import discover
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, calibrate
from agent.simulation.whatif.changes import Alternative
from agent.simulation.whatif.comparison import AlternativeOutcome, compare
from agent.simulation.whatif.group_recorders import GroupRecorders
from agent.simulation.whatif.recommendations import recommend
from agent.simulation.whatif.recorded_script import reason_not_replayable
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording
from agent.simulation.whatif.sentences import reproduced
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.wire.vectors import CAPTURE

GENERATIONS = {
    "ads-eos": 2,
    "audit-deploy": 9,
    "audit-loop": 8,
    "billing-idle": 3,
    "billing-java_crash": 4,
    "cart-subs": 4,
    "emails-crash": 6,
    "feeds-del": 2,
    "media-parts": 4,
    "pricing-poll": 5,
    "pricing-static": 4,
    "search-range": 3,
    "ship-mig": 1,
    "stock-coop": 8,
}
"""Classic groups of consumers, with how many generations the log shows since they were last classic."""

ACCURACY = Path(__file__).parents[3] / "data" / "accuracy"
where = CAPTURE / "segments"
needs_capture = pytest.mark.skipif(not where.is_dir(), reason=f"the capture is not there: {where}")


@cache
def logs(path: Path) -> list[list[RecordBatch]]:
    return [[run for run in log.committed() if isinstance(run, RecordBatch)] for log in discover(path)]


def recorded(path: Path, group: str) -> tuple[GroupRecording, int]:
    """What the log shows of a group, and when its partition's log ends."""
    for runs in logs(path):
        recorder = GroupRecorder(group)
        mirror = PartitionMirror(runs[0].partition)
        for run in runs:
            recorder.replay_batch(mirror, run)
        if recorder.recording().states:
            return recorder.recording(), max(run.timestamps_ms[-1] for run in runs)
    raise AssertionError(f"{group} is in {path}")


def replayed(group: str, path: Path = where) -> CalibratedReplay:
    recording, end_ms = recorded(path, group)
    missing = {seen.view.protocol for seen in recording.states} - {None} - ASSIGNORS.keys()
    if missing:
        pytest.skip(f"the model has no assignor {missing}")
    return calibrate(recording, end_ms)


@needs_capture
@pytest.mark.parametrize(("group", "generations"), GENERATIONS.items())
def test_every_classic_group_is_reproduced(group: str, generations: int) -> None:
    found = replayed(group).reproduction
    assert found.differences == ()
    assert found.matched == found.generations == generations
    assert max(map(abs, found.late_ms)) <= 3_000, "within a heartbeat interval"


def outcomes(found: CalibratedReplay, *alternatives: dict[str, object]) -> tuple[AlternativeOutcome, ...]:
    return compare(found, map(Alternative, alternatives)).outcomes


@needs_capture
def test_a_rolling_deploy_needs_no_rebalance_with_static_members() -> None:
    found = replayed("audit-deploy")
    assert found.recorded.clients.replacements == [(f"audit-deploy-{it}v2", f"audit-deploy-{it}") for it in range(3)]
    assert (found.recorded.heartbeat_ms, found.recorded.heartbeat_told) == (1_500, True)
    assert (found.recorded.delay_ms, found.recorded.delay_told) == (0, True)
    assert found.recorded.notes == {"never_completed": 1}
    today, static = outcomes(found, {"static": True})
    assert (today.rebalances, static.rebalances) == (9, 3), "of six for three restarts none is left"
    assert static.stopped.rebalancing == 0 < static.stopped.undetected


@needs_capture
def test_a_crash_loop() -> None:
    found = replayed("audit-loop")
    today, static, longer = outcomes(found, {"static": True}, {"session-timeout": 45_000})
    assert (today.rebalances, today.deaths, len(today.detected_ms)) == (8, 5, 5)
    assert 5_500 <= (today.detects_ms or 0) <= (today.detects_at_most_ms or 0) <= 6_000
    assert static.rebalances == 4
    assert static.stopped_ms < today.stopped_ms / 3
    assert longer.stopped_ms > today.stopped_ms, "the living wait for the dead"
    assert abs(today.stopped_ms - found.recorded.stopped_ms) < 0.2 * found.recorded.stopped_ms


@needs_capture
def test_a_stall() -> None:
    today, longer = outcomes(replayed("pricing-poll"), {"poll-timeout": 60_000})
    assert (today.rebalances, longer.rebalances) == (5, 3)
    assert today.detects_ms == 12_000


APART = {
    "aiokafka-stall": "the client commits while it stalls, so the log shows none of that",
    "kafkago-deploy": "members of a play give up their partitions in the same millisecond",
    "kafkajs-life": "as above",
    "rdcoop-stalljoin": "who had given up its partitions and whom they wait for is not in the log",
}
"""Groups whose stopped time the model does not come to, and why not."""


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_stopped_times_are_the_logs_or_said_not_to_be(version: str) -> None:
    path = ACCURACY / f"kafka-{version}" / "records.ndjson.gz"
    exact = 0
    for group, (recording, end_ms) in all_recorded(path).items():
        if reason_not_replayable(recording) is not None:
            continue
        found = calibrate(recording, end_ms)
        near = found.reproduction
        exact += near.is_exact
        said = reproduced(found, compare(found, ()))[-1]
        assert f"{near.log_stopped_ms / 1000:,.1f} by the log" in said
        assert ("The model's times are not this group's" in said) is (not near.has_times_of_log), group
        if not near.has_times_of_log:
            assert group in APART
            gains = recommend(recording, None, None, end_ms)
            assert (gains.tried, gains.gains) == (0, ())
            assert gains.untold.startswith("replayed under today's settings partitions are stopped for")
    assert exact == {"4.3.1": 22, "3.9.2": 8}[version]


def all_recorded(path: Path) -> dict[str, tuple[GroupRecording, int]]:
    """What the log shows of every group, and when its partition's log ends."""
    mirrors: dict[int, tuple[PartitionMirror, GroupRecorders]] = {}
    ends_ms: dict[int, int] = {}
    for run in committed_batches_of(str(path)):
        assert isinstance(run, RecordBatch)
        mirror, recorders = mirrors.setdefault(run.partition, (PartitionMirror(run.partition), GroupRecorders(())))
        recorders.replay_batch(mirror, run)
        ends_ms[run.partition] = run.timestamps_ms[-1]
    return {
        group: (recorders.of(group).recording(), ends_ms[partition])
        for partition, (mirror, recorders) in mirrors.items()
        for group in mirror.groups
    }


def test_the_copy_that_is_always_there() -> None:
    found = replayed("pricing-poll", SEGMENTS).reproduction
    assert (found.is_exact, found.generations) == (True, 2)
