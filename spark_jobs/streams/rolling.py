"""Rollups as a stateful operator keyed by group: history events as they come → rows. `transformWithState`, in Python.

Events wait in the group's state until the watermark has passed them, so they are taken in order, each once: what
comes twice comes while the first still waits, or is late; or looks showed it, and the rollup knows it by its id. What
is late is set aside, and counted so. Windows are given out when the watermark has passed their end: nothing that is
given out changes any more. What is dated more than a year before all that comes later of its group is set aside, as a
batch leaves out what is so long before all other events: it would fill years with windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pandas as pd
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from agent.core.events.events import SCHEMA
from agent.history.planning import GAP_MS
from agent.history.rolling import ROWS, event_of, in_order, with_date
from agent.history.rollup_reducer import STATE_VERSION, TOLD_AGAIN_MS, Event, GroupRollup, Row, Rows
from agent.history.tables import SET_ASIDE
from agent.persistence.export.arrow import date_of
from spark_jobs.history import has_time, watermark_time
from spark_jobs.partition_reducer import relax
from spark_jobs.streams.state_format import StateFormat

_ROWS = from_arrow_schema(ROWS)
_COLUMNS = ("event_id", "type", "at_ms", "body", "is_newer", "believed")
"""Of an event, as the operator takes it."""


class PendingEvent(Struct, frozen=True):
    """An event that the watermark has not passed."""

    at_ms: int
    body: str


class GroupState(Struct):
    """A group's state between batches."""

    rollup: GroupRollup
    waiting: dict[str, PendingEvent] = {}
    """By event id and time: of one id, events of two times may wait."""
    timer_ms: int | None = None

    def wait(self, event: Event, body: str) -> None:
        """Keep an event until the watermark has passed it; of one that is told twice, what batches would take."""
        key = f"{event.event_id} {event.at_ms}"
        known = self.waiting.get(key)
        if known is None or (known.body != body and in_order([event_of(known.body), event]) == [event]):
            self.waiting[key] = PendingEvent(event.at_ms, body)

    def without_time(self, watermark_ms: int) -> list[tuple[Event, str]]:
        """Let go of what the watermark has passed by more than a year before anything else of the group came to pass,
        and of what was known from then: such events, with their bodies, in order."""
        ripe = sorted(it.at_ms for it in self.waiting.values() if it.at_ms <= watermark_ms)
        known = [] if self.rollup.clock_ms is None else [self.rollup.clock_ms]
        behind = [late for early, late in pairwise((*known, *ripe, watermark_ms)) if late - early > GAP_MS]
        if not behind:
            return []
        if known and known[0] < behind[-1]:
            self.rollup = GroupRollup(self.rollup.cluster, self.rollup.group)
        gone = [key for key, it in self.waiting.items() if it.at_ms < behind[-1]]
        bodies = [self.waiting.pop(key).body for key in gone]
        return sorted(((event_of(it), it) for it in bodies), key=lambda it: it[0].place)

    def passed(self, watermark_ms: int) -> Rows:
        """Take what the watermark has passed: rows of the windows that are over."""
        ripe = [key for key, it in self.waiting.items() if it.at_ms <= watermark_ms]
        yield from self.rollup.take(in_order(event_of(self.waiting.pop(key).body) for key in ripe))
        if self.rollup.clock_ms is not None:
            yield from self.rollup.advance(watermark_ms)

    def next_ms(self) -> int | None:
        """When time changes anything, if nothing comes before; None: it never does."""
        dues = [it.at_ms for it in self.waiting.values()]
        due_ms = self.rollup.next_ms()
        if due_ms is not None:
            dues.append(due_ms)
        elif self.rollup.told:
            # A group that is gone is forgotten when nothing of it can be told again.
            dues.append(max(self.rollup.told.values()) + TOLD_AGAIN_MS + 1)
        return min(dues, default=None)

    @property
    def is_over(self) -> bool:
        """Whether the group is gone, and nothing is left to tell."""
        return self.next_ms() is None and not self.rollup.firing and self.rollup.phase is None


GROUP_STATE = StateFormat("the rollups of a group", GroupState, version=STATE_VERSION)
"""Version 4: what looks showed is known by its id for a day."""


