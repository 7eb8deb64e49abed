"""Bugs that are put in on purpose, to see that they are found. Each is a patch of the agent for the length of a run.

Owns what each breaks. None of it is in the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from agent.common import clock
from agent.core.events import events
from agent.core.queries import Health
from agent.kafka.source.progress import OffsetReset
from agent.persistence.export.pipeline import ExportPipeline
from agent.runtime.checkpointer import Checkpointer
from agent.runtime.queries import AgentQueries
from agent.runtime.reader_loop import ReaderLoop


def snapshot_ahead_of_history() -> AbstractContextManager[Any]:
    """States are imaged a while after it was waited for the events to be safe, not before."""
    images, wait = Checkpointer._images, Checkpointer._wait_durable

    def too_late(self: Checkpointer, partitions: Any) -> Any:
        wait(self, 30.0, self._stop.is_set)
        self._stop.wait(2.0)
        return images(self, partitions)

    return patch.multiple(Checkpointer, _images=too_late, _wait_durable=lambda self, timeout_s, is_given_up: True)


def dropped_barrier() -> AbstractContextManager[Any]:
    """It is not waited for the events to be safe."""
    return patch.object(ExportPipeline, "wait_durable", lambda self, timeout_s, is_given_up: True)


def event_id_of_wall_clock() -> AbstractContextManager[Any]:
    """An event's id is of when it was told."""
    event_id = events.event_id
    return patch.object(events, "event_id", lambda it: f"{event_id(it)}{clock.now_ms() // 1000 % 7}")


def missed_reset() -> AbstractContextManager[Any]:
    """That a partition is read from its beginning again goes unheard."""
    handle = ReaderLoop._handle_notice

    def deaf(self: ReaderLoop, notice: Any) -> None:
        if not isinstance(notice, OffsetReset):
            handle(self, notice)

    return patch.object(ReaderLoop, "_handle_notice", deaf)


def stale_called_ready() -> AbstractContextManager[Any]:
    """Once it has caught up the agent calls itself ready, whether it reads or not."""
    return patch.object(AgentQueries, "ready", lambda self: Health(self.has_caught_up, "planted"))


PLANTED: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "snapshot-ahead-of-history": snapshot_ahead_of_history,
    "dropped-barrier": dropped_barrier,
    "event-id-of-wall-clock": event_id_of_wall_clock,
    "missed-reset": missed_reset,
    "stale-called-ready": stale_called_ready,
}
