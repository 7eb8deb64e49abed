"""The watch over open transactions: since when, when somebody is asked, what is logged. Time and answers are made."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from agent.core.open_transactions import OpenTransaction
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.runtime import transaction_watch
from agent.runtime.transaction_watch import TransactionWatch
from tests.waiting import until

BOOT_MS = 1_795_000_000_000
"""The wall's time as the steady clock shows 0."""


class Stage:
    """A watch, the reader that it looks at, and what brokers would say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held_back: dict[int, int] = {}
        self.read_until_s: dict[int, float] = {}
        self.positions = {0: 10, 1: 20}
        self.stopped: set[int] = set()
        self.now_s = 0.0
        self.records: dict[int, tuple[int, str | None]] = {}
        self.ids: Mapping[int, tuple[str, ...]] | Exception = {}
        self.asked: list[dict[int, int]] = []
        self.asked_ids = 0
        monkeypatch.setattr(transaction_watch, "first_records", self.first_records)
        monkeypatch.setattr(transaction_watch, "transactional_ids", self.transactional_ids)
        monkeypatch.setattr(transaction_watch.time, "monotonic", lambda: self.now_s)
        self.watch = TransactionWatch({}, self, wall_ms=self.wall_ms, groups_in=lambda partition: 3)

    def is_stopped(self, partition: int) -> bool:
        return partition in self.stopped

    def wall_ms(self) -> int:
        return BOOT_MS + round(self.now_s * 1000)

    def first_records(
        self, conf: Mapping[str, str], offsets: Mapping[int, int], now_ms: int
    ) -> dict[int, OpenTransaction]:
        self.asked.append(dict(offsets))
        return {
            number: OpenTransaction(offset, min(self.records[number][0], now_ms), self.records[number][1])
            for number, offset in offsets.items()
            if number in self.records
        }

    def transactional_ids(
        self, conf: Mapping[str, str], since_ms: Mapping[int, int]
    ) -> Mapping[int, tuple[str, ...]]:
        self.asked_ids += 1
        if isinstance(self.ids, Exception):
            raise self.ids
        return self.ids

    def until(self, at_s: float, *, reads: bool = True) -> None:
        """A look each second; what is not held back is read to its end, unless not."""
        while self.now_s < at_s:
            self.now_s += 1.0
            free = [it for it in self.positions if it not in self.held_back] if reads else []
            self.read_until_s = dict.fromkeys(free, self.now_s)
            self.watch.look(self.now_s)
            self.watch.tell(self.now_s)


def test_a_watch_that_failed_does_not_go_on_telling_that_nothing_is_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.until(2.0)
    assert stage.watch.ages_s() == {0: 0.0, 1: 0.0}
    monkeypatch.setattr(transaction_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(stage, "held_back", None)  # a mistake of ours
    stage.watch.start()
    until(lambda: stage.watch.ages_s() == {}, said="it failed")
    stage.watch.stop()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Stage:
    caplog.set_level(logging.INFO, "kshadow")
    return Stage(monkeypatch)


def test_without_one_nobody_is_asked(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.until(100)
    assert (stage.asked, stage.asked_ids, caplog.messages) == ([], 0, [])
    assert stage.watch.ages_s() == {0: 0.0, 1: 0.0}


def test_one_that_ends_within_seconds_costs_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.until(10)
    stage.held_back = {1: 20}
    stage.until(14)
    assert stage.watch.ages_s() == {0: 0.0, 1: 3.0}
    assert stage.watch.hiding() == {}
    stage.held_back = {}
    stage.until(20)
    # Another one, and another: each is young.
    for offset in range(30, 60, 3):
        stage.held_back = {1: offset}
        stage.until(stage.now_s + 3)
        assert stage.watch.hiding() == {}
    assert (stage.asked, stage.asked_ids, caplog.messages) == ([], 0, [])


def test_one_that_stays(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.until(10)
    stage.held_back = {1: 20}
    stage.records = {1: (BOOT_MS + 10_400, "orders")}
    stage.ids = {1: ("tx",)}
    stage.until(40)
    known = OpenTransaction(20, BOOT_MS + 10_400, "orders", ("tx",))
    assert stage.watch.hiding() == stage.watch.open() == {1: known}
    assert stage.watch.ages_s() == {0: 0.0, 1: 29.6}
    assert (stage.asked, stage.asked_ids) == ([{1: 20}], 1), "once"
    stage.held_back = {}
    stage.until(45)
    assert stage.watch.open() == {}
    begun, ended = caplog.messages
    assert begun == (
        "partition 1: transaction `tx` that commits offsets of `orders` has been open for 6 s and hides what was "
        "written since (2026-11-18 11:06:50 UTC, offset 20); what is known of 3 groups is as of then"
    )
    assert ended == (
        "partition 1: transaction `tx` that commits offsets of `orders` has ended after 31 s; what it hid can be read"
    )


@pytest.mark.parametrize(
    ("claimed_s", "since_s"),
    [(10.7, 10.7), (0.0, 8.0), (-1e9, 8.0), (11.5, 11.0), (1e9, 11.0)],
)
def test_a_record_is_believed_only_between_what_was_seen(stage: Stage, claimed_s: float, since_s: float) -> None:
    stage.until(10)
    stage.held_back = {1: 20}
    stage.records = {1: (BOOT_MS + round(claimed_s * 1000), None)}
    stage.until(30)
    assert stage.watch.hiding()[1].since_ms == BOOT_MS + since_s * 1000
    assert stage.watch.ages_s()[1] == 30 - since_s


def test_after_a_restart_the_record_says_since_when(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.held_back = {1: 20}
    stage.records = {1: (BOOT_MS - 100_000, "orders")}
    stage.watch.look(stage.now_s)
    assert stage.watch.hiding() == {1: OpenTransaction(20, BOOT_MS - 100_000, "orders")}, "at once"
    assert stage.watch.ages_s()[1] == 100.0
    assert caplog.messages == [], "its name is asked for by the watch's own thread"
    stage.watch.tell(stage.now_s)
    assert caplog.messages[0].endswith("groups is as of then; the transactional id is not known")


def test_where_reading_has_stopped_it_is_not_known_whether_one_is_open(stage: Stage) -> None:
    stage.until(3)
    stage.held_back = {0: 10}
    stage.until(8)
    assert stage.watch.ages_s() == {0: 4.0, 1: 0.0}
    stage.stopped = {0}
    assert stage.watch.ages_s() == {1: 0.0}
    stage.stopped = {0, 1}
    assert stage.watch.ages_s() == {}


def test_a_reader_that_lags_is_not_held_back(stage: Stage) -> None:
    """It is behind, and nothing is known to be read to its end; the last stable offset is the high watermark."""
    stage.until(60, reads=False)
    assert (stage.watch.open(), stage.asked) == ({}, [])


def test_one_behind_the_other(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """When the oldest ends, the next one is another, and may be old already."""
    stage.until(10)
    stage.held_back = {1: 20}
    stage.records = {1: (BOOT_MS + 10_500, "a")}
    stage.until(20)
    stage.held_back = {1: 25}
    stage.records = {1: (BOOT_MS + 12_000, "b")}
    stage.until(30)
    assert stage.watch.hiding() == {1: OpenTransaction(25, BOOT_MS + 12_000, "b")}
    assert ["`a`" in it for it in caplog.messages] == [True, True, False]


@pytest.mark.parametrize(
    ("error", "said", "asked"),
    [
        (
            SourceDenied("no", right="ACL operation Describe on topic __transaction_state"),
            "; the transactional id is not known: needed: ACL operation Read on topic __transaction_state",
            1,
        ),
        (SourceUnreachable("nobody answers"), "; the transactional id is not known: nobody answers", 2),
    ],
)
def test_what_is_said_where_the_name_is_not_to_be_had(
    stage: Stage, caplog: pytest.LogCaptureFixture, error: Exception, said: str, asked: int
) -> None:
    stage.ids = error
    stage.held_back = {0: 10}
    stage.records = {0: (BOOT_MS, "g"), 1: (BOOT_MS, "g")}
    stage.until(20)
    stage.held_back = {0: 10, 1: 20}
    stage.until(40)
    assert [it.endswith(said) for it in caplog.messages] == [True, True]
    assert stage.asked_ids == asked


def test_lines_of_many_come_together(stage: Stage) -> None:
    """Who opens them without end makes nobody read the coordinator's log without end."""
    stage.records = {0: (BOOT_MS, "g"), 1: (BOOT_MS, "g")}
    stage.until(10)
    for offset in range(100, 160):
        stage.held_back = {0: offset, 1: offset}
        stage.records = dict.fromkeys((0, 1), (stage.wall_ms() - 6_000, "g"))
        stage.until(stage.now_s + 8)
    assert stage.asked_ids <= 480 / transaction_watch.IDS_EVERY_S


def test_where_no_record_comes_it_is_as_old_as_it_was_seen_to_be(stage: Stage) -> None:
    stage.until(10)
    stage.held_back = {1: 20}
    stage.until(70)
    assert stage.watch.hiding() == {1: OpenTransaction(20, BOOT_MS + 11_000)}
    assert 1 < len(stage.asked) < 8, "with growing pauses"


def test_where_the_reading_went_on_it_has_ended(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Ends are not asked for while another partition cannot be read."""
    stage.records = {1: (BOOT_MS, "g")}
    stage.held_back = {1: 20}
    stage.until(20)
    stage.positions[1] = 25
    stage.until(21)
    assert stage.watch.open() == {}
    assert "has ended" in caplog.messages[-1]


def test_a_partition_that_is_anothers_by_now_has_not_ended(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.records = {1: (BOOT_MS, "g")}
    stage.held_back = {1: 20}
    stage.until(20)
    del stage.positions[1]
    stage.until(30)
    assert stage.watch.open() == {}
    assert len(caplog.messages) == 1
    assert stage.watch.ages_s() == {0: 0.0}
