"""The same calls on each format: days are replaced, a batch that is made again is there once, columns are added."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql.types import DateType, LongType, StringType, StructType

from agent.history.days import Days
from agent.history.parquet_directory import CommitFailed, ParquetDirectory
from agent.history.tables import ROLLED_UP
from spark_jobs.errors import JobError
from spark_jobs.formats.api import OutputHeld, TableOutput, is_of
from spark_jobs.formats.opening import conformed, dates_of, open_output, path_of, pinned, read_table
from spark_jobs.history import HistoryFiles
from spark_jobs.report.reading import read_rollups
from tests import others_thorough

TABLES = ("groups", "causes")
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
READ = StructType().add("value", LongType()).add("added", StringType()).add("date", DateType())


class Place:
    """Where tables of a format are, and how they are written and read."""

    def __init__(self, spark: SparkSession, form: str, directory: Path) -> None:
        self.spark = spark
        out = f"lake.db_{directory.name}.kshadow" if form == "iceberg" else str(directory / "out")
        self.at = f"iceberg:{out}" if form == "iceberg" else out
        self.output: TableOutput = open_output(spark, form, out, TABLES, "rollup")

    def rows(self, value: int, days: tuple[str, ...] = DAYS, more: str = "") -> DataFrame:
        return self.spark.createDataFrame([(day, value) for day in days], "`date` string, value bigint").selectExpr(
            "*", *([more] if more else [])
        )

    def replace(self, value: int, days: tuple[str, ...] = DAYS, within: Days | None = None, more: str = "") -> None:
        with self.output.held():
            self.output.replace(
                dict.fromkeys(TABLES, self.rows(value, days, more)),
                None if within is None else dict.fromkeys(TABLES, within),
                ("value",),
            )

    def append(self, value: int, batch: int, stream: str = "a", names: tuple[str, ...] = TABLES) -> None:
        self.output.append(dict.fromkeys(names, self.rows(value)), stream, batch)

    def read(self, table: str = "causes", days: Days | None = None) -> list[tuple[Any, ...]]:
        with self.opened(table) as rows:
            some = rows if days is None else rows.where(is_of(days))
            return sorted((str(row["date"]), row["value"], row["added"]) for row in some.collect())

    @contextmanager
    def opened(self, table: str) -> Iterator[DataFrame]:
        found = read_table(self.spark, self.at, table)
        if found is not None:
            yield conformed(found, READ)
            return
        with pinned([path_of(self.at, table)]) as (path,):
            yield self.spark.read.schema(READ).parquet(path)


def each(value: int, days: tuple[str, ...] = DAYS, added: str | None = None) -> list[tuple[Any, ...]]:
    return [(day, value, added) for day in days]


@pytest.mark.parametrize("form", others_thorough(["parquet", "delta", "iceberg"], "parquet"))
def test_tables(spark: SparkSession, tmp_path: Path, form: str) -> None:
    place = Place(spark, form, tmp_path)
    assert place.output.is_empty()
    assert dates_of(spark, place.at, "causes") == []

    place.append(1, batch=0)
    place.append(2, batch=1, names=("causes",))
    place.append(2, batch=1)  # once more: of one table it is there, the other is where it was killed
    assert place.read() == sorted([*each(1), *each(2)])
    assert place.read("groups") == sorted([*each(1), *each(2)])
    assert not place.output.is_empty()

    place.replace(3, DAYS[:1], Days(*DAYS[:2]), more="'new' AS added")
    expected = sorted([*each(3, DAYS[:1], "new"), *each(1, DAYS[2:]), *each(2, DAYS[2:])])
    assert place.read() == place.read("groups") == expected, (
        "two days are replaced, of which one has no rows any more"
    )
    assert place.read(days=Days(DAYS[2], DAYS[2])) == expected[1:]

    assert dates_of(spark, place.at, "causes")[-1] == DAYS[2]
    with place.opened("causes") as rows:
        place.replace(4)
        assert rows.where("added IS NOT NULL").count() == 1, "as it was when the block began"
    assert place.read() == each(4)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        # 1: somebody's table
        ("'2026-11-01' AS day", "column date: expected date, got none"),
        # 2: the same names, and another type
        ("DATE'2026-11-01' AS `date`, 'x' AS value", "column value: expected bigint, got string"),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_refused_before_any_is_written(
    spark: SparkSession, tmp_path: Path, form: str, columns: str, said: str
) -> None:
    place = Place(spark, form, tmp_path)
    there = f"lake.db_{tmp_path.name}.kshadow_causes" if form == "iceberg" else f"{tmp_path}/out/causes"
    made = spark.sql(f"SELECT {columns}")
    if form == "iceberg":
        spark.sql(f"CREATE NAMESPACE lake.db_{tmp_path.name}")
        made.writeTo(there).using("iceberg").tableProperty("write.spark.accept-any-schema", "true").create()
    else:
        made.write.format("delta").save(there)
    for write in (lambda: place.replace(1), lambda: place.append(1, batch=0)):
        with pytest.raises(JobError, match=rf"^{re.escape(there)}: .*: {re.escape(said)}: name another") as refused:
            write()
        assert refused.value.code == 2
        assert dates_of(spark, place.at, "groups") == [], "they are written together"


def test_tables_of_another_format_are_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A Delta table in place of Parquet would hide the days that it lacks, Parquet would take the table's files."""
    for there, asked, said in (
        ("parquet", "delta", "expected a Delta table, or none yet, got a directory of Parquet"),
        ("delta", "parquet", "expected a directory of Parquet, or none yet, got a Delta table"),
    ):
        place = Place(spark, there, tmp_path / there)
        place.replace(1)
        other = Place(spark, asked, tmp_path / there)
        for write in (
            lambda other=other: other.replace(2, DAYS[:1], Days(DAYS[0], DAYS[0])),
            lambda other=other: other.append(2, batch=0),
        ):
            with pytest.raises((JobError, CommitFailed), match=f"/out/groups: {said}"):
                write()
        assert place.read() == each(1)