def roll_up_stream(events: DataFrame, watermark: timedelta) -> DataFrame:
    """Events of a stream (`spark_jobs.history.EVENTS_DDL`) → rows of `ROWS`."""
    # What has no time that could be believed must not move the watermark; a null does not.
    is_newer = F.coalesce(F.col("schema") > SCHEMA, F.lit(False))
    believed = F.coalesce(has_time(F.current_timestamp()), F.lit(False)) & ~is_newer
    at = F.when(~is_newer, watermark_time(F.current_timestamp()))
    timed = events.withColumns({"is_newer": is_newer, "believed": believed, "at": at})
    marked = timed.withWatermark("at", f"{int(watermark.total_seconds() * 1000)} milliseconds")
    # Without the column Spark drops nothing as late before we have seen it.
    return (
        marked.select("cluster", "group", *_COLUMNS)
        .groupBy("cluster", "group")
        .transformWithStateInPandas(
            statefulProcessor=RollupProcessor(), outputStructType=_ROWS, outputMode="Append", timeMode="EventTime"
        )
    )


class RollupProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for us
    """Keeps each group's rollup, and what waits for it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Before the first key of a batch."""
        relax()
        self._handle = handle
        self._state = handle.getValueState("rollup", "kept binary")

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        """The events of a group in this batch: what is set aside of them, and the windows that are over."""
        watermark_ms = max(timerValues.getCurrentWatermarkInMs(), 0)
        cluster, group = (None if pd.isna(it) else str(it) for it in key)
        kept = self._kept() or GroupState(GroupRollup(cluster, group), waiting={})
        aside: list[Row] = []
        for event_id, kind, at_ms, body, is_newer, believed in _events(rows):
            event = _event(body)
            if believed and at_ms > watermark_ms and event is not None:
                kept.wait(event, body)
                continue
            is_one = event_id is not None and event is not None
            reason = "no_event" if not is_one else "late" if believed else "no_time"
            if is_newer:
                reason = "newer_schema"
            aside.append(_aside(cluster, group, event_id, kind, at_ms, reason, watermark_ms, body))
        yield _frame([*aside, *self._passed(kept, watermark_ms)])

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """The watermark has passed a time for which the group waited."""
        kept = self._kept()
        if kept is None or kept.timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return
        kept.timer_ms = None
        yield _frame(self._passed(kept, timerValues.getCurrentWatermarkInMs()))

    def close(self) -> None:
        """Nothing is held."""

    def _passed(self, kept: GroupState, watermark_ms: int) -> Iterator[Row]:
        """Take what the watermark has passed, and keep the rest with a timer for it."""
        cluster, group = kept.rollup.cluster, kept.rollup.group
        for it, body in kept.without_time(watermark_ms):
            yield _aside(cluster, group, it.event_id, it.type, it.at_ms, "no_time", watermark_ms, body)
        yield from with_date(kept.passed(watermark_ms))
        next_ms = kept.next_ms()
        if next_ms != kept.timer_ms:
            if kept.timer_ms is not None:
                self._handle.deleteTimer(kept.timer_ms)
            if next_ms is not None:
                self._handle.registerTimer(next_ms)
            kept.timer_ms = next_ms
        if kept.is_over:
            self._state.clear()
        else:
            self._state.update((GROUP_STATE.encode(kept),))

    def _kept(self) -> GroupState | None:
        state = self._state.get()
        return None if state is None else GROUP_STATE.decode(bytes(state[0]))


def _events(rows: Iterator[pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    for frame in rows:
        columns = (frame[name].tolist() for name in _COLUMNS)
        for event_id, kind, at_ms, *rest in zip(*columns, strict=True):
            # A column with a null has floats.
            yield event_id, kind, None if pd.isna(at_ms) else int(at_ms), *rest


def _event(body: str) -> Event | None:
    """The event in a body; None for what is none."""
    try:
        return event_of(body)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        return None


def _aside(*values: Any) -> Row:
    """A row of `SET_ASIDE`: its columns but the date, in order."""
    row: Row = dict(zip((column.name for column in SET_ASIDE), values, strict=False))
    return {**row, "table": "set_aside", "date": date_of(row["watermark_ms"])}


def _frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as the frame that Spark wants: all columns, of objects, so that a null leaves a number what it is."""
    rows = list(rows)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in ROWS.names})
