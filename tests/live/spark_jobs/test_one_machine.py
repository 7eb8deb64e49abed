"""`kshadow history` against the Spark jobs: the same rollups row for row, and the same report of them."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from agent.core.inference.origins import KINDS
from agent.history.report.columns import SUMMARY
from agent.history.report.local import run as report_here
from agent.history.report.request import Report
from agent.history.rolling import Range
from agent.history.rollup import roll_up as roll_up_here
from agent.history.tables import ROLLED_UP
from spark_jobs.history import FILES, HistoryFiles, from_columns
from spark_jobs.report.job import run as report_in_spark
from spark_jobs.rollups.rolling import roll_up, table_of
from spark_jobs.streams.rolling import roll_up_stream
from tests.unit.history.histories import START_MS, events_of, segments, write
from tests.unit.presentation.narrative.test_origins import origin

DAY_MS = 86_400_000
NOW_MS = START_MS + 400 * DAY_MS
BY_DATE = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")


class Place(NamedTuple):
    history: Path
    rollups: Path
    within: Range


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A history, and what one machine makes of it."""
    where = tmp_path_factory.mktemp("engines")
    events = events_of(segments(where / "segments", groups=12, days=3, seed=4))
    for number, event in enumerate(it for it in events if it["type"] == "member_left"):
        event["member"] = {**event["member"], "origin": None if number % 3 else origin(KINDS[number % len(KINDS)])}
    history = write([*events, *seen_by_looks(events)], where / "history")
    write(events[::3], history)  # once more, as an agent that crashed does
    done = roll_up_here([str(history)], str(where / "rollups"), None, None, now_ms=NOW_MS, memory_mb=256)
    return Place(history, where / "rollups", done.within)


def seen_by_looks(events: list[dict[str, Any]], *, again_after_ms: int = 3 * 3_600_000) -> list[dict[str, Any]]:
    """Events of a group as an agent tells them that cannot read the topic, and tells again after a crash."""
    (name, _), *_ = Counter(it["group"] for it in events if it["type"] == "rebalance").most_common(1)
    looks = []
    for event in (it for it in events if it["group"] == name and it["type"] != "finding"):
        digest = blake2b(event["event_id"].encode(), digest_size=10).hexdigest()
        seen = {**event, "event_id": f"0-0-{digest}", "group": f"{name} seen", "partition": None, "offset": None}
        looks += [seen, {**seen, "at_ms": seen["at_ms"] + again_after_ms}]
    return looks


