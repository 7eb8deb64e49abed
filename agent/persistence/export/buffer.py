"""What waits for one sink: in memory, and when that is too much, or shall be safe, on disk. Order is kept.

All on disk is older than all in memory. Lines go from memory to the sink without touching the disk while the sink
keeps up. When memory holds too much they go to the spool, all of them, and from there to the sink. Where the spool
takes nothing (disk full, at its bound) they stay in memory, and the spool is tried again each second. When memory is
full too, the newest are dropped: from then on all of them, until half of it is free, so that what is missing is of
one piece. Without a spool memory is all there is.

Not thread-safe: its owner holds a lock.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from agent.persistence.export.encoded_event import EncodedEvent, pack_event, unpack_event
from agent.persistence.export.sinks import BatchLimits
from agent.persistence.export.spool import NoSpool, Spool

DROP_REASONS = ("full", "refused", "damaged", "stopped")
"""Why a line is dropped: memory and spool are full; the sink can never take it; it was damaged on disk; the process
ended with no spool to keep it in."""

EVENT_OVERHEAD_BYTES = 400
"""What a line takes of memory beside its body."""

SPILL_BYTES = 16 * 1024 * 1024
"""So much in memory, and it goes to the spool; half the memory if that is less."""

_SPILL_SOON_BYTES = 1024 * 1024  # what is to go through the disk anyway goes in small portions: nobody waits long
_RETRY_S = 1.0
_CHUNK_EVENTS = 1_000


class EventBatch(NamedTuple):
    """What a sink is to write, and the sequence behind it."""

    events: tuple[EncodedEvent, ...]
    end_sequence: int


class BatchPart(NamedTuple):
    """The next lines: some of a batch. Of those in memory none is taken behind it until it was acknowledged."""

    events: list[EncodedEvent]
    end_sequence: int
    last: bool


class EventBuffer:
    """Lines in the order in which they came; each is numbered (its *sequence*)."""

    def __init__(
        self, spool: Spool | None, memory_bytes: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.spool: Spool | NoSpool = NoSpool() if spool is None else spool
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._memory: deque[EncodedEvent] = deque()
        self._used = 0
        self._retry_at = 0.0
        self.end_sequence = self.spool.end
        """The sequence of the next line."""
        self.acknowledged = self.spool.start
        """All before it were taken by the sink, or are lost."""
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROP_REASONS, 0))
        self.dropping = False
        """Whether newest lines are dropped now."""

    def __len__(self) -> int:
        return self.end_sequence - self.acknowledged

    @property
    def size_bytes(self) -> int:
        """What waits, roughly."""
        return self._used + self.spool.size_bytes

    @property
    def has_room(self) -> bool:
        """Whether a quarter of the room is left, in memory and on disk. A full batch of any sink takes less than the
        other three."""
        on_disk = self.spool.size_bytes <= self.spool.bound_bytes * 3 // 4
        return on_disk and self._used <= self._memory_bytes * 3 // 4

    @property
    def oldest_put_ms(self) -> int | None:
        """When the oldest came that waits; None where none does, or none that is not under way to the sink."""
        if (data := self.spool.peek()) is not None:
            return unpack_event(data).put_ms
        return self._memory[0].put_ms if self._memory else None

    def put(self, lines: Iterable[EncodedEvent]) -> None:
        """Take them, or drop what there is no room for."""
        enough = self._spill_bytes()
        for line in lines:
            size = len(line.body) + EVENT_OVERHEAD_BYTES
            if self._used + size > enough:
                if self.spool.is_durable and self._clock() >= self._retry_at:
                    self.spill()
                    enough = self._spill_bytes()
                if (self.dropping or self._used + size > self._memory_bytes) and self._memory:
                    self.dropping = True
                    self.dropped["full"] += 1
                    continue
            self._memory.append(line)
            self._used += size
            self.end_sequence += 1

    def spill(self) -> bool:
        """Put all of the memory on disk (which is not safe there before a sync); whether all got there."""
        if not self.spool.is_durable:
            return False
        while self._memory:
            some = [pack_event(line) for line in islice(self._memory, _CHUNK_EVENTS)]
            written = self.spool.append(self.end_sequence - len(self._memory), some)
            self._forget(written)
            if written < len(some):
                self._retry_at = self._clock() + _RETRY_S
                return False
        return True

    def take(self, batching: BatchLimits) -> BatchPart | None:
        """The next that were not taken yet, None if there are none; from disk no more than is quickly read, without
        any where what is left there is damaged."""
        if self.spool.has_more:
            found, end = self.spool.read(min(batching.events, _CHUNK_EVENTS), batching.size_bytes)
            self.dropped["damaged"] = self.spool.lost
            return BatchPart([unpack_event(it) for it in found], end, last=False)
        if not self._memory:
            return None
        lines: list[EncodedEvent] = []
        size = 0
        for line in islice(self._memory, batching.events):
            size += len(line.body)
            if lines and size > batching.size_bytes:
                break
            lines.append(line)
        return BatchPart(lines, self.end_sequence - len(self._memory) + len(lines), last=True)

    def acknowledge(self, batch: EventBatch) -> None:
        """The sink has these."""
        self._forget(batch.end_sequence - (self.end_sequence - len(self._memory)))
        self.acknowledged = batch.end_sequence
        self.spool.acknowledge(batch.end_sequence)

    def drop_memory(self) -> int:
        """Drop what is in memory; how many lines."""
        count = len(self._memory)
        self.dropped["stopped"] += count
        self._forget(count)
        return count

    def _spill_bytes(self) -> int:
        return min(_SPILL_SOON_BYTES if self.spool.has_more else SPILL_BYTES, self._memory_bytes // 2)

    def _forget(self, count: int) -> None:
        for _ in range(min(count, len(self._memory))):
            self._used -= len(self._memory.popleft().body) + EVENT_OVERHEAD_BYTES
        if self._used <= self._memory_bytes // 2:
            self.dropping = False
