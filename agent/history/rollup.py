"""Events → rollups on one machine: DuckDB reads, sorts and spills, the reducer is that of Spark's job.

tables of history → events in order → GroupRollup → rows, aside → rows by date → the days of the output
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from agent.common.files import naming, scratch_directory
from agent.common.units import DAY_MS
from agent.history.arrow_types import arrow_schema
from agent.history.days import Days, Reading, is_day
from agent.history.engine import SCRATCH, columns_of, database, one_row, parquet, quoted, rows, text
from agent.history.errors import NO_HISTORY, HistoryError, error_of
from agent.history.input_schema import EVENTS, EVENTS_LATER, OF_EVENTS, check_newest
from agent.history.opening import (
    EVERY_DAY,
    Bounds,
    View,
    clocks_of,
    dates_of,
    duckdb_type_of,
    local_path,
    open_tables,
    read_schema,
)
from agent.history.parquet_directory import DATE, OutputBusy, ParquetDirectory, Replaces, is_among_files, of_days
from agent.history.planning import (
    NOT_DATED,
    days_asked,
    days_together,
    known_clocks,
    no_events,
    planned_reading,
    range_of,
    range_read,
)
from agent.history.rolling import (
    AHEAD_MS,
    CARRIED,
    EARLIEST_MS,
    OPEN_EPISODES,
    GroupEvent,
    Range,
    roll_up_groups,
    standing_of,
)
from agent.history.rollup_reducer import STATE_VERSION, Event, Row, Rows
from agent.history.tables import ROLLED_UP, STANDING
from agent.persistence.export.arrow import date_of, rows_to_arrays
from agent.persistence.export.columns import ESCAPED

LABEL = "rollup"
"""Of the files that a batch of rollups writes, whichever engine."""

BATCH = 5_000
"""Rows at a time."""

ROW_GROUP = 100_000
"""Of the files."""

ORDER = {
    "groups": '"date", cluster NULLS FIRST, "group", "window", start_ms',
    "causes": '"date", cluster NULLS FIRST, "group", "window", start_ms, kind, cause',
    "episodes": '"date", cluster NULLS FIRST, "group", start_ms',
    "standing": '"date", cluster NULLS FIRST, "group"',
}
"""Of the rows of each table. A group's rows are together: files are small, and readers of one group skip the rest."""


class RolledUp(NamedTuple):
    """What a rollup came to: `events` that had a time that can be, `left_out` that had none, rows by table, and how
    many episodes are not over."""

    events: int
    left_out: int
    within: Range
    rows: dict[str, int]
    open_episodes: int

    @property
    def days(self) -> int:
        """Of the range."""
        return (self.within.until_ms - self.within.since_ms) // DAY_MS


def roll_up(
    history: Sequence[str],
    out: str,
    since: str | None,
    until: str | None,
    *,
    now_ms: int,
    memory_mb: int,
    say: Callable[[str], None] = lambda text: None,
    on_progress: Callable[[int], None] = lambda events: None,
) -> RolledUp:
    """Roll up the days `since` to `until` (YYYY-MM-DD, both part of it; None: the first and the last there is) in
    place of what `out` has of them, in one commit. Raises `HistoryError`.

    `say` hears what is out of the ordinary, `on_progress` now and then how many events have been taken.
    """
    target = local_path(out)
    if target is None:
        raise HistoryError(f"--out {out}: expected a path of this machine; kshadow spark rollup writes elsewhere")
    _check_apart(history, out, target)
    whose = " ".join(sorted(path if local_path(path) is None else os.path.abspath(path) for path in history))
    directory = ParquetDirectory(target, tuple(ROLLED_UP))
    with ExitStack() as stack:
        db = stack.enter_context(database(memory_mb))
        try:
            lease = stack.enter_context(directory.lease("kshadow history rollup"))
            staging = stack.enter_context(directory.staging())
            aside = stack.enter_context(scratch_directory(SCRATCH))
            reading = _Reading(db, stack, history, whose, directory, now_ms, say)
            within, believed, left_out = reading.open(since, until)
            within = within.not_after(now_ms)
            asked = db.sql(events_in_order(reading.has_time, within)).to_arrow_reader(BATCH)
            counts, still_open = _write_aside(roll_up_groups(_events(asked, on_progress), within, whose), aside)
            for name in ROLLED_UP:
                _write_by_date(db, aside, name, staging / name)
            lease.publish(staging, LABEL, _replaced(within))
        except OutputBusy as error:
            raise HistoryError(str(error)) from None
        except OSError as error:
            raise error_of(error, "" if error.filename else out) from None
    return RolledUp(believed, left_out, within, counts, still_open)


