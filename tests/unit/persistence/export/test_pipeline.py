"""Exports: every sink at its own pace, what a barrier promises, what is told of them."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.common import clock
from agent.core.events.events import Event
from agent.persistence.export import sink_health
from agent.persistence.export.errors import SpoolLocked
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import BatchLimits, SinkReading
from tests.unit.persistence.export.made import event
from tests.unit.persistence.export.shelf import DOWN, Shelf
from tests.waiting import until

LATER = BatchLimits(100, 1 << 20, 0.3)


def events(first: int, count: int, group: str = "orders") -> list[Event]:
    return [event(number, group, at_ms=number) for number in range(first, first + count)]


@contextmanager
def exports(
    *sinks: Shelf, spool: Path | None, memory_bytes: int = 1 << 20, stop_s: float = 5.0
) -> Iterator[ExportPipeline]:
    settings = None if spool is None else SpoolSettings(spool, "c")
    made = ExportPipeline(sinks, spool=settings, memory_bytes=memory_bytes)
    made.start()
    try:
        yield made
    finally:
        for it in sinks:
            it.open.set()
        made.stop(stop_s)


def reading(made: ExportPipeline, name: str = "shelf") -> SinkReading:
    return next(it for it in made.readings() if it.name == name)


@pytest.mark.parametrize("with_spool", [True, False])
def test_what_is_put_comes_in_order_to_every_sink(tmp_path: Path, with_spool: bool) -> None:
    one, other = Shelf("one"), Shelf("other", LATER)
    with exports(one, other, spool=tmp_path if with_spool else None) as made:
        for first in range(0, 350, 7):
            made.put(events(first, 7))
        until(lambda: other.got == list(range(350)))
        assert made.wait_durable(5)
        assert one.got == list(range(350))
        assert [len(it) for it in other.batches[:3]] == [100, 100, 100]
        assert reading(made, "one") == SinkReading(
            name="one", events=350, buffered=0, dropped={"full": 0, "refused": 0, "damaged": 0, "stopped": 0},
            oldest_age_s=None, healthy=True, last_error=None, spool_bytes=0, spool_error=None,
        )  # fmt: skip
        assert made.health() is None
    assert one.closed
    assert other.closed


def test_a_sink_that_is_down_holds_up_no_other_and_gets_all_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sink_health, "GRACE_S", 0.3)
    up, down = Shelf("up"), Shelf("down")
    down.down = DOWN
    caplog.set_level(logging.INFO)
    with exports(up, down, spool=tmp_path) as made:
        made.put(events(0, 50))
        until(lambda: up.got == list(range(50)))
        until(lambda: not reading(made, "down").healthy)
        until(lambda: made.health() is not None)
        assert re.sub(r"\d+ s", "N s", str(made.health())) == (
            "history sink down is down for N s, 50 events wait: nobody answers"
        )
        now = reading(made, "down")
        assert (now.events, now.buffered, now.last_error) == (0, 50, "nobody answers")
        assert now.oldest_age_s is not None
        assert 0.3 < now.oldest_age_s < 60
        assert made.wait_durable(5), "what waits is on disk"
        assert reading(made, "down").spool_bytes > 50 * 200
        down.down = None
        until(lambda: down.got == list(range(50)))
        until(lambda: reading(made, "down").healthy)
        assert made.health() is None
        until(lambda: reading(made, "down").spool_bytes == 0)
    said = [it.getMessage() for it in caplog.records]
    assert said[0] == "history sink down is down, events wait: nobody answers"
    assert said[-1].startswith("history sink down is back after ")
    assert len(said) == 2, "told once, not at each attempt"


def test_a_sink_that_is_stuck_holds_up_neither_put_nor_barrier_nor_stop(tmp_path: Path) -> None:
    stuck = Shelf()
    stuck.open.clear()
    made = ExportPipeline([stuck], spool=SpoolSettings(tmp_path, "c"))
    made.start()
    began = time.monotonic()
    made.put(events(0, 10))
    assert made.wait_durable(30)
    made.put(events(10, 5))
    made.stop(0.2)
    assert time.monotonic() - began < 60, "the sink is stuck for ever"
    stuck.open.set()
    time.sleep(0.1)

    shelf = Shelf()
    with exports(shelf, spool=tmp_path):
        until(lambda: shelf.got == list(range(15)))


def test_a_sink_that_never_answers_and_one_that_falls_behind_make_the_agent_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_health, "STUCK_S", 0.2)
    stuck = Shelf()
    stuck.open.clear()
    made = ExportPipeline([stuck], spool=SpoolSettings(tmp_path, "c", size_bytes=100_000), memory_bytes=10_000)
    made.start()
    made.put(events(0, 10))
    assert made.health() is None
    until(lambda: made.health() == "history sink shelf has not answered for 0 s, 10 events wait")
    assert not reading(made).healthy
    monkeypatch.setattr(sink_health, "STUCK_S", 60.0)
    made.put(events(10, 250))
    assert (made.health() or "").startswith("history sink shelf is behind, its spool is more than half full: ")
    stuck.open.set()
    until(lambda: made.health() is None)
    made.stop(5)
    assert stuck.got == list(range(260))


@pytest.mark.parametrize(("with_spool", "is_kept"), [(True, True), (False, False)])
def test_a_stop_tells_whether_anything_is_lost(tmp_path: Path, with_spool: bool, is_kept: bool) -> None:
    """By a sink that is down; what the other was given, it has."""
    down, up = Shelf("down"), Shelf("up")
    down.down = DOWN
    made = ExportPipeline([down, up], spool=SpoolSettings(tmp_path, "c") if with_spool else None)
    made.start()
    made.put(events(0, 30))
    until(lambda: up.got == list(range(30)))
    assert made.stop(0.5) is is_kept


def test_what_the_spool_holds_goes_first(tmp_path: Path) -> None:
    down = Shelf()
    down.down = DOWN
    with exports(down, spool=tmp_path) as made:
        made.put(events(0, 30))
    up = Shelf()
    made = ExportPipeline([up], spool=SpoolSettings(tmp_path, "c"))
    made.put(events(30, 5))
    assert reading(made).buffered == 35
    made.start()
    until(lambda: up.got == list(range(35)))
    made.stop(1)


def damage_spool(directory: Path, *, first: int) -> None:
    """All events from that number on are other bytes than were written."""
    with closing(
        sqlite3.connect(SpoolSettings(directory, "c").spool_directory("shelf") / "spool.sqlite")
    ) as database:
        database.execute("UPDATE events SET crc = crc + 1 WHERE sequence >= ?", (first,))
        database.commit()


def test_damage_at_the_end_of_a_long_batch_costs_nothing_before_it(tmp_path: Path) -> None:
    """It is met after a portion of the batch was read, which the sink has not."""
    down, up = (Shelf(batching=BatchLimits(5_000, 1 << 24, 0)) for _ in range(2))
    down.down = DOWN
    with exports(down, spool=tmp_path) as made:
        made.put(events(0, 1_500))
    damage_spool(tmp_path, first=1_000)
    with exports(down, spool=tmp_path) as made:
        until(lambda: not reading(made).healthy)
        assert reading(made).dropped["damaged"] == 500
        assert not reading(made).events
    with exports(up, spool=tmp_path) as made:
        until(lambda: up.got == [*range(1_000)])
        until(lambda: reading(made).buffered == 0)


def test_where_all_is_damaged_nothing_waits(tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.down = DOWN
    with exports(shelf, spool=tmp_path) as made:
        made.put(events(0, 5))
    damage_spool(tmp_path, first=0)
    shelf.down = None
    with exports(shelf, spool=tmp_path) as made:
        assert made.wait_durable(5)
        until(lambda: reading(made).buffered == 0)
        made.put(events(5, 1))
        until(lambda: shelf.got == [5])


def test_without_a_spool_a_barrier_is_the_sinks_word_and_ends_what_it_collects() -> None:
    shelf = Shelf(batching=BatchLimits(100, 1 << 20, 60))
    with exports(shelf, spool=None, stop_s=0.1) as made:
        made.put(events(0, 3))
        time.sleep(0.05)
        assert shelf.got == []
        assert made.wait_durable(5)
        assert shelf.got == [0, 1, 2]
        made.put(events(3, 3))
        shelf.open.clear()
        assert not made.wait_durable(0.2)


def test_a_collecting_sink_leaves_what_it_collects_to_the_spool(tmp_path: Path) -> None:
    shelf = Shelf(batching=BatchLimits(100, 1 << 20, 60))
    with exports(shelf, spool=tmp_path) as made:
        made.put(events(0, 3))
        assert made.wait_durable(5)
        assert shelf.got == []
        assert reading(made).spool_bytes > 0
    assert shelf.got == [0, 1, 2], "a stop ends the file"


def test_a_collecting_sink_writes_when_the_oldest_is_old_enough(tmp_path: Path) -> None:
    shelf = Shelf(batching=BatchLimits(100, 1 << 20, 0.3))
    with exports(shelf, spool=tmp_path) as made:
        began = time.monotonic()
        made.put(events(0, 3))
        until(lambda: shelf.got == [0, 1, 2])
        assert time.monotonic() - began > 0.25
        made.put(events(3, 1))
        assert made.wait_durable(5), "on disk"
        until(lambda: shelf.got == [0, 1, 2, 3])


@pytest.mark.parametrize("with_spool", [True, False])
def test_a_wall_clock_that_is_set_back_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_spool: bool
) -> None:
    """An hour back: the file came an hour later, and what waited had waited for 0 s."""
    sink = Shelf(batching=BatchLimits(100, 1 << 20, 1.0))
    with exports(sink, spool=tmp_path if with_spool else None) as made:
        made.put(events(0, 3))
        wall_s, wall_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: wall_s() - 3600)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - 3600 * 10**9)
        until(lambda: sink.got or (reading(made).oldest_age_s or 0) > 0.1)
        until(lambda: sink.got == [0, 1, 2])


def test_what_a_clock_that_was_ahead_has_put_into_the_spool_is_sent_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once this one has come so far."""
    steady_ms = clock.steady_ms
    with monkeypatch.context() as ahead, exports(Shelf(batching=LATER), spool=tmp_path, stop_s=0) as made:
        ahead.setattr(clock, "steady_ms", lambda: steady_ms() + 3_600_000)
        made.put(events(0, 3))
        assert made.wait_durable(5)
    sink = Shelf(batching=LATER)
    with exports(sink, spool=tmp_path):
        until(lambda: sink.got == [0, 1, 2])


