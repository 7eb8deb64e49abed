"""What the reader's thread does under which lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent.common import clock
from agent.common.pacing import STOOD_STILL_S
from agent.config.settings import PLAIN_CLUSTER, FilterSettings, GroupSource, LagSettings, ReadSettings
from agent.config.values import Shard
from agent.core.diagnosis.api import Analyzer, Finding, FindingState, GroupContext, Verdict
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.record_time import UNKNOWN
from agent.core.records import LogId, RecordBatch
from agent.core.shadow import mirror
from agent.core.shadow.transitions import Transition
from agent.kafka.admin_api.answers import AdminAnswer, AdminOutcome, FetchedOffsets, ListedGroup, Refusal
from agent.kafka.admin_api.sampled_reader import STALE_S, SampledReader
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.kafka.source.progress import (
    GroupsBegunAnew,
    LogBounds,
    PartitionCountChanged,
    PartitionProgress,
    ReaderNotice,
    TopicRecreated,
)
from agent.kafka.source.shared import SharedTopicReader
from agent.kafka.source.topic import TopicReader
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.pipeline import ExportPipeline
from agent.persistence.export.sinks import BatchLimits, RejectedEvent
from agent.persistence.snapshot.directory_store import DirectoryStore
from agent.runtime import event_clock, reader_loop
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions, AgentParts, Visibility, build_parts
from agent.runtime.queries import AgentQueries
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.scrape import ScrapeReader
from analyzers.registry import select_analyzers
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.diagnosis.doubles import chosen
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.serving.routes.replayed import of_path
from tests.waiting import until


class LocksSeen(Analyzer):
    """Notes which locks are held as it is told of a record: the answers', and the writer's."""

    name = "locks_seen"
    rule = "never"
    false_alarms = "none"
    parts: ClassVar[AgentParts]
    seen: ClassVar[set[tuple[bool, bool]]] = set()

    def observe(self, transition: Transition, group: GroupContext) -> None:
        self.seen.add((self.parts.lock.locked(), self.parts.writing.locked()))

    def judge(self, group: GroupContext) -> Verdict:
        return Verdict()


def test_a_large_group_is_worked_out_while_answers_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, analyzers=chosen(LocksSeen)))
    monkeypatch.setattr(LocksSeen, "parts", parts, raising=False)
    loop, log, held = ReaderLoop(parts, lambda: None), Log(), []
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]})))
    log.add(b.classic_group(2, b.member("m-1", {"t": list(range(mirror.LARGE_GROUP))})))
    log.add(b.classic_group(3))
    for record in log.records:
        LocksSeen.seen.clear()
        loop._apply(run_of([record]), UNKNOWN)
        held.append(set(LocksSeen.seen))
    assert held == [{(True, True)}, {(True, True)}, {(False, True)}]
    assert not parts.lock.locked()
    assert not parts.writing.locked()
    assert parts.state.mirror.partitions[log.partition].groups[b.GROUP].state == "Empty"


def test_a_reader_whose_thread_died_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """/healthz said so, while `kshadow_source_healthy` stayed as it had been."""
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    parts.reader._is_connected = True  # type: ignore[union-attr]
    loop = ReaderLoop(parts, lambda: None)
    scrape = ScrapeReader(parts, loop)
    assert scrape.read().healthy

    def broken(timeout_s: float) -> list[object]:
        raise MemoryError

    monkeypatch.setattr(parts.reader, "poll", broken)
    loop.start()
    loop.join(30)
    assert isinstance(loop.ended_by, MemoryError)
    assert not scrape.read().healthy


def test_what_a_reader_that_died_has_applied_by_half_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The snapshot was ahead of the history: what the first half had told was never told."""
    parts = build_parts(
        AgentOptions(
            conf={"bootstrap.servers": "127.0.0.1:1"}, open_store=lambda cluster_id: DirectoryStore(tmp_path)
        )
    )
    log, keeper, replay = Log(), parts.checkpointer, parts.state.replay_batch
    assert keeper is not None, "there is a store"
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]})))
    log.add(b.classic_group(2))
    batch = run_of(log.records)
    keeper.restorer.restore(LogId("cluster", "topic"), {batch.partition: LogBounds(0, 2)})

    def half(run: RecordBatch, *given: Any) -> list[DiagnosisOutput]:
        replay(run.part(0, 1), *given)
        raise MemoryError

    monkeypatch.setattr(parts.state, "replay_batch", half)
    monkeypatch.setattr(parts.reader, "poll", lambda timeout_s: [batch])
    loop = ReaderLoop(parts, lambda: None)
    loop.start()
    loop.join(30)
    assert parts.state.position(batch.partition).next_offset == 1
    assert not keeper.finish(5)
    assert not list(tmp_path.glob("partition-*"))
    assert f"the state of partitions [{batch.partition}] is not saved" in caplog.messages[-1]