def _check_apart(history: Sequence[str], out: str, target: Path) -> None:
    """Raises `HistoryError` for an output within a history of files, where all are taken for events."""
    for path in history:
        here = local_path(path)
        if here is not None and is_among_files(target, here):
            raise HistoryError(f"--out {out}: expected a directory outside of --history {path}")


def _replaced(within: Range) -> Replaces:
    """What was rolled up of those days; and how groups stood on later ones, which was found with what is replaced."""
    first, last = date_of(within.since_ms), date_of(within.until_ms - 1)
    of_range, from_then_on = of_days(first, last), of_days(first, "9999-12-31")
    return lambda file: (from_then_on if file.table == "standing" else of_range)(file)


class _Reading:
    """Which events are read, as views: `whole` days, `carried` days of which only what shows how groups stand is
    taken, and `stood`, how they stood when a day had ended. The steps are those of Spark's job."""

    def __init__(
        self,
        db: Any,
        stack: ExitStack,
        history: Sequence[str],
        whose: str,
        out: ParquetDirectory,
        now_ms: int,
        say: Callable[[str], None],
    ) -> None:
        self._db, self._stack, self._history, self._whose = db, stack, history, whose
        self._out, self._now_ms, self._say = out, now_ms, say
        self._earliest_ms = EARLIEST_MS

    @property
    def has_time(self) -> str:
        """Whether an event is of a time that can be, as SQL."""
        return (
            "coalesce(event_id IS NOT NULL AND type IS NOT NULL"
            f" AND at_ms BETWEEN {self._earliest_ms} AND {self._now_ms + AHEAD_MS}, false)"
        )

    def open(self, since: str | None, until: str | None) -> tuple[Range, int, int]:
        """Make the views: of what range, and how many events are of a time that can be, and how many are not."""
        self._none("carried")
        self._none("stood")
        dated = [dates_of(path) for path in self._history if self._is_there(path)]
        if None in dated:
            self._say(NOT_DATED)
            self._view("whole", EVERY_DAY)
            found = rows(self._db, f"SELECT DISTINCT at_ms // {DAY_MS} AS day FROM whole WHERE {self.has_time}")
            days = sorted(date_of(it["day"] * DAY_MS) for it in found)
            _, self._earliest_ms = days_together(days, since, until)
            ends, believed, left_out = self._extent()
            last_ms_of = {cluster: last_ms for cluster, (_, last_ms) in ends.items()}
            return range_of(since, until, min(it[0] for it in ends.values()), last_ms_of), believed, left_out
        last = date_of(self._now_ms + AHEAD_MS)
        dates = sorted({day for days in dated for day in days or () if is_day(day) and day <= last})
        if not dates:
            raise no_events(self._history)
        dates, self._earliest_ms = days_together(dates, since, until)
        clocks = known_clocks([(it, clocks_of(it, self._say)) for it in self._history], self._now_ms, self._say)
        asked = days_asked(since, until, dates, clocks)
        reading = self._standing(asked, dates)
        whole = Bounds(*reading.whole) if since or until else EVERY_DAY
        self._view("whole", whole)
        if reading.carried is not None:
            self._view("carried", Bounds(*reading.carried))
        ends, believed, left_out = self._extent(or_none=True)
        last_ms_of = {cluster: last_ms for cluster, (_, last_ms) in ends.items()}
        return range_read(asked, reading, dates, last_ms_of, clocks), believed, left_out

    def _is_there(self, path: str) -> bool:
        here = local_path(path)
        if here is not None and not here.exists():
            raise HistoryError(f"{path} is not there: {NO_HISTORY}")
        return True

    def _view(self, name: str, bounds: Bounds) -> None:
        self._db.execute(f"DROP VIEW IF EXISTS {name}")
        view = View(name, EVENTS, NO_HISTORY, EVENTS_LATER)
        self._stack.enter_context(open_tables(self._db, self._history, {"": view}, bounds))

    def _none(self, name: str) -> None:
        wanted = [*EVENTS, *EVENTS_LATER] if name == "carried" else arrow_schema(STANDING)
        nulls = ", ".join(f"CAST(NULL AS {duckdb_type_of(it.type)}) AS {quoted(it.name)}" for it in wanted)
        self._db.execute(f"CREATE VIEW {name} AS SELECT {nulls} WHERE false")

    def _extent(self, *, or_none: bool = False) -> tuple[dict[str | None, tuple[int, int]], int, int]:
        """By cluster the first and the last time; how many events are of one that can be, and how many are not."""
        found = rows(
            self._db,
            "SELECT cluster, min(at_ms) FILTER (has_time) AS first_ms, max(at_ms) FILTER (has_time) AS last_ms,"
            " count_if(has_time) AS events, count(*) AS total, max(schema) AS newest"
            f" FROM (SELECT *, {self.has_time} AS has_time FROM whole) GROUP BY cluster",
        )
        check_newest(max((it["newest"] for it in found if it["newest"] is not None), default=None))
        ends = {it["cluster"]: (it["first_ms"], it["last_ms"]) for it in found if it["first_ms"] is not None}
        if not ends and not or_none:
            raise no_events(self._history)
        believed = sum(it["events"] for it in found)
        return ends, believed, sum(it["total"] for it in found) - believed

    def _standing(self, asked: Days, dates: Sequence[str]) -> Reading:
        """What to read for a range; and how groups stood when the day before it had ended, where that is known."""
        standings = sorted({file.date for file in self._out.files("standing") if file.date is not None})
        place = f"{self._out.root}/standing"
        return planned_reading(asked, dates, standings, place, self._open_standing, self._say)

    def _open_standing(self, day: str) -> bool:
        """Make the view of how groups stood when a day had ended; whether it is of this history and version."""
        files = [file.path for file in self._out.files("standing", day, day)]
        wanted = {column.name for column in STANDING if column.name != DATE}
        if any(wanted.difference(read_schema(str(it), str(it)).names) for it in files):
            return False
        self._db.execute("DROP VIEW stood")
        self._db.execute(
            f"CREATE VIEW stood AS FROM {parquet(files, 'union_by_name = true')}"
            f" WHERE history = {text(self._whose)} AND state_version = {STATE_VERSION}"
        )
        return bool(one_row(self._db, "SELECT count(*) AS n FROM stood")["n"])


