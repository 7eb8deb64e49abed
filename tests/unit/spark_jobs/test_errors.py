"""What Spark says, in a sentence and with the contract's exit code."""

from __future__ import annotations

import json

import pytest

from agent.history.parquet_directory import CommitFailed
from agent.tools.spark_submit.jobs import Rollup, text_of
from spark_jobs import main
from spark_jobs.errors import explained
from tests import DATA


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        # 1: a right is missing
        (
            "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics:"
            " [t]\n\tat x",
            3,
            "not allowed: Not authorized to access topics: [t]: grant Describe and Read",
        ),
        # 2: a password is wrong
        ("org.apache.kafka.common.errors.SaslAuthenticationException: no", 3, "the brokers do not let us in: no"),
        # 3: nobody is there
        (
            "org.apache.kafka.common.KafkaException: No resolvable bootstrap urls given in",
            3,
            "cannot be reached",
        ),
        (
            "TimeoutException: Timeout of 60000ms expired before the position",
            3,
            "cannot be reached",
        ),
        # 4: no connector
        ("[...] Failed to find data source: kafka. Please", 2, "give its coordinates with --packages"),
        # 5: another version's state
        (
            "spark_jobs.errors.StateRefused: the mirror of partition 3: expected layout a, got layout b",
            2,
            "the mirror of partition 3: expected layout a, got layout b. Either go on with the kshadow that",
        ),
        (
            "spark_jobs.errors.JobError: s3a://b/_kshadow_lease: another job has taken over",
            2,
            "s3a://b/_kshadow_lease: another job has taken over",
        ),
        ("spark_jobs.errors.Unreachable: b:9092: no answer", 3, "b:9092: no answer"),
        ("spark_jobs.errors.JobFailed: t: it has 2 now: run it again", 1, "t: it has 2 now: run it again"),
        # 6: an executor without our dependencies
        ("ModuleNotFoundError: No module named 'msgspec'", 2, "executors lack the Python module msgspec"),
        # 8: a checkpoint of another query
        (
            "AssertionError: There are [1] sources in the checkpoint offsets and now there are [2]",
            2,
            "the checkpoint cannot be gone on from",
        ),
        # 9: the disk is full
        ("java.io.IOException: No space left on device", 3, "No space left on device"),
        (
            "java.io.FileNotFoundException: /out/groups/_delta_log/.0.tmp (Permission denied)",
            3,
            "/out/groups/_delta_log/.0.tmp: Permission denied: expected that this user may",
        ),
        (
            "java.nio.file.AccessDeniedException: s3a://lake/out/groups: PUT 0-byte object: AccessDenied",
            3,
            "the file system does not let us in: s3a://lake/out/groups: PUT",
        ),
        # two streams, one checkpoint, where no lease keeps the second away
        (
            "[STREAM_FAILED] Query [id = a] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent"
            " update to the log. Multiple streaming jobs detected for 3.",
            2,
            "another stream goes on from the same checkpoint (CONCURRENT",
        ),
        (
            "[STREAM_FAILED] Query [id = a] terminated with exception: Rename destination"
            " hdfs:/ck/state/0/_metadata/v2/0 already exists. SQLSTATE: XXKST",
            2,
            "another stream goes on from the same checkpoint (Rename",
        ),
        (
            "RESTException: Error occurred while processing GET request\nCaused by: org.apache.iceberg.shaded.org."
            "apache.hc.client5.http.HttpHostConnectException: Connect to http://127.0.0.1:18181 failed: refused",
            3,
            "cannot be reached from where the job runs: Connect to http://127.0.0.1:18181 failed: refused",
        ),
        (
            "org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: no token",
            3,
            "the catalog does not let us in: Not authorized: no token",
        ),
        # 10: not enough memory
        ("java.lang.OutOfMemoryError: Java heap space", 1, "give the driver more"),
        # 11: too little CPU
        (
            "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat a\nCaused by:"
            " java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back",
            1,
            "a Python worker did not start within the ten seconds",
        ),
        # 12: anything else says what is nearest to its cause
        (
            "a\n\tat b\nCaused by: c\nCaused by: java.lang.IllegalStateException: odd",
            1,
            "Spark gave up: java.lang.IllegalStateException: odd",
        ),
        ("something odd", 1, "Spark gave up: something odd"),
        (
            "[STREAM_FAILED] Query [id = 1] Return Message: Traceback (most recent call last):\n  File a\n    b\n"
            "pyspark.PythonException: \n  See below.\nTraceback (most recent call last):\n  File c\n    d\n"
            "OverflowError: too large\n\n SQLSTATE: 39000\n=== Streaming Query ===",
            1,
            "Spark gave up: OverflowError: too large",
        ),
        # A day that was moved aside
        (
            "[INVALID_PARTITION_VALUE] Failed to cast value '2026-07-06.bak' to data type \"DATE\" for partition"
            " column `date`. Ensure the value matches the expected data type for this partition column.",
            2,
            "date=2026-07-06.bak: expected a directory of a day, such as date=2026-11-21: move it out of the history",
        ),
        # A record of a time that Spark does not know
        (
            "Caused by: java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.multiplyExact\n"
            "\tat org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.a",
            1,
            "a record of the topic is dated after the year 294,246",
        ),
        (
            "An error occurred while calling o1.create.\n: java.io.IOException: odd\n\tat a",
            1,
            "Spark gave up: java.io.IOException: odd",
        ),
        ("", 1, "nothing was said"),
    ],
)
def test_what_it_means(said: str, code: int, sentence: str) -> None:
    error = explained(said)
    assert (error.code, sentence in str(error)) == (code, True), str(error)