def test_a_thread_that_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a line of the log told that rollouts were no longer judged."""
    agent = Agent(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    rollouts = agent._parts.rollouts

    def broken() -> None:
        raise KeyError("group")

    assert not list(agent.queries._warnings())
    monkeypatch.setattr(rollouts, "_run", broken)
    rollouts.start()
    until(lambda: rollouts.failure is not None, said="it failed")
    (said,) = agent.queries._warnings()
    assert said == "the thread rollouts has failed, and is tried again: KeyError('group')"
    rollouts.stop()


def test_another_reason_why_reading_has_stopped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that was gone is back, and refuses the password: the log said that connections were refused."""
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    loop = ReaderLoop(parts, lambda: None)
    unreachable, denied = SourceUnreachable("refused after 1 ms"), SourceDenied("wrong password", right="another")
    errors = [None, unreachable, SourceUnreachable("refused after 2 ms"), denied, unreachable, denied, None, denied]
    with caplog.at_level("INFO", "kshadow"):
        for error in errors:
            parts.reader._health.error = error  # type: ignore[union-attr]
            loop._tell_health()
    stopped = [f"reading has stopped: {it}; it goes on once that is over" for it in (unreachable, denied, denied)]
    assert caplog.messages == [*stopped[:2], "reading works again, after 0 s", stopped[2]]


def test_where_some_partitions_are_read_on_reading_has_not_stopped(caplog: pytest.LogCaptureFixture) -> None:
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    assert isinstance(parts.reader, TopicReader)
    progress = {number: PartitionProgress(0, 0, 0) for number in (0, 1)}
    parts.reader._assignment.progress, parts.reader._is_connected = progress, True
    assert parts.reading_problem is None
    progress[1].error = SourceUnreachable("no leader")
    with caplog.at_level("INFO", "kshadow"):
        ReaderLoop(parts, lambda: None)._tell_health()
    assert caplog.messages == ["reading some partitions has stopped: no leader; it goes on once that is over"]
    assert parts.reading_problem == "reading some partitions has stopped: no leader"


def test_a_source_some_of_whose_coordinators_are_silent_is_not_healthy() -> None:
    """/readyz answered 503, while `kshadow_source_healthy` stayed 1 and so no alert fired."""
    settings = replace(PLAIN_CLUSTER, read=ReadSettings(source=GroupSource.ADMIN))
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, settings=settings))
    reader, now = parts.reader, time.monotonic()
    assert isinstance(reader, SampledReader)
    loop, groups = ReaderLoop(parts, lambda: None), {"g": ListedGroup("classic", "Empty")}
    scrape = ScrapeReader(parts, loop)
    silent = Refusal(AdminOutcome.TIMED_OUT, "broker 1 does not answer")

    def answer(number: int, after_s: float, **parts: Any) -> AdminAnswer:
        at_ms = round((now + after_s) * 1000)
        return AdminAnswer(number, at_ms, at_ms, **parts)

    def listed(number: int, after_s: float, **parts: Any) -> None:
        reader._list._number = number
        reader._take(answer(number, after_s, **parts), now + after_s)

    listed(1, 0, groups=groups)
    assert scrape.read().healthy
    others: dict[str, Any] = {"groups": {"h": ListedGroup("classic", "Empty")}, "refusals": (silent,)}
    listed(2, 1, **others)
    assert scrape.read().healthy
    listed(3, 2 + STALE_S, **others)
    assert reader.unanswered == 1
    assert reader.healthy
    assert not scrape.read().healthy
    listed(4, 3 + STALE_S, groups=groups)
    reader._take_group("g", answer(5, 4 + STALE_S, offsets={"g": FetchedOffsets(())}), now + 4 + STALE_S)
    assert scrape.read().healthy
    loop._standstill.lasted_s(now - STOOD_STILL_S)
    assert not scrape.read().healthy, "nobody asks"