def events_in_order(has_time: str, within: Range) -> str:
    """The events of the range and of the day behind, of the day before it where they must tell how groups stood, and
    of what was before that the newest; with how groups stood as `stands`."""
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    # A group has rows of both kinds where some of its clients' names are no UTF-8.
    group = f"""CASE WHEN {ESCAPED} THEN replace("group", '\\\\', '\\') ELSE "group" END AS "group\""""
    carried = ", ".join(map(text, CARRIED))
    # Of what came in one millisecond the last in the log; of what came with one record, either. All that was told of
    # one event has one rank: which of that is taken is found where events are put in order.
    newest = (
        'PARTITION BY cluster, "group", type, analyzer ORDER BY at_ms DESC, "offset" DESC NULLS LAST, event_id DESC'
    )
    return f"""
    WITH events AS (SELECT * REPLACE ({group}) FROM (FROM whole UNION ALL BY NAME FROM carried) WHERE {has_time})
    SELECT {columns}, stands FROM (
        SELECT {columns}, NULL AS stands FROM events WHERE at_ms BETWEEN {within.first_ms} AND {within.last_ms}
        UNION ALL
        SELECT {columns}, NULL FROM events WHERE at_ms < {within.first_ms} AND type IN ({carried})
        QUALIFY rank() OVER ({newest}) = 1
        UNION ALL BY NAME
        SELECT cluster, "group", end_ms - 1 AS at_ms, state AS stands FROM stood
    ) ORDER BY cluster NULLS FIRST, "group" NULLS FIRST, at_ms"""