def test_what_a_killed_job_left_of_a_new_delta_table_is_no_hindrance(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, "delta", tmp_path)
    for table in TABLES:
        place.rows(1).write.partitionBy("date").parquet(f"{tmp_path}/out/{table}")
    place.replace(2)
    assert place.read() == each(2)


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_directory_of_any_name(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Spark's tables are named between backticks; and to Hadoop `%20` in a URL is no blank, nor `#` its end."""
    place = Place(spark, form, Path(f"file:{tmp_path}/a`b%20c#d"))
    place.replace(1)
    place.replace(2)
    assert place.read() == each(2)
    assert [it.name for it in tmp_path.iterdir()] == ["a`b%20c#d"]


@pytest.mark.parametrize("error", [AnalysisException("it is there"), Py4JError("AlreadyExistsException")])
def test_an_iceberg_table_that_another_job_makes_meanwhile_is_taken(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A catalog in a directory says so by an error of Spark's, one that is asked by REST by one of Java's."""
    place, other = Place(spark, "iceberg", tmp_path), Place(spark, "iceberg", tmp_path)
    create = DataFrameWriterV2.create

    def meanwhile(writer: DataFrameWriterV2) -> None:
        monkeypatch.setattr(DataFrameWriterV2, "create", create)
        other.replace(1)
        raise error

    monkeypatch.setattr(DataFrameWriterV2, "create", meanwhile)
    place.replace(2)
    assert place.read("groups") == place.read() == each(2)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_report_reads_what_is_there_and_not_what_was_replaced(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    out = f"lake.rolled_{tmp_path.name}.kshadow" if form == "iceberg" else str(tmp_path / "out")
    output = open_output(spark, form, out, tuple(ROLLED_UP), "rollup")
    rows = {
        name: spark.createDataFrame([("2026-11-01",)], "day string").selectExpr(
            *(
                f"CAST({'day' if column.name == 'date' else 'NULL'} AS {column.kind}) AS `{column.name}`"
                for column in ROLLED_UP[name]
            )
        )
        for name in ROLLED_UP
    }
    for _ in range(2):
        with output.held():
            output.replace(rows, None)
    there = read_rollups(spark, f"iceberg:{out}" if form == "iceberg" else out)
    assert {name: table.count() for name, table in there.tables.items()} == dict.fromkeys(there.tables, 1)


def test_a_second_writer_of_a_directory_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.formats.parquet.WAIT_S", 0.2)
    place = Place(spark, "parquet", tmp_path)
    with ParquetDirectory(tmp_path / "out").lease("kshadow spark rollup"):
        with pytest.raises(OutputHeld, match="kshadow spark rollup") as refused:
            place.replace(1)
        assert refused.value.code == 2


def test_iceberg_tables_that_are_not_there_are_named(spark: SparkSession) -> None:
    with pytest.raises(JobError, match=r"^iceberg:lake\.db\.none_history is not there: expected a table of history"):
        HistoryFiles(spark, ["iceberg:lake.db.none"])
    with pytest.raises(JobError, match=r"^iceberg:lake\.db\.none_groups is not there: expected the table groups"):
        read_rollups(spark, "iceberg:lake.db.none")


def test_parquet_elsewhere_is_refused(spark: SparkSession) -> None:
    with pytest.raises(JobError, match="expected a directory on this machine"):
        open_output(spark, "parquet", "s3a://bucket/out", TABLES, "rollup")