def test_the_lag_of_a_group_whose_commits_are_not_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows had no note, as if nothing were to be said of them."""
    settings = replace(PLAIN_CLUSTER, lag=LagSettings())
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, settings=settings))
    loop, log = ReaderLoop(parts, lambda: None), Log()
    loop._apply(run_of(log.add(b.commit("t", 0, 5)).records), UNKNOWN)
    queries = AgentQueries(parts, loop, ScrapeReader(parts, loop))

    def notes() -> list[object]:
        form = queries.describe(b.GROUP)
        assert form is not None
        assert form["lag"] is None
        return [(it["offset"], it["lag"], it["lag_note"]) for it in form["offsets"]]

    assert notes() == [(5, None, "unknown_end")]
    monkeypatch.setattr(parts.reader._health, "error", SourceUnreachable("no broker answers"))  # type: ignore[union-attr]
    assert notes() == [(5, None, "not_read")]


def test_time_that_passed_while_the_process_was_stopped_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log went on meanwhile, and what was written then is still to be read."""
    log = Log()
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]})))
    written_ms, began_s, stopped_s = log.records[-1].timestamp_ms, time.monotonic(), 0.0

    def wall_s() -> float:
        nonlocal stopped_s
        stopped_s = 20.0
        return written_ms / 1000 + stopped_s

    options = AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, analyzers=select_analyzers(), wall_s=wall_s)
    parts = build_parts(options)
    loop = ReaderLoop(parts, lambda: None)
    loop._apply(run_of(log.records), UNKNOWN)
    loop.has_caught_up, stopped_s = True, 0.0
    monkeypatch.setattr(type(parts.reader), "read_until_s", {log.partition: began_s})
    monkeypatch.setattr(time, "monotonic", lambda: began_s + stopped_s)
    loop._advance_time()
    assert parts.state.diagnosis.clock_ms(log.partition) == written_ms


class ClockSink:
    """Takes up to when time has passed."""

    name = "clock"
    batching = BatchLimits(100, 10**6, 0)

    def __init__(self) -> None:
        self.told: list[LogClock] = []

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        return []

    def tell_clock(self, clock: LogClock) -> None:
        self.told.append(clock)

    def close(self) -> None:
        """Nothing to let go of."""


