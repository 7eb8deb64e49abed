"""`kshadow history` against the Spark jobs: the same rollups row for row, and the same report of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from agent.core.inference.origins import KINDS
from agent.history.report.columns import SUMMARY
from agent.history.report.local import run as report_here
from agent.history.report.request import Report
from agent.history.rolling import Range
from agent.history.rollup import roll_up as roll_up_here
from agent.history.tables import ROLLED_UP
from spark_jobs.history import HistoryFiles
from spark_jobs.report.job import run as report_in_spark
from spark_jobs.rollups.rolling import roll_up, table_of
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
    history = write(events, where / "history")
    write(events[::3], history)  # once more, as an agent that crashed does
    done = roll_up_here([str(history)], str(where / "rollups"), None, None, now_ms=NOW_MS, memory_mb=256)
    return Place(history, where / "rollups", done.within)


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
