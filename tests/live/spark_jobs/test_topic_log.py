"""A stream whose topic was deleted and made anew, on a real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.spark_submit.checkpoint import claim
from agent.tools.spark_submit.jobs import Kafka, Stream
from spark_jobs.errors import JobError, JobFailed, Unreachable
from spark_jobs.streams.job import follow, wait
from spark_jobs.streams.topic_log import TopicLog
from spark_jobs.writing import HadoopFileSystem
from tests.waiting import until

TOPIC = "kshadow-history"


@pytest.mark.usefixtures("kafka")
def test_a_topic_with_more_partitions_and_one_that_was_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads no partition that is added, and goes on at the old topic's offsets, behind what the new one has."""
    with EmbeddedBroker(fetch_jars(), heap="256m") as broker:
        kafka = Kafka(properties={"bootstrap.servers": broker.bootstrap_servers})
        admin = AdminClient({**kafka.properties, "log_level": 0})

        def is_known() -> bool:
            """Brokers answer a moment after what was done."""
            return TOPIC in admin.list_topics(timeout=20).topics

        def make() -> None:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
            until(is_known)

        job = Stream(
            reads="history-topic",
            history_topic=TOPIC,
            kafka=kafka,
            out=str(tmp_path / "out"),
            checkpoint=str(tmp_path / "checkpoint"),
            available_now=True,
        )
        claim(job, HadoopFileSystem(spark))
        log = TopicLog(spark, job.checkpoint, kafka, TOPIC)
        make()
        log.check()
        log.check()
        mark = tmp_path / "checkpoint" / "kshadow-log"
        kept = mark.read_bytes()
        mark.with_name(".kshadow-log.crc").unlink()
        mark.write_bytes(b"")  # as a machine without power leaves it
        with pytest.raises(JobError, match="kshadow-log: expected which topic it is, got something else: Input data"):
            TopicLog(spark, job.checkpoint, kafka, TOPIC).check()
        mark.write_bytes(kept)
        admin.create_partitions([NewPartitions(TOPIC, 2)])[TOPIC].result(60)
        until(lambda: len(admin.list_topics(timeout=20).topics[TOPIC].partitions) == 2)
        with pytest.raises(JobFailed, match="it had 1 partition as the stream started, it has 2 now: run it again"):
            log.check()
        admin.delete_topics([TOPIC], operation_timeout=60)[TOPIC].result(60)
        until(lambda: not is_known())
        make()
        with pytest.raises(JobError, match=r"it is another one now .*: start with another --checkpoint") as refused:
            follow(spark, job)
        assert refused.value.code == 2


@contextmanager
def filled() -> Iterator[tuple[Kafka, AdminClient]]:
    """A broker whose topic has twenty records in each of three partitions."""
    with EmbeddedBroker(fetch_jars(), heap="256m") as broker:
        kafka = Kafka(properties={"bootstrap.servers": broker.bootstrap_servers})
        admin = AdminClient({**kafka.properties, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(60)
        producer = Producer({**kafka.properties, "log_level": 0})
        for number in range(60):
            producer.produce(TOPIC, b"x", partition=number % 3)
        assert producer.flush(60) == 0
        yield kafka, admin


@pytest.mark.usefixtures("kafka")
def test_what_was_deleted_before_it_was_read_is_told(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark goes on behind it, and a window in which nothing was read is one in which nothing happened."""
    for name in ("commits", "offsets"):
        (tmp_path / name).mkdir()

    def done(batch: int, offsets: str) -> None:
        """As Spark keeps it."""
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
        (tmp_path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    with filled() as (kafka, admin):
        begins = [TopicPartition(TOPIC, number, offset) for number, offset in ((0, 12), (1, 5))]
        for deleted in admin.delete_records(begins).values():
            deleted.result(60)

        def check() -> str:
            TopicLog(spark, str(tmp_path), kafka, TOPIC).check()
            return capfd.readouterr().err

        assert check() == "", "nothing was read before"
        done(0, f'{{"{TOPIC}":{{"0":3,"1":4,"2":0}}}}')
        done(9, f'{{"{TOPIC}":{{"0":5,"1":5,"2":0}}}}')
        done(10, f'{{"{TOPIC}":{{"0":6,"1":4,"2":0}}}}')
        what = "up to 7 records, of partitions 0, 1, were deleted from it before this stream read them"
        assert check() == f"kshadow: {TOPIC}: {what}: what it writes lacks them\n"
        (tmp_path / "offsets" / "11").write_text(f'v1\n{{}}\n{{"{TOPIC}":{{"0":20,"1":20,"2":20}}}}')
        assert what in check(), "a batch that was planned is not read"
        done(11, f'{{"{TOPIC}":{{"0":20,"1":20,"2":20}}}}')
        assert check() == ""
        (tmp_path / "offsets" / "11").write_text("")
        assert check() == "", "Spark says what is wrong there"


@pytest.mark.usefixtures("kafka")
def test_a_partition_without_a_record_in_a_batch_may_have_some_left(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned of a topic's beginning is compacted, for the most part: time has not passed because of it."""
    (tmp_path / "offsets").mkdir()

    def planned(batch: int, **ends: int) -> None:
        """As Spark keeps it."""
        offsets = {name.removeprefix("of_"): end for name, end in ends.items()}
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({TOPIC: offsets})}")

    with filled() as (kafka, _):
        log = TopicLog(spark, str(tmp_path), kafka, TOPIC)
        planned(0, of_0=5, of_1=20, of_2=10)
        planned(1, of_0=15, of_1=20, of_2=12)
        planned(2, of_0=20, of_1=20, of_2=20)
        assert log.unread(0, [2]) == {0}, "of 1 nothing is left"
        assert log.unread(1, [2]) == {0}, "of 1 nothing was planned"
        assert log.unread(1, [0, 1]) == {2}
        assert log.unread(2, [2]) == set()
    monkeypatch.setattr("spark_jobs.kafka._LOOK_UP_S", 1.0)
    assert log.unread(2, [2]) == {0}, "nobody tells"


def test_a_stream_to_which_nothing_comes_is_looked_at_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spark_jobs.streams.job.CHECKED_S", 0.0)
    (tmp_path / "empty").mkdir()
    idle = spark.readStream.schema("value binary").parquet(str(tmp_path / "empty"))
    query = idle.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    slow = Py4JError("503 Slow Down")
    answers = [JobError("it is another one now"), slow, None, slow, slow, Unreachable("no answer")]

    def check() -> None:
        if (answer := answers.pop()) is not None:
            raise answer

    with pytest.raises(JobError, match="it is another one now"):
        wait(query, check)
    assert not answers
    told = re.findall("^kshadow: whether the stream may go on is not known: (.*); it", capfd.readouterr().err, re.M)
    assert told == ["no answer", "503 Slow Down", "503 Slow Down"], "each once, until it was known again"
    assert not query.isActive
