"""Sightings that write down what they go by: when sweeps were, and how late records came.

What the observer promises of a join phase hangs on these: it cannot see what was over before its next sweep, and a
busy machine delays sweeps and records. So a test asks for what follows from them, and not from the machine's pace.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection
from itertools import pairwise

from agent.core.inference.external_evidence import RebalanceReport
from agent.kafka.admin_api.child import monotonic_ms
from agent.kafka.admin_api.clock_offset import WINDOW_MS
from agent.kafka.admin_api.join_phase_observations import ARRIVAL_MS, MAX_ERROR_MS, JoinPhaseObservations

LOGGED_MS = 100
"""By how much the broker may log later what it did."""


class WatchedSightings(JoinPhaseObservations):
    """Of a broker on this machine. Times are the broker's: epoch milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead_ms = time.time_ns() // 1_000_000 - monotonic_ms()
        self._arrivals: deque[tuple[int, int]] = deque()
        self.sweeps: list[tuple[int, int]] = []
        """When each that was whole was asked and answered."""
        self.late_ms: dict[tuple[str, int], int] = {}
        """By group and generation: by how much the observer's clock was taken to be wrong when its record came."""
        self._since_ms: dict[tuple[str, int], int] = {}
        self._over_ms: dict[str, int] = {}

    def record_arrived(self, broker: int, timestamp_ms: int, now_ms: int) -> None:
        super().record_arrived(broker, timestamp_ms, now_ms)
        self._arrivals.append((now_ms, now_ms + self._ahead_ms - timestamp_ms))
        while self._arrivals[0][0] < now_ms - WINDOW_MS:
            self._arrivals.popleft()

    def add_sweep(self, preparing: Collection[str], asked_ms: int, answered_ms: int, *, whole: bool) -> None:
        super().add_sweep(preparing, asked_ms, answered_ms, whole=whole)
        if whole:
            self.sweeps.append((asked_ms + self._ahead_ms, answered_ms + self._ahead_ms))

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        late_ms = self.late_ms[group, generation] = min(late for _, late in self._arrivals)
        # What is seen before the round before is known to be over is taken for that one.
        self._since_ms[group, generation] = self._over_ms.get(group, 0)
        self._over_ms[group] = max(end_ms + late_ms, monotonic_ms() + self._ahead_ms)
        return super().rebalance_report(group, generation, end_ms)

    def told_of(self, group: str, generation: int, began_ms: int, ended_ms: int) -> str:
        """What is known of a join phase, in milliseconds since it began."""
        key = group, generation
        around = [(asked - began_ms, answered - began_ms) for asked, answered in self.sweeps]
        return (
            f"{group} {generation}: {ended_ms - began_ms} ms, records late by {self.late_ms[key]} ms, the round "
            f"before known to be over at {self._since_ms[key] - began_ms} ms, asked and answered at "
            f"{[it for it in around if -3000 < it[0] < 6000]}"
        )

    def promised_error_ms(self, group: str, generation: int, began_ms: int, ended_ms: int) -> int | None:
        """How well a join phase's beginning must be known, at worst; None if it need not be.

        It must be if a sweep fell into it, and if that one, and any other that may have seen it first, is near enough
        to the one before.
        """
        if self.late_ms[group, generation] > MAX_ERROR_MS:
            return None
        since_ms = max(began_ms, self._since_ms[group, generation])
        worst = 0
        for (before_ms, _), (asked_ms, answered_ms) in pairwise(self.sweeps):
            if answered_ms < began_ms - LOGGED_MS:
                continue
            worst = max(worst, (answered_ms - before_ms + 1) // 2 + ARRIVAL_MS)
            if asked_ms >= since_ms:
                return worst if answered_ms <= ended_ms - LOGGED_MS and worst <= MAX_ERROR_MS else None
        return None
