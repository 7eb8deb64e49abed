"""When the watch over the ends looks."""

from __future__ import annotations

from agent.kafka.lag.watch import LagWatcher
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
