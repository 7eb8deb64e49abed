"""When groups were seen to prepare a rebalance: the beginnings of join phases, which no record tells.

Owns what follows from sweeps. A sweep asks which groups are in PreparingRebalance now, so a group that is listed, and
was not the time before, began in between: after the earlier sweep was asked, before the later was answered. The
middle is what is told; it is wrong by half the distance at most, and by the time that a record takes to come here,
since that is how the clocks are compared. Knows neither a client nor a clock; times are milliseconds of the
observer's clock unless they are said to be the broker's.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

from msgspec import Struct

from agent.core.inference.external_evidence import RebalanceReport
from agent.kafka.admin_api.clock_offset import ClockOffset

SOURCE = "admin_api"
ARRIVAL_MS = 50
"""What a record may take from its stamp to us: the clocks are compared no better than that."""
MAX_ERROR_MS = 1000
"""A beginning that is known no better than this is not told."""
KEPT_MS = 900_000
"""How long a sighting waits for the record of its rebalance: each phase may take max.poll.interval.ms."""
KEPT_PER_GROUP = 3
"""Sightings a group: the latest. Older ones are of rebalances that did not complete, or of records yet to come."""


class JoinPhaseObservation(Struct):
    """A join phase.

    It began after `not_before_ms` (None if it was under way at the first sweep) and before `first_seen_ms`; and after
    `after_ms`, by the broker's clock, when the round before was over (None if that was before the earlier sweep). It
    ended before `gone_ms` (None as long as each sweep sees it).
    """

    not_before_ms: int | None
    first_seen_ms: int
    after_ms: int | None = None
    ended_before_ms: int | None = None


class JoinPhaseObservations:
    """What sweeps saw, until the record of the rebalance comes. The witness of the reader's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock_offset = ClockOffset()
        self._broker = -1
        self._observations: dict[str, list[JoinPhaseObservation]] = {}
        # When the latest round of a group was over, by our clock and the broker's: what was asked before that says
        # nothing of the next round.
        self._completed: dict[str, tuple[int, int]] = {}
        self._asked_ms: int | None = None

    def record_arrived(self, broker: int, timestamp_ms: int, now_ms: int) -> None:
        """Records came, the last of them stamped so by this broker; the mirror is about to replay them."""
        with self._lock:
            self._clock_offset.record_arrived(broker, timestamp_ms, now_ms)
            self._broker = broker

    def add_sweep(self, preparing: Collection[str], asked_ms: int, answered_ms: int, *, whole: bool) -> None:
        """These groups were in PreparingRebalance, at some time between; all that were, if `whole`."""
        with self._lock:
            for group in preparing:
                self._observe(group, asked_ms, answered_ms)
            if whole:
                for group in self._observations.keys() - set(preparing):
                    for sighting in self._observations[group]:
                        sighting.ended_before_ms = sighting.ended_before_ms or answered_ms
                self._asked_ms = asked_ms
            self._drop(asked_ms)

    def _observe(self, group: str, asked_ms: int, answered_ms: int) -> None:
        over, end_ms = self._completed.get(group, (None, None))
        seen = self._observations.setdefault(group, [])
        if (over is not None and asked_ms < over) or (seen and seen[-1].ended_before_ms is None):
            return
        seen.append(JoinPhaseObservation(self._asked_ms, answered_ms, end_ms))
        del seen[:-KEPT_PER_GROUP]

    def _drop(self, now_ms: int) -> None:
        for group, seen in list(self._observations.items()):
            kept = [it for it in seen if it.ended_before_ms is None or now_ms - it.first_seen_ms < KEPT_MS]
            if kept:
                self._observations[group] = kept
            else:
                del self._observations[group]
        # Those whose round was over when the latest whole sweep was asked: from now on that sweep is the bound.
        if self._asked_ms is not None:
            self._completed = {group: it for group, it in self._completed.items() if it[0] > self._asked_ms}

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """When the join phase began that ended at `end_ms`, both by the broker's clock; None if it was not seen.

        To be asked in the order of the records, after `record_arrived` for theirs.
        """
        with self._lock:
            lead = self._clock_offset.ahead_ms(self._broker)
            if lead is None or self._asked_ms is None:
                return None
            over = end_ms + lead
            self._completed[group] = (over, end_ms)
            seen = self._observations.get(group, [])
            of_this = [it for it in seen if it.first_seen_ms <= over]
            self._observations[group] = seen[len(of_this) :]
        it = of_this[-1] if of_this else None
        if it is None or it.not_before_ms is None:
            return None
        if it.ended_before_ms is not None and it.ended_before_ms < over - MAX_ERROR_MS:
            # It was over long before this one: another round that did not complete, or else the record came late, and
            # with it all that is known of the clocks.
            return None
        earliest = max(it.not_before_ms - lead, it.after_ms or 0)
        latest = max(it.first_seen_ms - lead, earliest)
        error_ms = (latest - earliest + 1) // 2 + ARRIVAL_MS
        if error_ms > MAX_ERROR_MS:
            return None
        began_ms = (earliest + latest) // 2
        return RebalanceReport(
            SOURCE,
            began_ms,
            evidence=({"kind": SOURCE, "state": "PreparingRebalance", "began_ms": began_ms, "error_ms": error_ms},),
        )