def test_a_shard_without_partitions_tells_the_history_that_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time of the whole set is never known: all shards of it must tell."""
    monkeypatch.setattr(event_clock, "PATIENCE_S", 0.0)
    settings, sink = replace(PLAIN_CLUSTER, read=ReadSettings(shard=Shard(1, 2))), ClockSink()
    exports = ExportPipeline([sink], spool=None)
    options = AgentOptions(
        conf={"bootstrap.servers": "127.0.0.1:1"},
        settings=settings,
        partitions=lambda it: it % 2 == 1,
        exports=exports,
        wall_s=lambda: 1_000.0,
    )
    parts = build_parts(options)
    loop = ReaderLoop(parts, lambda: None)
    loop.has_caught_up = True
    loop._advance_time()
    assert parts.held is not None
    assert not parts.held._handed_on, "it is not connected"
    parts.reader._is_connected, loop._advance_at = True, 0.0  # type: ignore[union-attr]
    loop._advance_time()
    exports.start()
    until(lambda: sink.told, said="the sink was told")
    exports.stop(5)
    assert sink.told == [LogClock("agent", None, 995_000, (1, 2))]


def test_findings_of_a_group_that_is_no_longer_shown_are_not_told() -> None:
    """They were, after a reload as after a start from a snapshot."""
    visibility = Visibility()
    conf = {"bootstrap.servers": "127.0.0.1:1"}
    parts = build_parts(AgentOptions(conf=conf, analyzers=select_analyzers(), visibility=visibility))
    loop = ReaderLoop(parts, lambda: None)
    for run in of_path(SEGMENTS):
        loop._apply(run, UNKNOWN)
    queries = AgentQueries(parts, loop, ScrapeReader(parts, loop))
    before = queries.findings(0)
    (denied,) = {it["group"] for it in before if it["group"] is not None}
    visibility.change(FilterSettings(deny_groups=(denied,)))
    assert queries.findings(0) == [it for it in before if it["group"] is None]
    assert queries.findings(0, group=denied) == []
    visibility.change(FilterSettings(allow_groups=(denied,)))
    assert queries.findings(0) == before


def test_of_a_group_that_a_reload_shows_again_all_is_told_that_happened_meanwhile() -> None:
    """A finding that closed meanwhile was open for ever, and one that opened was not there; nothing said so."""
    group, told = "geo-stream", []
    everything, denied = FilterSettings(), FilterSettings(deny_groups=(group,))
    visibility = Visibility(filters=denied)
    options = AgentOptions(
        conf={"bootstrap.servers": "127.0.0.1:1"},
        analyzers=select_analyzers(),
        visibility=visibility,
        observe=lambda outputs: told.extend(it.group for it in outputs),
    )
    parts = build_parts(options)
    loop = ReaderLoop(parts, lambda: None)
    loop.has_caught_up = True
    for run in of_path(SEGMENTS):
        loop._apply(run, UNKNOWN)
    queries = AgentQueries(parts, loop, ScrapeReader(parts, loop))
    assert group not in told
    assert queries.timeline(group) is None
    visibility.change(everything)
    (found,) = queries.findings()
    assert found["group"] == group
    rebalances, timeline = parts.state.counts.totals()[0], queries.timeline(group)
    assert timeline is not None
    assert rebalances[group] == sum(it["type"] == "rebalance" for it in timeline.events) > 0
    visibility.change(denied)
    loop._notify(parts.state.advance(found["at_ms"] + 86_400_000))
    visibility.change(everything)
    assert group not in told
    assert queries.findings() == []
    states = [it.findings.get(group, {}) for it in parts.state.counts.partitions.values()]
    assert {is_open for it in states for is_open in it.values()} == {False}


@pytest.mark.parametrize("members", [1, 0])
def test_a_group_that_moved_is_as_it_is_at_its_new_coordinator(members: int) -> None:
    """Once the topic has more partitions. Where it was, its members are taken for dead a session later: with
    that, the group was empty, and in a list a second time."""
    settings = replace(PLAIN_CLUSTER, lag=LagSettings())
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, settings=settings))
    assert parts.lags.watcher is not None
    loop, old, new = ReaderLoop(parts, lambda: None), Log(1), Log(5)
    old.add(b.classic_group(1, b.member("m-1", {"t": [0]}))).add(b.commit("t", 0, 5))
    new.add(b.classic_group(1, b.member("m-1", {"t": [0]}), state_ms=b.T0 + 1))
    new.add(b.commit("t", 0, 90, at_ms=b.T0 + 5_000))
    if not members:
        new.add(b.classic_group(2, state_ms=b.T0 + 9_000))
    old.add(b.classic_group(2, state_ms=b.T0 + 45_000), after_ms=45_000)
    for log in (new, old):
        loop._apply(run_of(log.records), UNKNOWN)
    history, now_ms = parts.lags.watcher._history, clock.now_ms()
    history.add_high_watermarks({("t", 0): 100}, now_ms)
    history.publish(now_ms)
    queries = AgentQueries(parts, loop, ScrapeReader(parts, loop))
    (row,) = queries.groups()
    assert (row["members"], row["lag"], row["coordinator_partition"]) == (members, 10, 5)
    form = queries.describe(b.GROUP)
    assert form is not None
    assert [(it["offset"], it["lag"]) for it in form["offsets"]] == [(90, 10)]
    assert queries.group_partitions() == {b.GROUP: 5}
    assert [it.coordinator_partition for it in parts.state.mirror.views()] == [5]


@pytest.mark.parametrize(("partitions", "says_so"), [(None, False), ([3], True), (lambda it: it % 2 == 0, False)])
def test_that_groups_may_have_moved_to_partitions_that_are_not_read_is_told(
    partitions: list[int] | Callable[[int], bool] | None, says_so: bool
) -> None:
    """An agent of one group said for good that it was empty."""
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, partitions=partitions))
    loop = ReaderLoop(parts, lambda: None)
    queries = AgentQueries(parts, loop, ScrapeReader(parts, loop))
    assert not list(queries._warnings())
    loop._handle_notice(PartitionCountChanged(4, 8))
    assert [it.partition(":")[0] for it in queries._warnings()] == ["the topic has 8 partitions, and had 4"] * says_so


@pytest.mark.parametrize(
    "notice", [GroupsBegunAnew("the clock went back"), TopicRecreated(LogId("c", "one"), LogId("c", "two"))]
)
def test_findings_of_groups_that_begin_anew_are_told_to_be_over(notice: ReaderNotice) -> None:
    """In the history they stayed open for ever."""
    told: list[Finding] = []
    options = AgentOptions(
        conf={"bootstrap.servers": "127.0.0.1:1"},
        analyzers=select_analyzers(),
        observe=lambda outputs: told.extend(it for it in outputs if isinstance(it, Finding)),
    )
    parts = build_parts(options)
    loop = ReaderLoop(parts, lambda: None)
    loop.has_caught_up = True
    for run in of_path(SEGMENTS):
        loop._apply(run, UNKNOWN)
    opened = {(it.group, it.analyzer): it.state for it in told if it.group is not None}
    assert set(opened.values()) == {FindingState.FIRING}
    loop._handle_notice(notice)
    assert {(it.group, it.analyzer): it.state for it in told} == dict.fromkeys(opened, FindingState.RESOLVED)
    assert not parts.state.partitions


@pytest.mark.parametrize(("lost", "said"), [(False, "given up"), (True, "lost")])
def test_whose_partitions_are_next_is_not_said_to_be_known(
    lost: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They were said to be another replica's, also as the last one stopped."""
    settings = replace(PLAIN_CLUSTER, read=ReadSettings(share_group="kshadow"))
    reader = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}, settings=settings)).reader
    assert isinstance(reader, SharedTopicReader)
    caplog.set_level("INFO", "kshadow")
    reader._given._on_revoked([4, 3], lost)
    assert caplog.messages == [f"partitions [3, 4] are {said}"]
    reader.close()


def test_what_was_broken_off_is_read_in_bulk_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = build_parts(AgentOptions(conf={"bootstrap.servers": "127.0.0.1:1"}))
    loop, answers, asked = ReaderLoop(parts, lambda: None), [True, False], list[object]()

    def read(reader: object, conf: object, taker: object, meanwhile: object) -> bool:
        asked.append(taker)
        return answers[len(asked) - 1]

    monkeypatch.setattr(reader_loop, "read_in_bulk", read)
    loop._read_in_bulk()
    assert asked == [], "nobody answers yet"
    parts.reader._is_connected = True  # type: ignore[union-attr]
    for _ in range(3):
        loop._read_in_bulk()
    assert asked == [loop]
    monkeypatch.setattr(reader_loop, "BULK_AGAIN_S", 0.0)
    loop._bulk_at = 0.0
    for _ in range(3):
        loop._read_in_bulk()
    assert asked == [loop, loop]
    loop._bulk_at, loop.has_caught_up = 0.0, True
    loop._read_in_bulk()
    assert asked == [loop, loop]
