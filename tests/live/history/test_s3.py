"""History and rollups on an object store, read without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow.dataset as ds
import pytest
import s3fs
from deltalake import write_deltalake

from agent.common.units import DAY_MS
from agent.history.tables import ROLLED_UP
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.parquet_sink import ParquetSink
from tests import ROOT
from tests.harness.s3 import BUCKET
from tests.unit.cli.running import kshadow
from tests.unit.history.histories import START_MS, events_of, segments, write

ROLLUPS = f"s3://{BUCKET}/rollups"
SUM = "SELECT count(*) AS n, sum(rebalances) AS rebalances FROM groups"


@pytest.fixture(scope="module", autouse=True)
def s3() -> Iterator[None]:
    command = [sys.executable, "-m", "tests.harness.s3"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with mock.patch.dict(os.environ, json.loads(process.stdout.readline())):
            yield
        process.stdin.close()


def test_parquet_and_delta_on_s3_are_as_they_are_here(tmp_path: Path) -> None:
    history = write(events_of(segments(tmp_path / "segments")), tmp_path / "history")
    # Quiet hours behind the last event, which only the writers' clock tells of.
    ParquetSink(str(history)).tell_clock(LogClock("agent", None, START_MS + 2 * DAY_MS + DAY_MS // 2))
    s3fs.S3FileSystem().put(str(history), f"{BUCKET}/history", recursive=True)
    here, there = tmp_path / "here", tmp_path / "there"
    for out, source in ((here, history), (there, f"s3a://{BUCKET}/history")):
        done = kshadow("history", "rollup", "--history", source, "--out", out)
        assert (done.exit_code, done.stderr) == (0, "")
    for name in ROLLED_UP:
        table = ds.dataset(here / name, format="parquet", partitioning="hive").to_table()
        for _ in range(2):  # what was replaced still lies there
            write_deltalake(
                f"{ROLLUPS}/{name}",
                table,
                mode="overwrite",
                partition_by=["date"],
                storage_options={"allow_http": "1"},
            )
    answers = [
        kshadow("history", "query", "--rollups", it, "-o", "json", SUM).stdout for it in (here, there, ROLLUPS)
    ]
    assert json.loads(answers[0])[0]["rebalances"] > 0
    assert answers[1:] == answers[:1] * 2


def test_a_store_that_does_not_answer_is_told_in_one_line() -> None:
    done = kshadow("history", "query", "--rollups", f"s3://absent/{BUCKET}", SUM)
    assert done.exit_code == 2
    assert "Error: s3://absent/lake/groups: the Delta table cannot be read here: " in done.stderr
    assert "\x1b" not in done.stderr
