"""Whose a checkpoint and its tables are, on file systems of Hadoop's."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from agent.history.parquet_directory import ParquetDirectory
from agent.tools.spark_submit.checkpoint import MARK, OUT_MARK, claim
from agent.tools.spark_submit.jobs import Stream
from spark_jobs.errors import JobError
from spark_jobs.streams.job import follow
from spark_jobs.writing import HadoopFileSystem
from tests.live.spark_jobs.test_history_stream import tell


@pytest.mark.thorough  # leases are tried without Spark
def test_a_second_stream_of_a_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would write a batch that was planned and not written: Spark finds out only when it ends."""
    monkeypatch.setattr("spark_jobs.streams.job.WAIT_S", 0.2)
    tell(tmp_path / "history", [1])
    places = {"out": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint")}
    job = Stream(reads="history", history=str(tmp_path / "history"), available_now=True, **places)
    with ParquetDirectory(tmp_path / "checkpoint").lease("kshadow spark stream"):
        with pytest.raises(JobError, match="/checkpoint: expected nobody else writing there; kshadow spark stream"):
            follow(spark, job)
        assert not (tmp_path / "out").exists()
    assert follow(spark, job) == 0, "what the lease has left is nothing of a stranger"


def test_tables_of_another_checkpoint_are_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    """Batches are numbered by checkpoint: those of a second one would take the place of the first one's."""
    tell(tmp_path / "history", [1])
    root = tmp_path.as_uri()
    job = Stream(
        reads="history",
        history=str(tmp_path / "history"),
        out=f"{root}/out",
        checkpoint=f"{root}/checkpoint",
        available_now=True,
    )
    for _ in range(2):
        claim(job, HadoopFileSystem(spark))
    (tmp_path / "checkpoint" / "metadata").touch()
    claim(job, HadoopFileSystem(spark))
    others = {
        f"expected tables of the checkpoint {root}/other, those of {root}/checkpoint": {
            "checkpoint": f"{root}/other"
        },
        f"out: {root}/out then, {root}/elsewhere now": {"out": f"{root}/elsewhere"},
        "cluster: none then, eu now": {"cluster": "eu"},
    }
    for said, changed in others.items():
        with pytest.raises(JobError) as refused:
            follow(spark, msgspec.structs.replace(job, **changed))
        assert said in str(refused.value)
        assert refused.value.code == 2
    kept = {it.name for it in (tmp_path / "checkpoint").iterdir()}
    assert {it for it in kept if not it.startswith((".", "_"))} == {MARK, "metadata"}
    assert [it.name for it in (tmp_path / "out").iterdir() if it.suffix != ".crc"] == [OUT_MARK]
