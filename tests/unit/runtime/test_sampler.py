"""The thread that looks: what it tells, when, and when not."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agent.core.end_offsets import EndOffsets
from agent.core.events.samples import MOST_BEHIND
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.scraped import ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.pipeline import ExportPipeline
from agent.runtime.sampling import BATCH_EVENTS, Sampler
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import T0, Log, run_of
from tests.unit.persistence.export.made import event
from tests.unit.persistence.export.shelf import DOWN, Shelf
from tests.waiting import until

Event = dict[str, Any]


class Kept(Shelf):
    """A sink that keeps the events."""

    def __init__(self) -> None:
        super().__init__("kept")
        self.events: list[Event] = []

    def write(self, batch: Any) -> Any:
        refused = super().write(batch)
        lines: list[EncodedEvent] = list(batch)
        self.events += [json.loads(line.body) for line in lines]
        return refused


class Stage:
    """A sampler with all that it needs."""

    def __init__(self, *logs: Log, interval_s: float | None = None, memory_bytes: int = 1 << 24) -> None:
        self.state = ClusterState(select_analyzers())
        for log in logs:
            self.state.replay_batch(run_of(log.records))
        self.sink = Kept()
        self.exports = ExportPipeline([self.sink], spool=None, memory_bytes=memory_bytes)
        self.book = EndOffsetHistory(30_000)
        self.shown = lambda group: True
        self.is_current = True
        self.lags = ScrapedLags(self.ends)
        self.lock = threading.Lock()
        self.sampler = Sampler(
            self.state,
            self.lock,
            self.lags,
            self.exports,
            cluster="c",
            shows=lambda group: self.shown(group),
            is_current=lambda: self.is_current,
            interval_s=interval_s,
        )

    def ends(self) -> EndOffsets:
        return self.book.snapshot

    def look(self) -> list[Event]:
        """What comes of one look."""
        before = len(self.sink.events)
        told = self.sampler.sample()
        until(lambda: len(self.sink.events) == before + told)
        return self.sink.events[before:]


@contextmanager
def stage(*logs: Log, **more: Any) -> Iterator[Stage]:
    it = Stage(*logs, **more)
    it.exports.start()
    try:
        yield it
    finally:
        it.sampler.stop()
        it.sink.open.set()
        it.exports.stop(5)


def simple(group: str, partition: int = 7, **more: Any) -> Log:
    return Log(partition).add(b.commit(group=group, **more))


def test_what_is_told() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1, 2]}), b.member("b-1", {"t": [3]})))
    log.add(*(b.commit(partition=number, offset=10 * number) for number in range(4)))
    with stage(log) as it:
        now_ms = time.time_ns() // 1_000_000
        it.book.add_high_watermarks({("t", number): 25 for number in range(3)}, now_ms)
        it.book.publish(now_ms)
        (event,) = it.look()
    assert now_ms <= event.pop("at_ms") < now_ms + 10_000
    assert event.pop("event_id").startswith("7-4-")
    # Where the log was not seen to grow nobody knows since when the records are there.
    assert event == {
        "schema": 1,
        "type": "group_sample",
        "cluster": "c",
        "group": "orders",
        "group_type": "classic",
        "partition": 7,
        "offset": 4,
        "state": "Stable",
        "members": 2,
        "partitions": 4,
        "lag_records": 25 + 15 + 5,
        "lag_seconds": None,
        "lag_partitions": 3,
        "lag_at_least": False,
        "imbalance_ratio": 1.5,
        "load_imbalance_ratio": None,
        "ends_ms": now_ms,
        "behind": [{"topic": "t", "partition": number, "end": 25} for number in range(3)],
    }


def test_of_many_positions_those_that_are_furthest_behind_are_named() -> None:
    log = Log().add(*(b.commit(partition=number, offset=200 - number) for number in range(MOST_BEHIND + 5)))
    with stage(log) as it:
        now_ms = time.time_ns() // 1_000_000
        it.book.add_high_watermarks({("t", number): 200 for number in range(1, MOST_BEHIND + 5)}, now_ms)
        it.book.publish(now_ms)
        (event,) = it.look()
    assert [place["partition"] for place in event["behind"]] == list(range(MOST_BEHIND + 4, 4, -1))


def test_no_two_have_one_time_and_one_id() -> None:
    with stage(simple("a"), simple("b", 8)) as it:
        looks = [it.look() for _ in range(5)]
    times = [[event["at_ms"] for event in look] for look in looks]
    assert all(max(before) < min(after) for before, after in itertools.pairwise(times)), times
    events = [event for look in looks for event in look]
    assert len({event["event_id"] for event in events}) == len(events) == 10


def test_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage(simple("a")) as it:
        (first,) = it.look()
        real = time.time_ns
        monkeypatch.setattr("agent.common.clock.time.time_ns", lambda: real() - 3_600 * 10**9)
        (second,) = it.look()
        (third,) = it.look()
    assert (second["at_ms"], third["at_ms"]) == (first["at_ms"] + 1, first["at_ms"] + 2)


def test_only_what_is_shown() -> None:
    with stage(simple("a"), simple("b")) as it:
        it.shown = lambda group: group == "b"
        assert [event["group"] for event in it.look()] == ["b"]


def test_a_group_in_two_partitions_is_told_once() -> None:
    """As it is since the topic was given more of them."""
    old, new = Log(1), Log(2)
    old.add(b.classic_group(1, b.member("a-1", {"t": [0]})))
    # Its former coordinator has it, too, and hears nothing of its members.
    old.add(b.classic_group(2, state_ms=T0 + 50_000), after_ms=50_000)
    new.add(b.commit(group="other")).add(
        b.classic_group(1, b.member("b-1", {"t": [0]}), b.member("c-1"), state_ms=T0 + 5_000)
    )
    for logs in ((old, new), (new, old)):
        with stage(*logs) as it:
            found = {event["group"]: event for event in it.look()}
            assert (found["orders"]["partition"], found["orders"]["members"]) == (2, 2)
            assert len(found) == 2


def test_many_groups_in_portions() -> None:
    log = Log().add(*(b.commit(group=f"g{number}") for number in range(2 * BATCH_EVENTS + 1)))
    with stage(log) as it:
        assert len({event["group"] for event in it.look()}) == 2 * BATCH_EVENTS + 1


def test_nothing_while_what_is_mirrored_is_not_as_of_now() -> None:
    with stage(simple("a")) as it:
        it.is_current = False
        assert it.sampler.sample() == 0
        it.is_current = True
        assert len(it.look()) == 1


def test_nothing_of_a_partition_that_is_given_up_meanwhile() -> None:
    with stage(simple("a"), simple("b", 8)) as it:

        def gone(group: str) -> bool:
            """While partition 7 is read, 8 is forgotten."""
            if group == "a":
                it.state.forget(8)
            return True

        it.shown = gone
        assert [event["group"] for event in it.look()] == ["a"]


def test_a_sink_that_is_behind_gets_no_samples(caplog: pytest.LogCaptureFixture) -> None:
    """And they never push out what else waits for it."""
    caplog.set_level(logging.WARNING)
    log = Log().add(*(b.commit(group=f"g{number}") for number in range(40)))
    with stage(log, memory_bytes=200_000) as it:
        it.sink.down = DOWN
        told = [it.sampler.sample() for _ in range(10)]
        assert told == sorted(told, reverse=True)
        assert {*told} == {40, 0}
        assert [it.message for it in caplog.records if "left out" in it.message] == [
            "samples of groups are left out: history that waits to be written has little room left"
        ]
        assert sum(it.exports.readings()[0].dropped.values()) == 0
        it.sink.down = None
        until(lambda: it.exports.has_room)
        assert it.sampler.sample() == 40


def test_a_look_stops_where_the_room_ends() -> None:
    log = Log().add(*(b.commit(group=f"g{number}") for number in range(4 * BATCH_EVENTS)))
    with stage(log, memory_bytes=500_000) as it:
        it.sink.down = DOWN
        assert it.sampler.sample() == 3 * BATCH_EVENTS
        it.exports.put([event(1)])
        assert it.exports.readings()[0].dropped["full"] == 0


def test_a_sink_that_hangs_holds_nobody_up() -> None:
    with stage(simple("a")) as it:
        it.sink.open.clear()
        began = time.monotonic()
        assert [it.sampler.sample() for _ in range(3)] == [1, 1, 1]
        assert time.monotonic() - began < 10


def test_an_interval() -> None:
    with stage(simple("a"), interval_s=0.2) as it:
        it.sampler.start()
        began = time.time() * 1000
        until(lambda: len(it.sink.events) >= 4)
    times = [event["at_ms"] for event in it.sink.events]
    assert times[0] >= began + 190
    assert all(after - before > 100 for before, after in itertools.pairwise(times)), times


def test_the_interval_changes() -> None:
    with stage(simple("a")) as it:
        it.sampler.start()
        time.sleep(0.1)
        assert it.sink.events == []
        it.sampler.change_interval(0.05)
        until(lambda: len(it.sink.events) >= 2)
        it.sampler.change_interval(None)
        time.sleep(0.1)
        before = len(it.sink.events)
        time.sleep(0.3)
        assert len(it.sink.events) == before


def test_a_look_that_fails_is_said_and_the_next_comes(caplog: pytest.LogCaptureFixture) -> None:
    with stage(simple("a"), interval_s=0.05) as it:
        failed = []

        def fails_once(group: str) -> bool:
            if not failed:
                failed.append(group)
                raise ValueError("told to")
            return True

        it.shown = fails_once
        it.sampler.start()
        until(lambda: bool(it.sink.events))
    assert [it.message for it in caplog.records if "look failed" in it.message]
