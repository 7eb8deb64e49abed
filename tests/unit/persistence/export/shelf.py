"""A sink in memory, which is up or down as told."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.sinks import BatchLimits, RejectedEvent

EAGER = BatchLimits(1_000, 1 << 20, 0)


class Shelf:
    """Keeps the offsets of the events that it was given."""

    def __init__(self, name: str = "shelf", batching: BatchLimits = EAGER) -> None:
        self.name, self.batching = name, batching
        self.down: Exception | None = None
        self.open = threading.Event()  # a write waits for it
        self.open.set()
        self.refuses: set[bytes] = set()
        self.batches: list[list[int]] = []
        self.closed = False

    @property
    def got(self) -> list[int]:
        return [number for batch in self.batches for number in batch]

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        self.open.wait()
        if self.down is not None:
            raise self.down
        refused = [RejectedEvent(line, "not here") for line in batch if line.key in self.refuses]
        self.batches.append([line.at_ms for line in batch if line.key not in self.refuses])
        return refused

    def close(self) -> None:
        self.closed = True


DOWN = SinkDown("nobody answers")
