"""Rollups of a generated history: against sums worked out here from the events alone, and against themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from agent.common.units import DAY_MS
from agent.core.events.samples import NO_LAG, GroupLagTotal, GroupSample, sample_event
from agent.history.rolling import Range
from agent.history.tables import TABLES, WINDOWS
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from spark_jobs.history import from_files, from_json, has_time
from spark_jobs.rollups.job import replace_days
from spark_jobs.rollups.rolling import roll_up, table_of
from tests.live.spark_jobs.made import history
from tests.live.spark_jobs.tables import rows_of

T0 = 20_640 * DAY_MS
"""The midnight at which the history begins. It goes on for three days."""
DAYS = 3


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return history(tmp_path_factory.mktemp("segments"), start_ms=T0, days=DAYS, groups=40)


@pytest.fixture(scope="module")
def files(events: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history")
    sink = ParquetSink(str(directory))
    sink.write([encode_event(event, 0) for event in events])
    # Once more, as an agent that crashed does.
    sink.write([encode_event(event, 0) for event in events[::3]])
    return directory


def whole(events: list[dict[str, Any]]) -> Range:
    return Range(T0, T0 + (DAYS + 1) * DAY_MS, max(event["at_ms"] for event in events))


def collected(spark: SparkSession, files: Path, within: Range) -> dict[str, list[dict[str, Any]]]:
    rows = roll_up(from_files(spark, [str(files)]), within).persist()
    try:
        return {name: [row.asDict() for row in table_of(rows, name).collect()] for name in TABLES}
    finally:
        rows.unpersist()


def test_counts_are_those_of_the_events(spark: SparkSession, events: list[dict[str, Any]], files: Path) -> None:
    within = whole(events)
    tables = collected(spark, files, within)
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


def test_time_is_whole(spark: SparkSession, events: list[dict[str, Any]], files: Path) -> None:
    tables = collected(spark, files, whole(events))
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
    assert len(sure) > 20, "most groups are there all of the second day"
    assert all(row["members_min"] <= row["members_avg"] <= row["members_max"] for row in sure)


def test_each_day_by_itself_is_as_in_the_whole(
    spark: SparkSession, events: list[dict[str, Any]], files: Path, tmp_path: Path
) -> None:
    within = whole(events)
    read = from_files(spark, [str(files)])
    rows = roll_up(read, within).persist()
    for name in TABLES:
        replace_days(table_of(rows, name), f"{tmp_path}/whole/{name}", within)
    rows.unpersist()
    expected = rows_of(tmp_path / "whole")
    assert all(expected.values())
    for day in (2, 0, 1, 1, 3):  # in any order, and again
        one = Range(T0 + day * DAY_MS, T0 + (day + 1) * DAY_MS, within.horizon_ms)
        rows = roll_up(read, one).persist()
        for name in TABLES:
            replace_days(table_of(rows, name), f"{tmp_path}/days/{name}", one)
        rows.unpersist()
    assert rows_of(tmp_path / "days") == expected


def test_columns_of_a_newer_agent_and_of_an_older_one(
    spark: SparkSession, events: list[dict[str, Any]], files: Path, tmp_path: Path
) -> None:
    within = whole(events)
    expected = collected(spark, files, within)
    for number, file in enumerate(sorted(files.rglob("*.parquet"))):
        table = pq.read_table(file, partitioning=None)
        if number % 2:
            table = table.append_column("of_tomorrow", pa.array([{"x": 1}] * table.num_rows))
        else:
            table = table.drop_columns(["lag_records", "imbalance_ratio", "extra"])
        target = tmp_path / file.relative_to(files)
        target.parent.mkdir(exist_ok=True)
        pq.write_table(table, target)
    came = collected(spark, tmp_path, within)
    assert sorted(map(str, came["causes"])) == sorted(map(str, expected["causes"]))
    spared = [name for name in came["groups"][0] if not name.startswith("imbalance")]
    assert picked(came["groups"], spared) == picked(expected["groups"], spared)


def picked(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    return sorted(str([row[name] for name in names]) for row in rows)


def test_the_topics_json(spark: SparkSession, events: list[dict[str, Any]], files: Path) -> None:
    within = whole(events)
    values = [(encode_event({**event, "of_tomorrow": [1]}, 0).body,) for event in events]
    garbage = [(b"",), (b"{",), (b"\xff\xfe",), (b"[]",), (b'"x"',), (b'{"event_id": 7, "at_ms": "soon"}',)]
    read = from_json(spark.createDataFrame([*values, *garbage], "value binary"))
    assert read.where(~F.coalesce(has_time(F.current_timestamp()), F.lit(False))).count() == len(garbage)
    rows = roll_up(read.where(has_time(F.current_timestamp())), within).persist()
    expected = collected(spark, files, within)
    for name in TABLES:
        assert sorted(str(row.asDict()) for row in table_of(rows, name).collect()) == sorted(map(str, expected[name]))
    rows.unpersist()


def test_lag_of_an_agents_samples(spark: SparkSession, tmp_path: Path) -> None:
    lags = [NO_LAG if minute < 10 else GroupLagTotal(4, 3, 10 * minute, minute / 2) for minute in range(61)]
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