def test_a_stop_without_a_spool_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.down = DOWN
    with exports(shelf, spool=None, stop_s=0.2) as made:
        made.put(events(0, 4))
    assert "history sink shelf: stopped with 4 events that no spool keeps" in caplog.text
    assert reading(made).dropped["stopped"] == 4


def test_a_stop_with_a_spool_that_is_full_says_how_many_wait_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    shelf = Shelf()
    shelf.down = DOWN
    spool = SpoolSettings(tmp_path, "c", 100_000)
    made = ExportPipeline([shelf], spool=spool)
    made.put(events(0, 1_000))
    assert not made.stop(1)
    (lost,) = re.findall(r"stopped with (\d+) events that no spool keeps", caplog.text)
    (waiting,) = re.findall(r"(\d+) events left in the spool", caplog.text)
    again = ExportPipeline([shelf], spool=spool)
    assert reading(again).buffered == int(waiting) == 1_000 - int(lost)
    again.stop(1)


def test_refused_events_are_counted_and_told_without_their_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf()
    shelf.refuses = {b"ord\x1bers"}
    with exports(shelf, spool=tmp_path) as made:
        made.put([*events(0, 2), *events(2, 3, "ord\x1bers"), *events(5, 1)])
        assert made.wait_durable(5)
        assert shelf.got == [0, 1, 5]
        assert (reading(made).events, reading(made).dropped["refused"], reading(made).buffered) == (3, 3, 0)
    assert "history sink shelf: 3 events refused, the first of type group_emptied and " in caplog.text
    assert "bytes: not here" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_sinks_own_fault_is_trouble_and_not_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.down = ZeroDivisionError("oh")
    with exports(shelf, spool=tmp_path) as made:
        made.put(events(0, 2))
        until(lambda: reading(made).last_error == "ZeroDivisionError('oh')")
        shelf.down = None
        until(lambda: shelf.got == [0, 1])
    assert caplog.text.count("Traceback") == 1


