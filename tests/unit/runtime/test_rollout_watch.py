"""What a running agent keeps of rollouts: verdicts for the metrics, and the peak of lag."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict

import pytest

from agent.core.end_offsets import EndOffsets
from agent.core.open_transactions import OpenTransaction
from agent.core.records import RawRecord
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.scraped import ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.presentation.rollouts import rollout_list
from agent.presentation.rollouts.rollout_list import rollouts_json
from agent.runtime import lag_peaks, rollout_watch
from agent.runtime.rollout_watch import RolloutWatch
from analyzers.registry import select_analyzers
from tests.harness.verdicts.stories import GROUP, START_MS, STORIES, UNTIL_MS, records
from tests.unit.analyzers.story import Story
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, commit, run_of
from tests.unit.simulation.generator.making import runs

MINUTE = 60_000
TOPIC, PARTITIONS = "orders-a", 24


class Stage:
    """A watch over a group that is deployed, with a producer that is 1,000 records ahead of every commit so far."""

    def __init__(self, kind: str = "short grace period", *, shows: bool = True) -> None:
        self.log = list(records(STORIES[kind], 411))
        self.state = ClusterState(select_analyzers())
        self.book = EndOffsetHistory(30_000)
        self.now_ms = START_MS
        self.hiding: dict[int, OpenTransaction] = {}
        self.watch = RolloutWatch(
            self.state,
            threading.Lock(),
            ScrapedLags(self.ends),
            shows=lambda group: shows,
            is_current=lambda: True,
            hiding=lambda: self.hiding,
        )

    def ends(self) -> EndOffsets:
        return self.book.publish(self.now_ms)

    def set_clocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ends that are old are not believed: it is the log's time."""
        monkeypatch.setattr("agent.common.clock.now_ms", lambda: self.now_ms)

    def until(self, at_ms: int) -> list[RawRecord]:
        """Read what is written until then."""
        new, self.log = (
            [it for it in self.log if it.timestamp_ms <= at_ms],
            [it for it in self.log if it.timestamp_ms > at_ms],
        )
        for batch in runs(new):
            self.state.replay_batch(batch)
        self.now_ms = at_ms
        return new

    def events(self) -> list[dict[str, object]]:
        return list(self.state.recent.timeline(GROUP)[0])