@pytest.mark.thorough  # days are rolled up by test_rollups.py, too
def test_what_looks_showed_counts_once(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Here, and in a stream that meets it in two batches."""
    events = ds.dataset(place.history, format="parquet", partitioning=BY_DATE).to_table().to_pylist()
    of_looks = [it for it in events if it["offset"] is None]
    first_of: dict[str, dict[str, Any]] = {}
    for it in of_looks:
        first_of[it["event_id"]] = min(first_of.get(it["event_id"], it), it, key=lambda one: one["at_ms"])
    expected = Counter(
        (hour, it["cause"])
        for it in first_of.values()
        if it["type"] == "rebalance" and (hour := it["at_ms"] // HOUR_MS * HOUR_MS) < START_MS + DAY_MS
    )
    assert expected
    assert counts(ds.dataset(place.rollups / "causes", format="parquet").to_table().to_pylist()) == expected

    history, came = tmp_path / "history", list[dict[str, Any]]()
    history.mkdir()
    table = ds.dataset(place.history, format="parquet", partitioning=BY_DATE).to_table()
    firsts = pc.and_(pc.is_null(table["offset"]), pc.less(table["at_ms"], START_MS + 12 * HOUR_MS))
    for number, some in enumerate((firsts, pc.and_(pc.is_null(table["offset"]), pc.invert(firsts)))):
        pq.write_table(table.filter(some).drop_columns(["date"]), history / f"{number}.parquet")
        os.utime(history / f"{number}.parquet", (number, number))
    read = spark.readStream.option("maxFilesPerTrigger", 1).schema(FILES).parquet(str(history))
    rows = roll_up_stream(from_columns(read).drop("date"), timedelta(minutes=10))

    def take(batch: DataFrame, batch_id: int) -> None:
        came.extend(table_of(batch, "causes").toArrow().to_pylist())

    started = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = started.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert counts(came) == expected


@pytest.mark.thorough  # days are rolled up by test_rollups.py, too
def test_an_event_from_years_before_all_others_fills_no_years(spark: SparkSession, tmp_path: Path) -> None:
    """Here, and in a stream that meets it with the others."""
    group = {"schema": 1, "cluster": None, "group": "g", "group_type": "consumer", "type": "rebalance", "members": 2}
    times = {"old": START_MS - 5000 * DAY_MS, "new": START_MS, "last": START_MS + DAY_MS}
    told = [
        {**group, "event_id": name, "at_ms": at_ms, "partition": 1, "offset": number}
        for number, (name, at_ms) in enumerate(times.items())
    ]
    history = write(told, tmp_path / "history")
    done = roll_up_here([str(history)], str(tmp_path / "here"), None, None, now_ms=NOW_MS, memory_mb=256)
    assert (done.left_out, done.days) == (1, 2)

    came: dict[str, list[dict[str, Any]]] = {"groups": [], "set_aside": []}
    rows = roll_up_stream(
        from_columns(spark.readStream.schema(FILES).parquet(str(history))).drop("date"), timedelta(minutes=10)
    )

    def take(batch: DataFrame, batch_id: int) -> None:
        kept = batch.persist()
        for name, table in came.items():
            table.extend(table_of(kept, name).drop("date").toArrow().to_pylist())
        kept.unpersist()

    started = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert started.trigger(availableNow=True).start().awaitTermination(300)
    assert [(it["event_id"], it["at_ms"], it["reason"]) for it in came["set_aside"]] == [
        ("old", times["old"], "no_time")
    ]
    by_here = ds.dataset(tmp_path / "here" / "groups", format="parquet").to_table().to_pylist()
    assert sorted(map(str, came["groups"])) == sorted(
        str(it) for it in by_here if it["end_ms"] <= times["last"] - 600_000
    )


HOUR_MS = 3_600_000


def counts(causes: list[dict[str, Any]]) -> Counter[tuple[int, str]]:
    """How often the group that is looked at was rebalanced in hours of the first day, by cause."""
    return Counter(
        {
            (it["start_ms"], it["cause"]): it["count"]
            for it in causes
            if it["group"].endswith(" seen")
            and (it["window"], it["kind"]) == ("1h", "rebalance")
            and it["start_ms"] < START_MS + DAY_MS
        }
    )


@pytest.mark.thorough  # days are rolled up by test_rollups.py, too
def test_the_rollups_are_the_same(spark: SparkSession, place: Place) -> None:
    events = HistoryFiles(spark, [str(place.history)]).read()
    rows = roll_up(events, place.within, history=str(place.history)).persist()
    for name in ROLLED_UP:
        theirs = table_of(rows, name).toArrow()
        ours = ds.dataset(place.rollups / name, format="parquet", partitioning=BY_DATE).to_table()
        assert ours.schema.equals(theirs.schema)
        assert ours.num_rows > 0
        assert name != "causes" or "origin" in ours["kind"].to_pylist()
        assert Counter(map(str, ours.to_pylist())) == Counter(map(str, theirs.to_pylist()))
    rows.unpersist()


@pytest.mark.thorough  # the rollups that it is made of are the same, above
def test_a_report_that_spark_reads_is_the_same(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    middle = START_MS + DAY_MS + DAY_MS // 2
    job = Report(
        rollups=str(place.rollups),
        out=str(tmp_path / "here.html"),
        before=(START_MS, middle),
        after=(middle, START_MS + 3 * DAY_MS),
    )
    report_here(job, now_ms=NOW_MS, memory_mb=256)
    # With a scheme, as Hadoop names what it is on.
    theirs = Report(**{**fields(job), "rollups": f"file://{place.rollups}", "out": f"file://{tmp_path}/spark.html"})
    assert report_in_spark(theirs) == 0
    for name, columns in SUMMARY.items():
        tables = [pq.read_table(tmp_path / f"{it}-summary" / name) for it in ("here", "spark")]
        here, spark_s = (table.to_pylist() for table in tables)
        assert [pair for pair in zip(here, spark_s, strict=True) if pair[0] != pair[1]] == [], name
        assert tables[0].schema == tables[1].schema
        assert tables[0].schema.names == [it.name for it in columns]
    pages = [
        (tmp_path / f"{it}.html").read_text(encoding="utf-8").partition("How the report was made")[0]
        for it in ("here", "spark")
    ]
    assert pages[0] == pages[1]


def fields(job: Report) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__struct_fields__}
