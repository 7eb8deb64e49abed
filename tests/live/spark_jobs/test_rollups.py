"""Rollups of a generated history: against sums worked out here from the events alone, and against themselves."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from agent.common.units import DAY_MS
from agent.core.events.events import SCHEMA
from agent.core.events.samples import GroupLagTotal, GroupSample, sample_event
from agent.history.errors import HistoryError
from agent.history.parquet_directory import ParquetDirectory
from agent.history.rolling import Range
from agent.history.tables import ROLLED_UP, TABLES, WINDOWS
from agent.persistence.export.arrow import date_of
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.parquet_sink import ParquetSink
from agent.tools.spark_submit.jobs import Rollup
from spark_jobs.formats.opening import pinned as formats_pinned
from spark_jobs.history import HistoryFiles, from_json, has_time, watermark_time
from spark_jobs.log_clocks import keep_clock
from spark_jobs.rollups import job
from spark_jobs.rollups.job import roll_up_days
from spark_jobs.rollups.rolling import roll_up, table_of
from tests.live.spark_jobs.made import history
from tests.live.spark_jobs.tables import rows_of

T0 = 20_640 * DAY_MS
"""The midnight at which the history begins. It goes on for three days."""
DAYS = 3
HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=[16, pytest.param(40, marks=pytest.mark.thorough)])
def events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of so many groups."""
    return history(tmp_path_factory.mktemp("segments"), start_ms=T0, days=DAYS, groups=request.param)