def test_the_verdict_on_the_newest_as_it_comes() -> None:
    stage = Stage()
    told = []
    for at_ms in range(START_MS, START_MS + UNTIL_MS, 10_000):
        stage.until(at_ms)
        stage.watch.look(at_ms)
        reading = stage.watch.readings().get(GROUP)
        if reading is not None and reading.verdict not in told[-1:]:
            told.append(reading.verdict)
    assert told[0] == "pending"
    assert told[1] == "same"
    assert told[-1] == "harmful"
    newest = rollouts_json(GROUP, stage.events(), START_MS + UNTIL_MS)[-1]
    assert stage.watch.readings()[GROUP].began_ms == newest["began_ms"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_of_a_group_that_all_members_left_nothing_stays_pending(
    is_deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["svc-0", "svc-1"]
    story = Story().change(names).work(1_200)
    for name in names:
        story.change(leave=[name]).change(join=[name])
    story.change(leave=names)
    now_ms = story.log.now_ms
    if is_deleted:
        story.log.add(*(b.uncommit("t", it, group=story.group) for it in (0, 1)), b.no_classic_group(story.group))
    stage = Stage()
    stage.log = list(story.log.records)
    stage.until(story.log.now_ms)
    stage.watch.look(now_ms + MINUTE)
    assert stage.watch.readings()[story.group].verdict == "pending"
    stage.watch.look(now_ms + 11 * MINUTE)
    assert stage.watch.readings()[story.group].verdict == "not known"
    monkeypatch.setattr(rollout_list, "rollouts_json", lambda *_: pytest.fail("judged again"))
    stage.watch.look(now_ms + 12 * MINUTE)


def test_while_a_transaction_hides_what_follows_there_is_no_verdict() -> None:
    """That nothing more was read is no sign of a group that came to rest."""
    stage = Stage()
    stage.until(START_MS + UNTIL_MS)
    since_ms = rollouts_json(GROUP, stage.events(), START_MS + UNTIL_MS)[0]["steady_ms"] + 5_000
    stage = Stage()
    stage.until(since_ms)
    partition = next(iter(stage.state.mirror.partitions))
    stage.hiding = {partition: OpenTransaction(0, since_ms)}
    stage.watch.look(since_ms + 2 * MINUTE)
    assert stage.watch.readings()[GROUP].verdict == "pending"
    stage.hiding = {}
    stage.watch.look(since_ms + 2 * MINUTE)
    assert stage.watch.readings()[GROUP].verdict != "pending"


def test_a_group_at_rest_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.until(START_MS + UNTIL_MS)
    stage.watch.look(START_MS + UNTIL_MS)
    monkeypatch.setattr(rollout_list, "rollouts_json", lambda *_: pytest.fail("judged again"))
    stage.watch.look(START_MS + UNTIL_MS + MINUTE)
    assert stage.watch.readings()[GROUP].verdict == "harmful"
    stage.state.forget(next(iter(stage.state.mirror.partitions)))
    stage.watch.look(START_MS + UNTIL_MS + MINUTE)
    assert stage.watch.readings() == {}, "its partition is another's now"


def test_a_rollout_whose_beginning_was_let_go_has_no_verdict() -> None:
    stage = Stage()
    stage.until(START_MS + UNTIL_MS)
    stage.watch.look(START_MS + UNTIL_MS)
    began_ms = stage.watch.readings()[GROUP].began_ms
    partition = next(it for it in stage.state.recent.partitions.values() if GROUP in it.groups)
    partition.cut(GROUP, sum(it.at_ms <= began_ms for it in partition.groups[GROUP]))
    stage.watch.look(START_MS + UNTIL_MS + MINUTE)
    assert stage.watch.readings() == {}


def test_a_group_that_cannot_be_judged_keeps_no_other_from_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, judged = Stage(), list[str]()

    def judge(group: str, *given: object) -> list[object]:
        judged.append(group)
        raise ValueError("no history")

    monkeypatch.setattr(rollout_list, "rollouts_json", judge)
    strangers = Log(3).add(b.classic_group(1, b.member("m"), group="a")).add(b.classic_group(1, group="b"))
    stage.state.replay_batch(run_of(strangers.records))
    for _ in range(2):
        stage.watch.look(strangers.now_ms)
    assert sorted(judged) == ["a", "b"], "each once, until something happens"


def test_groups_that_are_not_shown_are_not_judged() -> None:
    stage = Stage(shows=False)
    stage.until(START_MS + UNTIL_MS)
    stage.watch.look(START_MS + UNTIL_MS)
    assert stage.watch.readings() == {}


def watched(monkeypatch: pytest.MonkeyPatch, *, one_unknown_from_ms: float = math.inf) -> Stage:
    """Each position is 1,000 behind its end; from that time on one end is not known."""
    stage = Stage("clean eager")
    stage.set_clocks(monkeypatch)
    for at_ms in range(START_MS, START_MS + UNTIL_MS, 30_000):
        stage.until(at_ms)
        found = stage.state.mirror.find(GROUP)
        committed = {} if found is None else {(it.topic, it.partition): it.offset for it in found[1]}
        known = dict(sorted(committed.items())[: -1 if at_ms > one_unknown_from_ms else None])
        stage.book.add_high_watermarks({place: offset + 1_000 for place, offset in known.items()}, at_ms)
        stage.watch.look(at_ms)
    return stage


def test_lag_is_noted_while_members_change_and_tells_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = watched(monkeypatch)
    notes = stage.watch.lag_notes(GROUP)
    first, second = rollouts_json(GROUP, stage.events(), START_MS + UNTIL_MS, lags=notes)
    assert first["lag_peak_records"] > 0
    assert second["lag_peak_records"] > 0
    quiet_ms = (first["steady_ms"] + 4 * MINUTE, second["began_ms"] - MINUTE)
    assert [it for it in notes if quiet_ms[0] <= it.at_ms <= quiet_ms[1]] == [], "nothing changed in that time"
    unknown = rollouts_json(GROUP, stage.events(), START_MS + UNTIL_MS)
    assert [it["lag_peak_records"] for it in unknown] == [None, None]


def test_a_peak_is_a_bound_where_the_end_of_a_partition_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = watched(monkeypatch, one_unknown_from_ms=START_MS + UNTIL_MS // 2)
    notes = stage.watch.lag_notes(GROUP)
    first, second = rollouts_json(GROUP, stage.events(), START_MS + UNTIL_MS, lags=notes)
    assert (first["lag_peak_at_least"], second["lag_peak_at_least"]) == (False, True)
    assert second["lag_peak_records"] == first["lag_peak_records"] - 1_000


def test_a_rollout_of_an_hour_keeps_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six members, ten minutes each, looked at every 10 s; it was furthest behind in the fourth minute."""
    names = [f"svc-{it}" for it in range(6)]
    story = Story().change(names).work(1_200)
    began_ms = story.log.now_ms
    for name in names:
        story.change(leave=[name]).work(60).change(join=[name])
        for _ in range(9):
            story.work(60).change()
    stage = Stage()
    stage.log = list(story.log.records)
    stage.set_clocks(monkeypatch)
    for at_ms in range(began_ms - 1_000, story.log.now_ms + 60_000, 10_000):
        stage.until(at_ms)
        found = stage.state.mirror.find(story.group)
        assert found is not None
        behind = 90_000 if 180_000 <= at_ms - began_ms < 240_000 else 1_000
        stage.book.add_high_watermarks({(it.topic, it.partition): it.offset + behind for it in found[1]}, at_ms)
        stage.watch.look(at_ms)
    events, notes = stage.state.recent.timeline(story.group)[0], stage.watch.lag_notes(story.group)
    (rollout,) = rollouts_json(story.group, events, story.log.now_ms + 60_000, lags=notes)
    assert rollout["lag_peak_records"] == 6 * 90_000
    assert rollout["ended_ms"] - rollout["began_ms"] > 50 * MINUTE
    assert len(notes) <= lag_peaks.MAX_SPANS


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_peaks, "MAX_SPANS", 3)
    monkeypatch.setattr(rollout_watch, "NOTED_AFTER_MS", UNTIL_MS)
    stage = Stage("clean eager")
    stage.set_clocks(monkeypatch)
    stage.until(START_MS + 10 * MINUTE)
    found = stage.state.mirror.find(GROUP)
    assert found is not None
    ends = {(it.topic, it.partition): it.offset + 5 for it in found[1]}
    for _ in range(5):
        stage.now_ms += 30_000
        stage.book.add_high_watermarks(ends, stage.now_ms)
        stage.watch.look(stage.now_ms)
    assert len(stage.watch.lag_notes(GROUP)) == 3
    log = Log(partition=9)
    log.now_ms = stage.now_ms
    log.add(b.classic_group(1, b.member("m", {"t": [0]}), group="newer"), commit(group="newer", topic="t", offset=1))
    stage.state.replay_batch(run_of(log.records))
    stage.book.add_high_watermarks({("t", 0): 5}, stage.now_ms)
    monkeypatch.setattr(rollout_watch, "MAX_GROUPS", 1)
    monkeypatch.setattr(stage.watch, "_notes", OrderedDict())
    stage.watch.look(stage.now_ms)
    assert [it.records for it in stage.watch.lag_notes("newer")] == [4]
    assert stage.watch.lag_notes(GROUP) == (), "it changed longer ago"
    monkeypatch.setattr(rollout_watch, "MAX_GROUPS", 0)
    stage.watch.look(stage.now_ms)
    assert stage.watch.lag_notes("newer") == ()
