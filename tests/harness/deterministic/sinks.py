"""Where the agent's history goes: a sink that keeps what it is given, and does not always say so.

Owns what reached it, over all lives of the agent, and when. Refuses to know what an event says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.sinks import BatchLimits, RejectedEvent
from tests.harness.deterministic.cluster import Span
from tests.harness.deterministic.scheduler import Scheduler


class Store:
    """What is in one place of the history."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bodies: list[bytes] = []
        self.clocks: list[tuple[int, int]] = []
        """Up to when time was told to have passed (epoch milliseconds), and how many events were there by then."""
        self.excused: Counter[bytes] = Counter()
        """How often an event may be there once more: a write of it was not acknowledged."""
        self.dropped: set[str] = set()
        """Of these some were counted as dropped, for want of room in memory and on disk: they may be missing."""
        self.down: list[Span] = []
        self.share_lost = 0.0
        """How often a write is done and not acknowledged, or done in part."""
        self.slow_s = 0.0


class SimulatedSink:
    """A `Sink` into a store, for one life of the agent."""

    def __init__(self, store: Store, scheduler: Scheduler, batching: BatchLimits) -> None:
        self.name, self.batching = store.name, batching
        self._store, self._scheduler = store, scheduler

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        """Keep them; or some of them, or none."""
        store, scheduler = self._store, self._scheduler
        scheduler.let_others(f"{self.name} write")
        if any(it.holds(scheduler.now_s) for it in store.down):
            scheduler.sleep(0.2)
            raise SinkDown("simulated: no answer")
        if store.slow_s:
            scheduler.sleep(store.slow_s * scheduler.random.random())
        if scheduler.random.random() < store.share_lost:
            some = [it.body for it in batch[: scheduler.random.randint(0, len(batch))]]
            store.bodies += some
            store.excused.update(some)
            scheduler.let_others(f"{self.name} written")
            raise SinkDown("simulated: no acknowledgement")
        bodies = [it.body for it in batch]
        store.bodies += bodies
        # Until it is known here that they are there, a crash makes them come again.
        scheduler.let_others(f"{self.name} written")
        return ()

    def close(self) -> None:
        """Nothing is kept open."""


class ClockedSink(SimulatedSink):
    """One that keeps up to when time has passed, as files do."""

    def tell_clock(self, clock: LogClock) -> None:
        """Keep it."""
        if any(it.holds(self._scheduler.now_s) for it in self._store.down):
            raise SinkDown("simulated: no answer")
        self._store.clocks.append((clock.clock_ms, len(self._store.bodies)))