_COLUMNS = ("cluster", "group", *OF_EVENTS)


def _events(batches: Any, on_progress: Callable[[int], None]) -> Iterator[GroupEvent]:
    taken = 0
    for batch in batches:
        clusters, groups, *fields, states = (column.to_pylist() for column in batch.columns)
        if any(states):
            for cluster, group, state, *values in zip(clusters, groups, states, *fields, strict=True):
                yield cluster, group, Event(*values) if state is None else standing_of(state)
        else:
            yield from zip(clusters, groups, map(Event, *fields), strict=True)
        taken += batch.num_rows
        on_progress(taken)


class _Aside:
    """The rows of one table, in a file of their own, as they come."""

    def __init__(self, directory: Path, name: str) -> None:
        self._schema = arrow_schema(ROLLED_UP[name])
        self._path = directory / f"{name}.parquet"
        with naming(self._path):
            self._file = pq.ParquetWriter(self._path, self._schema)
        self._rows: list[Row] = []
        self.count = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) == BATCH:
            self._flush()

    def _flush(self) -> None:
        rows = pa.RecordBatch.from_arrays(rows_to_arrays(self._rows, self._schema), schema=self._schema)
        with naming(self._path):
            self._file.write_batch(rows)
        self.count += len(self._rows)
        self._rows = []

    def __enter__(self) -> _Aside:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # else a second failure, of what is left, would stand for the first
            self._flush()
            with naming(self._path):
                self._file.close()


@lru_cache(4)
def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)


_EPOCH = date(1970, 1, 1)


def _write_aside(of_tables: Rows, directory: Path) -> tuple[dict[str, int], int]:
    """The rows of each table; and how many episodes are not over."""
    still_open = 0
    with ExitStack() as files:
        tables = {name: files.enter_context(_Aside(directory, name)) for name in ROLLED_UP}
        for name, row in of_tables:
            if name == OPEN_EPISODES:
                still_open += 1
                continue
            row["date"] = _date(row["start_ms"] // DAY_MS)
            tables[name].add(row)
    return {name: it.count for name, it in tables.items()}, still_open


def _write_by_date(db: Any, aside: Path, name: str, into: Path) -> None:
    """The rows of a table in order, a file for each date; one without rows is a table too."""
    into.mkdir(parents=True)
    schema = arrow_schema(column for column in ROLLED_UP[name] if column.name != "date")
    file = parquet([aside / f"{name}.parquet"])
    in_order = f"SELECT {columns_of(ROLLED_UP[name])} FROM {file} ORDER BY {ORDER[name]}"
    there: str | None = None
    with ExitStack() as opened:
        writer: Any = None
        for batch in db.sql(in_order).to_arrow_reader(ROW_GROUP):
            dates = batch.column("date")
            for day in dates.unique():
                if str(day) != there:
                    opened.close()
                    there = str(day)
                    (into / f"date={there}").mkdir()
                    path = into / f"date={there}" / f"{LABEL}.parquet"
                    writer = opened.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
                writer.write_batch(batch.filter(pc.equal(dates, day)).select(schema.names).cast(schema))
