"""Many files become one, and every row stays."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from agent.history.compaction import Compacted, compact
from agent.history.errors import HistoryError
from agent.history.parquet_directory import ParquetDirectory
from agent.persistence.export.encoded_event import EncodedEvent, encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from tests.unit.cli.running import kshadow

DAY = 86_400_000
T0 = 20_640 * DAY
NOW_MS = T0 + 10 * DAY


def line(number: int, at_ms: int) -> EncodedEvent:
    event = {"schema": 1, "event_id": f"e{number}", "type": "rebalance", "cluster": None, "group": "g"}
    return encode_event({**event, "group_type": "classic", "at_ms": at_ms, "partition": 1, "offset": number}, 0)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two days of an agent that rolls often, and of one that told twice."""
    sink = ParquetSink(str(tmp_path))
    for number in range(40):
        sink.write([line(number, T0 + number * DAY // 20)])
    sink.write([line(number, T0 + number * DAY // 20) for number in range(0, 40, 10)])
    age(tmp_path)
    return tmp_path


def age(directory: Path, *, hours: float = 2) -> None:
    for file in directory.rglob("*.parquet"):
        os.utime(file, (NOW_MS / 1000 - hours * 3_600,) * 2)


def rows(directory: Path) -> Counter[str]:
    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table().to_pylist()
    return Counter(str(sorted(row.items())) for row in table)


def files(directory: Path) -> dict[str, list[str]]:
    """Names by day, those of merged files without what makes each another."""
    return {it.name: sorted(map(named, it.iterdir())) for it in sorted(directory.glob("date=*"))}


def named(file: Path) -> str:
    return re.sub("^compact-[0-9a-f]{32}", "compact", file.name)


def test_one_file_a_day_with_the_same_rows(history: Path) -> None:
    before = rows(history)
    assert compact(history, now_ms=NOW_MS) == Compacted(42, 2, 44)
    assert files(history) == {"date=2026-07-06": ["compact.parquet"], "date=2026-07-07": ["compact.parquet"]}
    assert rows(history) == before
    assert before.total() == 44
    assert compact(history, now_ms=NOW_MS) == Compacted(0, 0, 0), "nothing is left to do"
    # What comes later is merged with the file that is there.
    ParquetSink(str(history)).write([line(99, T0 + 7)])
    age(history)
    assert compact(history, now_ms=NOW_MS) == Compacted(2, 1, 23)
    assert rows(history).total() == 45


def test_days_that_are_asked_for(history: Path) -> None:
    assert compact(history, first="2026-07-07", last="2026-07-07", now_ms=NOW_MS).days == 1
    assert [len(it) for it in files(history).values()] == [21, 1]


def test_what_an_agent_may_write_again_is_left_alone(history: Path) -> None:
    before = rows(history)
    young = sorted(history.rglob("*.parquet"))[3]
    # The first day has been over for half an hour.
    now_ms = T0 + DAY + 1_800_000
    for file in history.rglob("*.parquet"):
        os.utime(file, (now_ms / 1000 - (60 if file == young else 7_200),) * 2)
    compact(history, now_ms=now_ms)
    assert young.exists()
    assert files(history)["date=2026-07-06"] == sorted([young.name, "compact.parquet"])
    assert rows(history) == before


def test_a_streams_last_batch_is_left_alone(tmp_path: Path) -> None:
    schema = pq.read_schema(written(tmp_path / "other", 0))
    directory = ParquetDirectory(tmp_path / "out")
    for number in range(4):
        with directory.staging() as staging, directory.lease("a stream") as lease:
            for day in ("2026-07-06", "2026-07-07")[: 1 + (number < 3)]:
                (staging / f"date={day}").mkdir()
                pq.write_table(schema.empty_table(), staging / f"date={day}" / "x.parquet")
            lease.publish(staging, f"batch-{number:09d}")
    age(tmp_path)
    compact(tmp_path / "out", now_ms=NOW_MS)
    assert files(tmp_path / "out") == {
        "date=2026-07-06": ["batch-000000003.parquet", "compact.parquet"],
        "date=2026-07-07": ["compact.parquet"],
    }


def written(directory: Path, number: int) -> Path:
    ParquetSink(str(directory)).write([line(number, T0)])
    return next(directory.rglob("*.parquet"))


def test_two_compactions_exclude_each_other(history: Path) -> None:
    before = rows(history)
    with (
        ParquetDirectory(history).lease("kshadow spark rollup"),
        pytest.raises(HistoryError, match=r"expected nobody else writing there; kshadow spark rollup \(process \d+"),
    ):
        compact(history, now_ms=NOW_MS)
    assert rows(history) == before


def rewrite(file: Path, table: pa.Table) -> None:
    pq.write_table(table, file)
    age(file.parent)


def test_a_file_with_more_columns(history: Path) -> None:
    file = next(history.rglob("*.parquet"))
    table = pq.read_table(file, partitioning=None)
    rewrite(file, table.append_column("of_tomorrow", pa.array(["x"] * table.num_rows)))
    compact(history, now_ms=NOW_MS)
    assert rows(history).total() == 44
    came: list[Any] = pq.read_table(*file.parent.iterdir(), partitioning=None)["of_tomorrow"].to_pylist()
    assert came.count("x") == table.num_rows


@pytest.mark.parametrize("kind", ["renamed", "truncated"])
def test_a_file_that_cannot_be_merged_is_refused_by_its_name(history: Path, kind: str) -> None:
    file = sorted(history.rglob("*.parquet"))[-1]
    if kind == "renamed":
        table = pq.read_table(file, partitioning=None)
        rewrite(file, table.rename_columns([{"at_ms": "at"}.get(it, it) for it in table.column_names]))
        said = "expected at_ms int64, got nothing"
    else:
        file.write_bytes(file.read_bytes()[:-30])
        age(history)
        said = "expected a Parquet file"
    names = files(history)
    with pytest.raises(HistoryError, match=f"{file.name}.*{said}"):
        compact(history, now_ms=NOW_MS)
    assert files(history) == names


def test_what_is_no_directory_of_parquet(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="of rollups, there is none"):
        compact(tmp_path / "x", now_ms=NOW_MS)
    (tmp_path / "groups" / "_delta_log").mkdir(parents=True)
    with pytest.raises(HistoryError, match="got a Delta table"):
        compact(tmp_path, now_ms=NOW_MS)


def test_at_the_prompt(history: Path) -> None:
    before = rows(history)
    done = kshadow("spark", "compact", "--history", history)
    assert (done.exit_code, done.stdout) == (0, f"{history}: 42 files became 2, with 44 rows\n")
    assert rows(history) == before
    for arguments, said in (
        ((), "exactly one of --history, --rollups is needed"),
        (("--rollups", history / "x"), "of rollups, there is none"),
        (("--history", "s3a://bucket/history"), "expected a local directory for Parquet files"),
        (("--history", history, "--since", "2026-07-07", "--until", "2026-07-06"), "ends before it begins"),
    ):
        refused = kshadow("spark", "compact", *arguments)
        assert refused.exit_code == 2
        assert said in " ".join(refused.stderr.split())