REAL: dict[str, str] = json.loads((DATA / "spark_errors.json").read_text())
"""What Spark 4.0.5 said when each was made for real, less its traces; paths are below /data."""
NO_PARQUET = (
    "expected a Parquet file, got something else, or one that is cut off: restore it, or take it away and make its"
    " day anew"
)
ANEW = "start with another --checkpoint and another --out: what is in this --out stays true"


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        # 1: a path that is not there
        ("path_not_found", 2, "/data/none: expected a directory of tables, nothing is there"),
        # 2: an empty directory
        (
            "unable_to_infer",
            2,
            "expected Parquet files in what is read, there are none: is the path right, and did what writes it run?",
        ),
        # 3: text, called .parquet
        (
            "garbage",
            2,
            f"/data/garbage/x.parquet: {NO_PARQUET}",
        ),
        # 4: the same, found by looking for columns
        (
            "garbage_infer",
            2,
            f"/data/garbage/x.parquet: {NO_PARQUET}",
        ),
        # 5: half of a file
        (
            "cut",
            2,
            f"/data/cut/y.parquet: {NO_PARQUET}",
        ),
        # 6: a file with other bytes in its midst
        (
            "damaged_inside",
            2,
            "/data/bad/z.parquet: expected a Parquet file, got one that is damaged (can not read class"
            " org.apache.parquet.format.PageHeader: don't know what type: 15): restore it, or take it away and make"
            " its day anew",
        ),
        # 7: a column of another type
        (
            "other_type",
            2,
            "/data/type/t.parquet: column event_id: expected string, got INT64: is it a table of kshadow, of this"
            " version?",
        ),
        # 8: a file that goes while it is read
        (
            "file_gone",
            1,
            "/data/gone/a.parquet: it was there as the job began and is gone now, so something replaced the table"
            " meanwhile: run it again",
        ),
        # 9: object stores whose client is not loaded
        (
            "s3a",
            2,
            "s3a:// paths need Hadoop's S3 client, which is not loaded (org.apache.hadoop.fs.s3a.S3AFileSystem): give"
            " hadoop-aws of Spark's Hadoop with --packages",
        ),
        (
            "scheme",
            2,
            "gs:// paths need a file system that is not loaded: give its package with --packages",
        ),
        # 10: no connector
        ("kafka", 2, "Spark's Kafka connector is not loaded: give its coordinates with --packages"),
        # 11: a file where a directory is to be
        ("out_is_under_file", 2, "/data/file: expected a directory, a file is there"),
        # 12: a state that is not read, found by the driver in a batch
        (
            "foreach_refused",
            2,
            "this version cannot go on from the checkpoint: findings of the cluster: expected versions up to 2,"
            f" got version 5. Either go on with the kshadow that wrote it; or {ANEW}",
        ),
        # 13: a damaged file that a stream reads
        (
            "stream_garbage",
            2,
            f"/data/src/c.parquet: {NO_PARQUET}",
        ),
        # 14: checkpoints that are cut off, of a newer Spark, of another query
        (
            "offsets_empty",
            2,
            f"the checkpoint cannot be gone on from: /data/cp/offsets/2 is cut off, or of a newer Spark: {ANEW}",
        ),
        (
            "offsets_v9",
            2,
            f"the checkpoint cannot be gone on from: /data/cp/offsets/2 is cut off, or of a newer Spark: {ANEW}",
        ),
        (
            "two_sources",
            2,
            f"the checkpoint cannot be gone on from: expected a stream of 2 sources, one of 1 made it: {ANEW}",
        ),
        # 15: a catalog that nothing sets up
        (
            "no_catalog",
            2,
            "Spark knows no catalog lake: expected one that --conf spark.sql.catalog.lake=… sets up",
        ),
        # 16: a directory that cannot be made
        (
            "no_directory",
            3,
            "/proc/none: it cannot be made: expected a directory that this user may write to",
        ),
        # 17: a worker that was killed
        (
            "oom_worker",
            1,
            "a Python worker was killed, most likely as memory ran out: give each core more beside the heap (in a"
            " cluster --conf spark.executor.memoryOverhead=…), or fewer cores (--master local[2])",
        ),
    ],
)
def test_what_spark_really_says(name: str, code: int, sentence: str) -> None:
    error = explained(REAL[name])
    assert (error.code, str(error)) == (code, sentence)


def test_there_is_a_sentence_for_each() -> None:
    (mark,) = (it for it in test_what_spark_really_says.pytestmark if it.name == "parametrize")  # type: ignore[attr-defined]
    assert {it[0] for it in mark.args[1]} == set(REAL)


def test_a_commit_that_cannot_be_made_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the journal of one that was broken off is damaged."""

    def fail(_job: object) -> int:
        raise CommitFailed("/out/_journal.json: expected the journal of a commit")

    monkeypatch.setattr(main, "_run", fail)
    assert main.main([text_of(Rollup(history=("/h",), out="/out"))]) == 2
    assert capsys.readouterr().err == "Error: /out/_journal.json: expected the journal of a commit\n"
