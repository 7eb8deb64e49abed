"""When the watch over the ends looks."""

from __future__ import annotations

from itertools import repeat

import pytest

from agent.common import threads
from agent.kafka.lag import asking
from agent.kafka.lag.watch import LagWatcher
from tests.unit.kafka.lag.failing import FailsOnce
from tests.waiting import until


class Unanswered(LagWatcher):
    """One whose brokers are away."""

    looks = 0

    def look(self, now: float) -> bool:
        self.looks += 1
        self._backoff.failed(None, now)
        return False


def test_it_looks_at_its_interval_however_long_brokers_were_away() -> None:
    """Pauses that double would take two minutes for so many looks."""
    watch = Unanswered({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, dict, interval_s=0.02)
    watch.start()
    try:
        until(lambda: watch.looks >= 8)
    finally:
        watch.stop()


def test_what_can_be_no_partition_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client raises for it: one record of a stranger would end the watch for all groups."""
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.1)
    wanted = {"t": {-1: 5, 0: 7}, "": {0: 5}, "a\0b": {0: 5}, "x" * 32_767: {0: 5}}
    watch = LagWatcher({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, lambda: wanted)
    assert not watch.look(0.0), "nobody answers"
    assert watch.requests["failed"] >= 1, "the others are asked for all the same"


def test_a_look_that_fails_by_a_fault_does_not_end_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no lag any more until a restart, and a line of the log alone told."""
    look = FailsOnce(True)
    monkeypatch.setattr(threads, "growing_pauses", lambda: repeat(0.01))
    monkeypatch.setattr(LagWatcher, "look", look)
    watch = LagWatcher({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, dict, interval_s=0.01)
    watch.start()
    try:
        until(lambda: look.calls >= 3)
        assert isinstance(watch.failure, KeyError), "it is told"
    finally:
        watch.stop()


def test_a_topic_that_nobody_wants_any_more_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """Of one that might not be asked for the name stayed for ever: some programs make a new one with each start."""
    watch = LagWatcher({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, dict)
    for _ in range(2):
        watch._denied({"mine"}, 0.0)
        watch._denied({"mine"}, 0.0)
        assert watch.look(0.0)
    assert caplog.messages == ["no lag in topics 'mine': ACL operation Describe on them is needed"] * 2
    assert not watch._logged