def test_dropped_events_are_counted_told_and_make_the_agent_unready(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.down = DOWN
    with exports(shelf, spool=None, memory_bytes=10_000, stop_s=0.1) as made:
        until(lambda: made.put(events(0, 1)) is None and reading(made).last_error is not None)
        made.put(events(1, 100))
        lost = reading(made).dropped["full"]
        assert lost > 50
        assert made.health() == ("history sink shelf drops events, memory and spool are full: nobody answers")
        assert "memory and spool are full, the newest events are dropped" in caplog.text
        assert not made.wait_durable(0.1), "those that wait are not safe"
        shelf.down = None
        until(lambda: reading(made).buffered == 0)
        assert made.health() is None, "whether or not anything happens in a group"
        made.put(events(200, 1))
        assert f"history sink shelf: dropped {lost} events" in caplog.text
        until(lambda: shelf.got[-1] == 200)


def test_a_sink_that_is_slow_and_not_down_is_told_as_that(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf()
    shelf.open.clear()
    with exports(shelf, spool=None, memory_bytes=10_000, stop_s=0.1) as made:
        made.put(events(0, 100))
        said = "memory and spool are full: it takes them more slowly than they come"
        assert made.health() == f"history sink shelf drops events, {said}"
        assert "so far): it takes them more slowly than they come" in caplog.text


def test_two_processes_with_the_same_spool(tmp_path: Path) -> None:
    settings = SpoolSettings(tmp_path, "c")
    first = ExportPipeline([Shelf("a")], spool=settings)
    first.start()
    with pytest.raises(SpoolLocked):
        ExportPipeline([Shelf("b"), Shelf("a")], spool=settings)
    ExportPipeline([Shelf("b")], spool=settings).stop(1)
    ExportPipeline([Shelf("a")], spool=SpoolSettings(tmp_path, "other")).stop(1)
    first.stop(1)
    ExportPipeline([Shelf("a")], spool=settings).stop(1)


@pytest.mark.parametrize("name", ["c", "", "..", "../../up", "a/b", "\udc80", "x" * 300, "\x00", ".hidden"])
def test_a_clusters_name_is_one_directory(tmp_path: Path, name: str) -> None:
    place = SpoolSettings(tmp_path, name).spool_directory("topic")
    assert place.resolve().is_relative_to(tmp_path.resolve())
    assert place.parent.parent == tmp_path / "spool"
    assert place.name == "topic"
    ExportPipeline([Shelf()], spool=SpoolSettings(tmp_path, name)).stop(1)
    others = {SpoolSettings(tmp_path, it).spool_directory("t") for it in ("", "..", "a/b", "x" * 300, "x" * 301)}
    assert len(others) == 5
