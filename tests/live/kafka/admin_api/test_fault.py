"""An observer that fails by a fault of ours, where nobody answers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

import pytest

from agent.common import threads
from agent.kafka.admin_api.answers import AdminOutcome
from agent.kafka.admin_api.observer import AdminObserver
from tests.unit.kafka.admin_api.test_comparing import CLASSIC, Groups
from tests.waiting import until


class FailsOnce(Groups):
    """Once a question is open."""

    asked = 0

    def group_partitions(self) -> Mapping[str, int]:
        self.asked += 1
        if self.asked == 2:
            raise KeyError("group")
        return super().group_partitions()


def test_a_fault_does_not_end_the_observer(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was observed any more until a restart, and a line of the log alone told."""
    monkeypatch.setattr(threads, "growing_pauses", lambda: repeat(0.01))
    observer = AdminObserver({"bootstrap.servers": "127.0.0.1:1"})
    observer.observe(FailsOnce(CLASSIC))
    try:
        until(lambda: isinstance(observer.failure, KeyError), said="it is told")
        assert observer.readings() is None
        # What the process before was asked, this one is asked anew.
        until(lambda: observer._session.outcomes[AdminOutcome.TIMED_OUT])
        assert "has had no answer" not in caplog.text, "nor was it taken for silent before"
    finally:
        observer.stop()
