"""Threads that fail."""

from __future__ import annotations

import threading

import pytest

from agent.common import threads
from agent.common.threads import BackgroundThread
from tests.waiting import until


class FailsOnce(BackgroundThread):
    """Fails as it begins, and works from then on."""

    def __init__(self) -> None:
        super().__init__("fails once")
        self.runs = 0
        self.works = threading.Event()

    def _run(self) -> None:
        self.runs += 1
        if self.runs == 1:
            raise KeyError("group")
        self.works.set()
        self._stop.wait()


def test_what_failed_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """It was dead until a restart of the process, which nothing brought about."""
    thread = FailsOnce()
    thread.start()
    assert thread.works.wait(60)
    assert isinstance(thread.failure, KeyError), "it has yet to show that it works"
    assert caplog.messages == ["the thread fails once failed; it is tried again in 1 s"]
    thread.stop()
    assert thread.runs == 2


def test_what_works_again_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "STEADY_S", 0.0)
    thread = FailsOnce()
    thread.start()
    assert thread.works.wait(60)
    until(lambda: thread.failure is None, said=lambda: repr(thread.failure))
    thread.stop()


def test_a_stop_does_not_wait_for_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "growing_pauses", lambda: iter([600.0]))
    thread = FailsOnce()
    thread.start()
    until(lambda: thread.failure is not None, said="it has not failed")
    thread.request_stop()
    thread.join(60)
    assert not thread._thread.is_alive()
