"""What is asked of the agent of `--source admin`: answers from what the brokers said of each group last."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from agent.common import clock
from agent.core.end_offsets import NO_END_OFFSETS, EndOffsets
from agent.core.queries import Health, JsonObject, Timeline
from agent.core.shadow.views import GroupView
from agent.kafka.admin_api.asking import AdminSession
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kafka.lag.lag_calculator import CommittedPositions, LagCalculator, TopicLag, lag_totals, topic_lags
from agent.kafka.lag.watch import LagWatcher
from agent.presentation.json_views import lag_json
from agent.runtime.admin_mode.known import AdminGroups, group_description, group_row
from agent.serving.metrics.group_metrics import GroupReading, GroupShape
from agent.serving.metrics.readings import Readings
from agent.serving.queries import ServedQueries
from analyzers.balance import assignment_imbalance

STALE_S = 60.0
"""After so long without an answer the agent is not ready."""

LIMITATIONS = (
    "asking the Admin API, as the topic is not read: no history, no causes of rebalances, no findings, no counts of "
    "rebalances, no times of commits"
)
"""What is said at the start, in /readyz and on the page."""


class AdminQueries(ServedQueries):
    """Answers without history: there are no events, no findings and no times of commits."""

    has_caught_up = False
    """Whether every group was asked for once."""
    failure: BaseException | None = None
    """What ended the thread that asks."""

    def __init__(self, groups: AdminGroups, lock: threading.Lock, session: AdminSession) -> None:
        """`lock` is held for whatever is read from `groups`."""
        self._groups, self._lock, self._session = groups, lock, session
        self._lag_calculator = LagCalculator()
        self.lag_watcher: LagWatcher | None = None
        """Knows the ends of the groups' partitions, where they are asked for."""

    def alive(self) -> Health:
        """Whether the process does its work at all."""
        if self.failure is not None:
            return Health(False, f"no more questions are asked: {self.failure!r}")
        return Health(True, "asking the Admin API")

    def ready(self) -> Health:
        """Whether answers are whole and fresh."""
        alive = self.alive()
        if not alive.ready:
            return alive
        if not self.has_caught_up:
            return Health(False, f"{self._groups.pending} groups have yet to be asked for; {LIMITATIONS}")
        silent_s = time.monotonic() - self._session.answered_at
        if silent_s > STALE_S:
            refusal = self._session.last_refusal
            why = "" if refusal is None else f": {refusal.reason}"
            return Health(False, f"no answer from the brokers for {silent_s:.0f} s{why}")
        return Health(True, LIMITATIONS)

    def groups(self) -> list[JsonObject]:
        """Every group's row, by name."""
        with self._lock:
            views = self._groups.views()
        lag = lag_totals(self.topic_lags())
        return [group_row(view, lag.get(view.group)) for view in views]

    def describe(self, group: str) -> JsonObject | None:
        """One group in full, or None."""
        with self._lock:
            found = self._groups.find(group)
        return None if found is None else group_description(*found, lag_json(self._ends(), clock.now_ms()))

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """No events, and that these are all holds from now on only."""
        with self._lock:
            return Timeline([], clock.now_ms()) if group in self._groups.groups else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """None are made."""
        return []

    def readings(self) -> Readings:
        """What a scrape needs; of groups nothing before all were asked for."""
        with self._lock:
            views = self._groups.views() if self.has_caught_up else []
        topics: dict[str, list[TopicLag]] = {}
        for group, lag in self.topic_lags():
            topics.setdefault(group, []).append(lag)
        groups = [_reading(view, topics.get(view.group, ())) for view in views]
        requests = {str(outcome): count for outcome, count in self._session.outcomes.items()}
        return Readings(
            caught_up={},
            behind_records={},
            healthy=self.ready().ready,
            record_counts={},
            error_counts={},
            groups=sorted(groups, key=lambda it: it.shape.group),
            observed=ObserverReading(requests=requests, compared_groups=0, divergences={}, rebalancing={}),
        )

    def topic_lags(self) -> Iterator[tuple[str, TopicLag]]:
        """The lag of each group in each topic."""
        return topic_lags(self.positions(), self._ends(), clock.now_ms())

    def _ends(self) -> EndOffsets:
        return NO_END_OFFSETS if self.lag_watcher is None else self.lag_watcher.snapshot()

    def positions(self) -> CommittedPositions:
        """What groups have committed."""
        with self._lock:
            return self._lag_calculator.take(0, self._groups.offsets)


def _reading(view: GroupView, topics: Sequence[TopicLag]) -> GroupReading:
    shape = GroupShape.of(view)._replace(imbalance=assignment_imbalance(view))
    return GroupReading(shape, last_commit_ms=view.last_commit_ms, topics=topics)
