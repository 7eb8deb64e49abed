"""The watch over share groups' positions where the topic cannot be read: it says so once, and nothing is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

import pytest

from agent.common import threads
from agent.kafka.lag import share_state
from agent.kafka.lag.share_state import ShareStateWatcher
from agent.kafka.source.errors import SourceDenied, SourceError, SourceUnreachable, TopicMissing
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
    tried = 0

    def connect(self: object, timeout_s: float = 10.0) -> None:
        nonlocal tried
        tried += 1
        raise error

    monkeypatch.setattr(share_state.TopicReader, "connect", connect)
    for name in ("LOOK_S", "RETRY_S", "SUSPENDED_S"):
        monkeypatch.setattr(share_state, name, 0.01)
    watcher = ShareStateWatcher(CONF, lambda: True)
    with running(watcher):
        deadline = time.monotonic() + 60
        while tried < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert tried >= 3, "it tries again"
    assert watcher.groups == []
    assert watcher.positions("g", {}) == []
    said = [it.getMessage() for it in caplog.records if it.name == "kshadow" and it.levelno >= logging.WARNING]
    assert len(said) == tells, "once"
    assert not said or str(error) in said[0]


def test_without_share_groups_nobody_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("no reader is made")

    monkeypatch.setattr(share_state, "TopicReader", made)
    monkeypatch.setattr(share_state, "LOOK_S", 0.01)
    asked: list[bool] = []
    watcher = ShareStateWatcher(CONF, lambda: bool(asked.append(True)))
    with running(watcher):
        deadline = time.monotonic() + 60
        while len(asked) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(asked) >= 3


def test_a_fault_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """There were no positions of share groups any more until a restart, and a line of the log alone told."""
    is_wanted = FailsOnce(False)
    monkeypatch.setattr(threads, "growing_pauses", lambda: repeat(0.01))
    monkeypatch.setattr(share_state, "LOOK_S", 0.01)
    watcher = ShareStateWatcher(CONF, is_wanted)
    with running(watcher):
        until(lambda: is_wanted.calls >= 3)
        assert isinstance(watcher.failure, KeyError), "it is told"
