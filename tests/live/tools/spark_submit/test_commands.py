"""The installed command against `kshadow replay`: from files, and from a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from agent.common.units import DAY_MS
from agent.core.events.events import Event
from agent.core.shadow.mirror import PartitionMirror
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests import ROOT, SHARED
from tests.harness.spark.internal_topics import jars
from tests.harness.spark.loading import give, properties
from tests.live.spark_jobs.histories import difference, replayed, written
from tests.live.spark_jobs.made import KSHADOW, segments

T0 = 1_783_296_000_000
PARTITIONS = 4
CAPTURE = SHARED / "captures" / "kafka-4.3.1" / "segments"
LOCAL = ("--master", "local[2]")


@pytest.mark.thorough
@pytest.mark.timeout(900)  # several starts of Spark, on two cores that others use too
def test_the_command(tmp_path: Path) -> None:
    source = CAPTURE if CAPTURE.exists() else segments(tmp_path / "first", start_ms=T0, days=1, groups=30)
    out = tmp_path / "events"
    (out / "date=2026-01-01").mkdir(parents=True)
    (out / "date=2026-01-01" / "part-0.parquet").write_bytes(b"of a run before")
    command = [KSHADOW, "spark", "backfill", "--from", str(source), "--out", str(out), *LOCAL]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert (refused.returncode, "there is something in it" in refused.stderr) == (2, True), refused.stderr
    over = subprocess.run([*command, "--overwrite"], capture_output=True, text=True)
    assert over.returncode == 0, over.stderr
    found = difference(replayed([source]), written(out))
    print(f"backfill of {source.name}: {found}")
    assert found.is_none, "and nothing of what was there"
    assert f"{found.events:,} events" in over.stderr


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A real one that holds a generated history. Spark pays for each partition, so they are few; and the records that
    the broker adds come soon after it, for months in between would be gone through."""
    start_ms = int(time.time() * 1000) - DAY_MS
    made = segments(tmp_path_factory.mktemp("made"), start_ms=start_ms, days=1, groups=6, partitions=PARTITIONS)
    with EmbeddedBroker(fetch_jars(), properties=properties(PARTITIONS)) as it:
        give(it, made)
        yield it


def replayed_as_by_spark(broker: EmbeddedBroker) -> list[Event]:
    """Spark's source tells no leaders' epochs: files alone show that the broker took over what it was given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionMirror, "_note_leader", lambda mirror, batch, start, stop: stop)
        return replayed(broker.log_dirs)


def ends_of(servers: str) -> dict[int | None, int]:
    """Offsets behind the last record of each partition, and behind all of them (None)."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        places = {it: TopicPartition("__consumer_offsets", it) for it in range(PARTITIONS)}
        ends = {it: consumer.get_watermark_offsets(place, 20)[1] for it, place in places.items()}
        return {**ends, None: sum(ends.values())}
    finally:
        consumer.close()


def below(ends: dict[int | None, int], events: list[Event]) -> list[Event]:
    """Those of records that were there: 45 s after it has loaded a history the broker finds that its members are
    gone, and writes so, which one reader may see and the other not yet."""
    return [it for it in events if (it["offset"] or 0) < ends[it["partition"]]]


def events_of(servers: str, topic: str) -> list[Event]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        there = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, it, 0) for it in there])
        out: list[Event] = []
        left = sum(consumer.get_watermark_offsets(TopicPartition(topic, it), 20)[1] for it in there)
        while len(out) < left:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None, message.error()
            event = json.loads(message.value())
            assert message.key() == event["group"].encode()
            out.append(event)
        return out
    finally:
        consumer.close()


def stream_from(broker: EmbeddedBroker, directory: Path) -> list[str]:
    """The mirror as a stream, in several batches, whose events go to tables and to a topic."""
    source = ("--bootstrap-server", broker.bootstrap_servers, *LOCAL)
    stream = [KSHADOW, "spark", "stream", "--reads", "topic", *source, "--available-now", "--max-records", "15000"]
    stream += ["--out", str(directory / "stream"), "--checkpoint", str(directory / "checkpoint")]
    return [*stream, "--events-topic", directory.name]


@pytest.mark.thorough  # its parts are tried by themselves: streams, submitting
@pytest.mark.timeout(600)  # a start of Spark, on two cores that others use too
@pytest.mark.usefixtures("kafka")
def test_a_stream_tells_what_replay_does(broker: EmbeddedBroker, tmp_path: Path) -> None:
    ends = ends_of(broker.bootstrap_servers)
    ended = subprocess.run(stream_from(broker, tmp_path), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    expected = below(ends, replayed_as_by_spark(broker))
    found = difference(expected, below(ends, written(tmp_path / "stream")))
    print(f"stream from a broker: {found}")
    assert found.is_none
    in_topic = below(ends, events_of(broker.bootstrap_servers, tmp_path.name))
    assert difference(expected, in_topic).is_none, "those in the topic"


@pytest.mark.thorough
@pytest.mark.timeout(900)  # several starts of Spark, on two cores that others use too
@pytest.mark.usefixtures("kafka")
def test_so_do_a_stream_that_is_started_again_and_a_batch(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source = ("--bootstrap-server", broker.bootstrap_servers, *LOCAL)
    batch = [KSHADOW, "spark", "backfill", *source, "--out", str(tmp_path / "batch")]
    subprocess.run(batch, check=True, stderr=subprocess.DEVNULL)
    subprocess.run(stream_from(broker, tmp_path), check=True, stderr=subprocess.DEVNULL)
    again = subprocess.run(stream_from(broker, tmp_path), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    expected = replayed_as_by_spark(broker)
    for way in ("batch", "stream"):
        found = difference(expected, written(tmp_path / way))
        print(f"{way} from a broker: {found}")
        assert found.is_none, way
    assert difference(expected, events_of(broker.bootstrap_servers, tmp_path.name)).is_none, "those in the topic"


@pytest.mark.thorough
@pytest.mark.timeout(600)  # a start of Spark, on two cores that others use too
@pytest.mark.usefixtures("kafka")
def test_events_of_more_than_a_megabyte_come_to_the_topic(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Each start of the stream failed at the same one."""
    if not jars():
        pytest.skip("no job has downloaded Spark's Kafka connector yet")
    program = [sys.executable, "-m", "tests.harness.spark.large_events", broker.bootstrap_servers, tmp_path.name]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    taken, refused = ended.stdout.splitlines()
    assert taken == "written: 3617781 bytes"
    assert "an event is larger than the topic of --events-topic takes (raise its max.message.bytes" in refused


@pytest.mark.thorough
@pytest.mark.timeout(600)  # a start of Spark, on two cores that others use too
@pytest.mark.usefixtures("kafka")
def test_spark_still_hides_internal_topics(broker: EmbeddedBroker) -> None:
    """Where it no longer does, `useDeprecatedOffsetFetching` goes from spark_jobs/session.py, and this test."""
    if not jars():
        pytest.skip("no job has downloaded Spark's Kafka connector yet")
    program = [sys.executable, "-m", "tests.harness.spark.internal_topics", broker.bootstrap_servers]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    read = json.loads(ended.stdout.splitlines()[-1])
    assert read["true"] > 0
    assert read["false"] == 0, "Spark reads __consumer_offsets by its Admin client now: the setting is of no use"
