"""The watch over share groups' positions where the topic cannot be read: it says so once, and nothing is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from threading import Event

import pytest

from agent.common import threads
from agent.core.records import RecordBatch
from agent.kafka.lag import share_state
from agent.kafka.lag.share_state import ShareStateWatcher
from agent.kafka.source.errors import SourceDenied, SourceError, SourceUnreachable, TopicMissing
from agent.kafka.source.progress import OffsetReset, ReaderNotice
from tests.unit.core.test_share_positions import NOW, snapshot
from tests.unit.kafka.lag.failing import FailsOnce
from tests.waiting import until

CONF = {"bootstrap.servers": "127.0.0.1:1"}


@contextmanager
def running(watcher: ShareStateWatcher) -> Iterator[None]:
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


@pytest.mark.parametrize(
    ("error", "tells"),
    [
        (SourceDenied("Topic authorization failed", right="ACL operation Read on topic __share_group_state"), True),
        (SourceUnreachable("no broker answers"), True),
        (TopicMissing("expected topic __share_group_state, the cluster has none"), False),
    ],
)
def test_what_is_said(
    error: SourceError, tells: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried, text = 0, str(error)

    def connect(self: object, timeout_s: float = 10.0) -> None:
        nonlocal tried
        tried += 1
        error.args = (f"{text} (after {tried} ms)",)
        raise error

    monkeypatch.setattr(share_state.TopicReader, "connect", connect)
    for name in ("LOOK_S", "RETRY_S", "SUSPENDED_S"):
        monkeypatch.setattr(share_state, name, 0.01)
    watcher = ShareStateWatcher(CONF, lambda: True)
    with running(watcher):
        until(lambda: tried >= 3, said="it tries again")
    assert watcher.groups == []
    assert watcher.positions("g", {}) == []
    said = [it.getMessage() for it in caplog.records if it.name == "kshadow" and it.levelno >= logging.WARNING]
    assert len(said) == tells, "once"
    assert not said or text in said[0]


def test_without_share_groups_nobody_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("no reader is made")

    monkeypatch.setattr(share_state, "TopicReader", made)
    monkeypatch.setattr(share_state, "LOOK_S", 0.01)
    asked: list[bool] = []
    watcher = ShareStateWatcher(CONF, lambda: bool(asked.append(True)))
    with running(watcher):
        until(lambda: len(asked) >= 3)


def test_a_fault_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """There were no positions of share groups any more until a restart, and a line of the log alone told."""
    is_wanted = FailsOnce(False)
    monkeypatch.setattr(threads, "growing_pauses", lambda: repeat(0.01))
    monkeypatch.setattr(share_state, "LOOK_S", 0.01)
    watcher = ShareStateWatcher(CONF, is_wanted)
    with running(watcher):
        until(lambda: is_wanted.calls >= 3)
        assert isinstance(watcher.failure, KeyError), "it is told"


class _Reader:
    """Of a log with one record, which is cut once `is_cut` is set; the next reader finds nothing."""

    last_error = None
    caught_up = healthy = True
    made = 0

    def __init__(self, is_cut: Event) -> None:
        type(self).made += 1
        key, value = snapshot(7, 2)
        self._records = [RecordBatch(0, [5], [NOW], [key], [value])] if self.made == 1 else []
        self._is_cut, self._notices = is_cut, list[ReaderNotice]()

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def connect(self) -> None:
        """It is there."""

    def poll(self, timeout_s: float) -> list[RecordBatch]:
        if self.made == 1 and self._is_cut.wait(0 if self._records else timeout_s):
            self._notices = [OffsetReset(0, 6, "out of range")]
            self._is_cut.clear()
        records, self._records = self._records, []
        return records

    def take_notices(self) -> list[ReaderNotice]:
        notices, self._notices = self._notices, []
        return notices


def test_where_the_log_was_cut_all_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a long outage: of a group that was deleted meanwhile nothing tells any more, and it stayed."""
    is_cut = Event()
    monkeypatch.setattr(_Reader, "made", 0)
    monkeypatch.setattr(share_state, "TopicReader", lambda *_, **__: _Reader(is_cut))
    monkeypatch.setattr(share_state, "RETRY_S", 0.01)
    watcher = ShareStateWatcher(CONF, lambda: True)
    with running(watcher):
        until(lambda: watcher.groups == ["g"])
        is_cut.set()
        until(lambda: watcher.groups == [], timeout_s=10)
        until(lambda: watcher._is_current, timeout_s=10)
        assert watcher.groups == []