@pytest.fixture(scope="module")
def files(events: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("a [h]{is,}tory*")  # no pattern
    sink = ParquetSink(str(directory))
    sink.write([encode_event(event, 0) for event in events])
    # Once more, as an agent that crashed does.
    sink.write([encode_event(event, 0) for event in events[::3]])
    return directory


def whole(events: list[dict[str, Any]]) -> Range:
    return Range(T0, T0 + (DAYS + 1) * DAY_MS, max(event["at_ms"] for event in events))


def collected(spark: SparkSession, files: Path, within: Range) -> dict[str, list[dict[str, Any]]]:
    rows = roll_up(HistoryFiles(spark, [str(files)]).read(), within).persist()
    try:
        return {name: [row.asDict() for row in table_of(rows, name).collect()] for name in TABLES}
    finally:
        rows.unpersist()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, events: list[dict[str, Any]], files: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, of all days."""
    return collected(spark, files, whole(events))


def test_counts_are_those_of_the_events(
    events: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    within = whole(events)
    for window, length_ms in WINDOWS.items():
        expected: Counter[tuple[Any, ...]] = Counter()
        stopped: dict[tuple[Any, ...], int | None] = {}
        unknown: Counter[tuple[Any, ...]] = Counter()
        for event in events:
            start_ms = event["at_ms"] // length_ms * length_ms
            if start_ms + length_ms > within.horizon_ms:
                continue
            match event["type"]:
                case "rebalance":
                    key = (event["group"], start_ms, "rebalance", event["cause"])
                    expected[key] += 1
                    cost = event["stopped_partition_ms"]
                    stopped[key] = stopped.get(key) if cost is None else (stopped.get(key) or 0) + cost
                    unknown[key] += cost is None
                case "member_left":
                    expected[event["group"], start_ms, "departure", event["cause"]] += 1
        causes = [row for row in tables["causes"] if row["window"] == window and row["kind"] != "finding"]
        assert {(it["group"], it["start_ms"], it["kind"], it["cause"]): it["count"] for it in causes} == expected
        costs = {(it["group"], it["start_ms"], it["kind"], it["cause"]): it["stopped_partition_ms"] for it in causes}
        assert {key: cost for key, cost in costs.items() if key[2] == "rebalance"} == stopped
        assert None in stopped.values()
        groups = [row for row in tables["groups"] if row["window"] == window]
        assert sum(row["rebalances"] for row in groups) == sum(
            n for key, n in expected.items() if key[2] == "rebalance"
        )
        assert sum(row["stopped_unknown"] for row in groups) == unknown.total()
        assert sum(row["departures"] for row in groups) == sum(
            n for key, n in expected.items() if key[2] == "departure"
        )


def test_time_is_whole(tables: dict[str, list[dict[str, Any]]]) -> None:
    days = {(row["group"], row["start_ms"]): row for row in tables["groups"] if row["window"] == "1d"}
    hours: Counter[tuple[str, int]] = Counter()
    for row in tables["groups"]:
        if row["window"] == "1h":
            hours[row["group"], row["start_ms"] // DAY_MS * DAY_MS] += row["known_ms"]
    assert days
    for key, row in days.items():
        assert row["known_ms"] == hours[key], key
        phases = ("stable_ms", "empty_ms", "preparing_rebalance_ms", "completing_rebalance_ms")
        assert sum(row[it] or 0 for it in phases) == row["known_ms"]
    sure = [row for (_, start_ms), row in days.items() if start_ms == T0 + DAY_MS and row["known_ms"] == DAY_MS]
    assert len(sure) > len({group for group, _ in days}) / 2, "most groups are there all of the second day"
    assert all(row["members_min"] <= row["members_avg"] <= row["members_max"] for row in sure)


@pytest.mark.thorough  # below, the last day by itself
def test_each_day_by_itself_is_as_in_the_whole(
    spark: SparkSession, files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = Rollup(history=(str(files),), out=str(tmp_path / "the whole"))
    assert roll_up_days(spark, job) == 0
    expected = rows_of(tmp_path / "the whole", names=ROLLED_UP)
    assert all(expected.values())
    capfd.readouterr()
    days = [date_of(T0 + it * DAY_MS) for it in range(DAYS)]
    for day in (2, 0, 1, 2):  # in any order, and again
        one = msgspec.structs.replace(job, out=str(tmp_path / "days"), since=days[day], until=days[day])
        assert roll_up_days(spark, one) == 0
    # How groups stood before the third day was not written down at first, and later it was.
    said = [it for it in capfd.readouterr().err.splitlines() if "how groups stood" in it]
    assert [f"before {days[2]} is not in" in it for it in said] == [True]
    assert rows_of(tmp_path / "days", names=ROLLED_UP) == expected


@pytest.mark.thorough
def test_a_day_reads_its_own_days_alone(spark: SparkSession, files: Path, tmp_path: Path) -> None:
    history, out, days = tmp_path / "history", tmp_path / "out", [date_of(T0 + it * DAY_MS) for it in range(DAYS)]
    shutil.copytree(files, history)
    job = Rollup(history=(str(history),), out=str(out))
    assert roll_up_days(spark, job) == 0
    expected = rows_of(out, names=ROLLED_UP)
    # How groups stood when a day had ended is written down: nothing of the first day is needed for the third.
    for file in (history / f"date={days[0]}").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    last = msgspec.structs.replace(job, since=days[2], until=days[2])
    assert roll_up_days(spark, last) == 0
    assert rows_of(out, names=ROLLED_UP) == expected
    # Where it is not, the past is read, and with it the damaged file.
    shutil.rmtree(out / "standing")
    with pytest.raises(HistoryError, match=rf"date={days[0]}/\S+: expected a Parquet file, this one is damaged"):
        roll_up_days(spark, last)
    assert {**rows_of(out, names=ROLLED_UP), "standing": expected["standing"]} == expected


def test_a_quiet_end_has_its_rows(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = {"schema": SCHEMA, "cluster": "c", "group": "g", "group_type": "consumer", "partition": 1, "offset": 1}
    event = {**group, "event_id": "x", "type": "rebalance", "at_ms": T0 + 1, "members": 2}
    ParquetSink(str(tmp_path / "history")).write([encode_event(event, 0)])
    job = Rollup(history=(str(tmp_path / "history"),), out=str(tmp_path / "out"))
    assert roll_up_days(spark, job) == 0
    assert not sum(rows_of(tmp_path / "out")["groups"].values())
    assert "up to when time has passed in the log is not there" in capfd.readouterr().err
    keep_clock(spark, str(tmp_path / "history"), LogClock("backfill", "c", T0 + DAY_MS + 3_600_000))
    assert roll_up_days(spark, job) == 0
    assert "is not there" not in capfd.readouterr().err
    ends = Counter((row[3], row[5] - T0) for row in rows_of(tmp_path / "out")["groups"].elements())
    hours = {("1h", it * 3_600_000): 1 for it in range(1, 26)}
    assert ends == {("5m", 300_000): 1, ("1d", DAY_MS): 1, **hours}


def test_a_group_is_one_whatever_its_clients_are_called(spark: SparkSession, tmp_path: Path) -> None:
    """Backslashes in its name stand doubled in the rows of events that have text without UTF-8."""
    group = "a\\b\\\\c"
    left = {"schema": SCHEMA, "cluster": "c", "group": group, "type": "member_left", "at_ms": T0}
    events = [
        {**left, "event_id": str(number), "member": {"member_id": name}}
        for number, name in enumerate(("m", "\udc80"))
    ]
    ParquetSink(str(tmp_path)).write([encode_event(event, 0) for event in events])
    read = HistoryFiles(spark, [str(tmp_path)]).read()
    assert [(row["group"], row["event_id"]) for row in read.sort("event_id").collect()] == [
        (group, "0"),
        (group, "1"),
    ]


def test_a_clock_that_is_told_meanwhile_tells_nothing_of_events_that_are_not_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent writes a file and how far time has passed, between the moment of which files are read and the rest."""
    group = {"schema": SCHEMA, "cluster": "c", "group": "g", "group_type": "consumer", "partition": 1, "offset": 1}
    agent = ParquetSink(str(tmp_path / "history"))
    first, second = (
        {**group, "event_id": str(at_ms), "type": "rebalance", "at_ms": T0 + at_ms, "members": 2}
        for at_ms in (1, 3 * HOUR_MS)
    )

    @contextmanager
    def pinned(places: Sequence[str]) -> Iterator[list[str]]:
        with formats_pinned(places) as pins:
            agent.write([encode_event(second, 0)])
            agent.tell_clock(LogClock("agent", "c", T0 + 4 * HOUR_MS))
            yield pins

    agent.write([encode_event(first, 0)])
    agent.tell_clock(LogClock("agent", "c", T0 + HOUR_MS))
    monkeypatch.setattr(job, "pinned", pinned)
    assert roll_up_days(spark, Rollup(history=(str(tmp_path / "history"),), out=str(tmp_path / "out"))) == 0
    ends = [row[5] - T0 for row in rows_of(tmp_path / "out")["groups"].elements()]
    assert sorted(ends) == [300_000, HOUR_MS]


def test_only_time_that_can_be_has_windows(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One event is ahead of now, one is from years before all others: neither fills time with windows."""
    now_ms = int(time.time() * 1000)
    group = {"schema": SCHEMA, "cluster": "c", "group": "g", "group_type": "consumer", "partition": 1, "offset": 1}
    times = {"old": T0 - 400 * DAY_MS, "x": now_ms - 7_200_000, "ahead": now_ms + 3_000_000}
    told = [
        {**group, "event_id": it, "type": "rebalance", "at_ms": at_ms, "members": 2} for it, at_ms in times.items()
    ]
    ParquetSink(str(tmp_path / "history")).write([encode_event(event, 0) for event in told])
    rows = [pq.read_table(it, partitioning=None) for it in (tmp_path / "history").rglob("*.parquet")]
    pq.write_table(pa.concat_tables(rows, promote_options="permissive"), tmp_path / "one.parquet")
    for name in ("history", "one.parquet"):
        job = Rollup(history=(str(tmp_path / name),), out=str(tmp_path / f"out-{name}"))
        assert roll_up_days(spark, job) == 1
        assert "1 event was left out" in capfd.readouterr().err
        spans = [(row[4], row[5]) for row in rows_of(tmp_path / f"out-{name}")["groups"].elements()]
        assert min(start_ms for start_ms, _ in spans) > now_ms - 2 * DAY_MS
        assert max(end_ms for _, end_ms in spans) <= now_ms + 60_000


def test_columns_of_a_newer_agent_are_passed_over(
    spark: SparkSession,
    events: list[dict[str, Any]],
    files: Path,
    tables: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    rewritten(files, tmp_path, lambda it: it.append_column("of_tomorrow", pa.array([{"x": 1}] * it.num_rows)))
    assert collected(spark, tmp_path, whole(events)) == tables


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda it: it.rename_columns([{"stopped_partition_ms": "stopped_ms"}.get(n, n) for n in it.column_names]),
            r"date=\S+parquet: not the columns that are read: expected stopped_partition_ms int64, got nothing$",
        ),
        (
            lambda it: replaced(it, "at_ms", it["at_ms"].cast(pa.timestamp("ms"))).drop_columns(["schema"]),
            r"expected schema int\d+, got nothing; expected at_ms int64, got timestamp",
        ),
        (
            lambda it: replaced(it, "schema", pa.array([SCHEMA + 1] * it.num_rows, it["schema"].type)),
            f"expected events of schema version {SCHEMA}, got version {SCHEMA + 1}",
        ),
    ],
    ids=["renamed", "of another type", "of a newer schema"],
)
def test_columns_that_are_not_what_is_expected_are_refused(
    spark: SparkSession, files: Path, tmp_path: Path, changed: Callable[[pa.Table], pa.Table], said: str
) -> None:
    rewritten(files, tmp_path / "history", changed, only=1)
    with pytest.raises(HistoryError, match=said):
        roll_up_days(spark, Rollup(history=(str(tmp_path / "history"),), out=str(tmp_path / "out")))
    assert ParquetDirectory(tmp_path / "out").is_empty()


def replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def rewritten(files: Path, target: Path, changed: Callable[[pa.Table], pa.Table], only: int | None = None) -> None:
    """The files with other columns: all, or so many of them."""
    for number, file in enumerate(sorted(files.rglob("*.parquet"))):
        table = pq.read_table(file, partitioning=None)
        path = target / file.relative_to(files)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table if only is not None and number >= only else changed(table), path)


def test_the_topics_json(
    spark: SparkSession, events: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    values = [(encode_event({**event, "of_tomorrow": [1]}, 0).body,) for event in events]
    garbage = [(b"",), (b"{",), (b"\xff\xfe",), (b"[]",), (b'"x"',), (b'{"event_id": 7, "at_ms": "soon"}',)]
    read = from_json(spark.createDataFrame([*values, *garbage], "value binary"))
    assert read.where(~F.coalesce(has_time(F.current_timestamp()), F.lit(False))).count() == len(garbage)
    rows = roll_up(read.where(has_time(F.current_timestamp())), whole(events)).persist()
    for name in TABLES:
        assert sorted(str(row.asDict()) for row in table_of(rows, name).collect()) == sorted(map(str, tables[name]))
    rows.unpersist()


def test_no_event_moves_the_watermark_beyond_now(spark: SparkSession) -> None:
    now_ms = T0 + DAY_MS
    came = [T0, now_ms, now_ms + 1, now_ms + 3_600_000, now_ms + 3_600_001, 1_262_303_999_999, None]
    events = spark.createDataFrame(
        [("x", "rebalance", it) for it in came], "event_id string, type string, at_ms bigint"
    )
    moved = events.select(F.unix_millis(watermark_time(F.timestamp_millis(F.lit(now_ms))))).collect()
    assert [it[0] for it in moved] == [T0, now_ms, now_ms, now_ms, None, None, None]


def test_lag_of_an_agents_samples(spark: SparkSession, tmp_path: Path) -> None:
    lags = [GroupLagTotal() if minute < 10 else GroupLagTotal(4, 3, 10 * minute, minute / 2) for minute in range(61)]
    samples = [
        sample_event(GroupSample(T0 + minute * 60_000, 3, 7, "g", "consumer", "Stable", 2, 1.25, None, lag))
        for minute, lag in enumerate(lags)
    ]
    ParquetSink(str(tmp_path)).write([encode_event(event, 0) for event in samples])
    tables = collected(spark, tmp_path, Range(T0, T0 + DAY_MS, T0 + DAY_MS))
    (hour,) = (row for row in tables["groups"] if (row["window"], row["start_ms"]) == ("1h", T0))
    assert (hour["lag_samples"], hour["known_ms"]) == (50, 3_600_000)
    assert (hour["members_avg"], hour["imbalance_avg"]) == (2.0, 1.25)
    assert [hour[f"lag_records_{it}"] for it in ("p50", "p90", "max")] == [345.0, 541.0, 590.0]
    assert hour["lag_seconds_max"] == 29.5
