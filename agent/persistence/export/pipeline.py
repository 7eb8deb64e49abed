"""All sinks of the history: what is put goes to each of them, at its own pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from agent.common import clock
from agent.core.events.events import Event
from agent.persistence.export.buffer import EventBuffer
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.sink_worker import SinkWorker
from agent.persistence.export.sinks import Sink, SinkReading
from agent.persistence.export.spool import Spool

MEMORY_BYTES = 64 * 1024 * 1024
"""What waits for one sink in memory at most, some 60,000 events."""

SPOOL_BYTES = 1024 * 1024 * 1024


class SpoolSettings(Struct, frozen=True):
    """Where events wait on disk: `directory`/spool/cluster/sink. `size_bytes` bounds each sink's."""

    directory: Path
    cluster: str
    size_bytes: int = SPOOL_BYTES

    def spool_directory(self, sink: str) -> Path:
        """The spool's directory; names of strangers become names of files."""
        return self.directory / "spool" / _file_name(self.cluster) / _file_name(sink)


class ExportPipeline:
    """Takes events and sees to it that every sink gets each at least once, in order."""

    def __init__(
        self, sinks: Sequence[Sink], *, spool: SpoolSettings | None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """Opens the spools. Raises `SpoolLocked`, `SpoolUnusable`."""
        self._workers: list[SinkWorker] = []
        spools: list[Spool] = []
        try:
            for sink in sinks:
                kept = None
                if spool is not None:
                    kept = Spool(spool.spool_directory(sink.name), spool.size_bytes)
                    spools.append(kept)
                self._workers.append(SinkWorker(sink, EventBuffer(kept, memory_bytes)))
        except BaseException:
            for it in spools:
                it.close()
            raise

    @property
    def names(self) -> list[str]:
        """Of the sinks."""
        return [outlet.name for outlet in self._workers]

    @property
    def is_backlogged(self) -> bool:
        """Whether a sink that works does not keep up: who can wait, should."""
        return any(outlet.is_backlogged for outlet in self._workers)

    @property
    def has_room(self) -> bool:
        """Whether every sink has a quarter of its room left: what is worth less than the rest goes only then."""
        return all(outlet.has_room for outlet in self._workers)

    def start(self) -> None:
        """Begin to write. What an earlier process left in the spools goes first."""
        for outlet in self._workers:
            outlet.start()

    def put(self, events: Sequence[Event]) -> None:
        """Take events, in the order of each partition. Never waits for a sink, and never raises for an event."""
        put_ms = clock.steady_ms()
        lines = [encode_event(event, put_ms) for event in events]
        for outlet in self._workers:
            outlet.put(lines)

    def time_passed(self, clock: LogClock) -> None:
        """All events up to this time were put: sinks that keep it are told once they have written those."""
        for outlet in self._workers:
            outlet.time_passed(clock)

    def wait_durable(self, timeout_s: float, is_given_up: Callable[[], bool] = lambda: False) -> bool:
        """Whether all that was put before this call is durable for every sink: acknowledged, or synced in its spool.

        What was dropped is past helping and does not count. False is no loss: ask again later. It comes early where
        `is_given_up`, which is asked twice a second.
        """
        deadline = time.monotonic() + timeout_s
        return all(
            outlet.wait_durable(max(deadline - time.monotonic(), 0.0), is_given_up) for outlet in self._workers
        )

    def stop(self, timeout_s: float) -> bool:
        """Write what can be written within the time; what is left is synced in the spools. Nothing is put after.
        Whether nothing was lost of it."""
        deadline = time.monotonic() + timeout_s
        for outlet in self._workers:
            outlet.begin_stop(deadline)
        are_kept = [outlet.finish_stop(deadline) for outlet in self._workers]
        return all(are_kept)

    def readings(self) -> Sequence[SinkReading]:
        """How each sink stands."""
        return [outlet.reading() for outlet in self._workers]

    def health(self) -> str | None:
        """Why history is backing up or being dropped; None while it is not."""
        troubles = [trouble for outlet in self._workers if (trouble := outlet.problem())]
        return "; ".join(troubles) or None


def _file_name(name: str) -> str:
    """A name that a file can have: readable, no longer than files' names may be, and unlike that of another name."""
    raw = name.encode("utf-8", "surrogatepass")
    readable = quote(raw, safe="")
    if readable == name and 0 < len(name) <= 100 and not name.startswith("."):
        return name
    return f"{readable[:100].lstrip('.')}-{blake2b(raw, digest_size=8).hexdigest()}"
