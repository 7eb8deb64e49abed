"""What can happen to `__consumer_offsets` under a reader: deleted and made anew, compacted, its beginning gone.

All by what an operator can do, and on real brokers: each function returns when it has happened.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from agent.core.protocol.hashing import partition_for_group
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.tools.embedded import EmbeddedBroker
from tests.waiting import until

TOPIC = "__consumer_offsets"

PROPERTIES = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "0",
}
"""A broker that cleans and deletes at once, and not every few seconds or minutes."""

_LATER = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
)

Kafka = EmbeddedBroker


def admin_of(kafka: Kafka) -> AdminClient:
    """One that may do everything."""
    return AdminClient({"bootstrap.servers": kafka.admin_servers, "log_level": 0})


def commit(consumer: Consumer, *offsets: TopicPartition) -> None:
    """Commit; again where a coordinator has still to load its partition, as after the topic was made."""
    until(lambda: _takes_commit(consumer, *offsets), said="a coordinator takes the commit")


def create(kafka: Kafka, partitions: int, replicas: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Make the topic, as the first group that asks for its coordinator does. Groups find their coordinators only if
    `partitions` is the brokers' `offsets.topic.num.partitions`."""
    config = {"cleanup.policy": "compact", "compression.type": "producer", **(config or {})}
    admin = admin_of(kafka)
    for made in admin.create_topics([NewTopic(TOPIC, partitions, replicas, config=config)]).values():
        made.result(20)
    until(lambda: _led(admin) == partitions, said="every partition has a leader")


def delete(kafka: Kafka) -> None:
    """Delete the topic, with all groups in it. Kafka 3.9 and 4.3 do that as with any other."""
    admin = admin_of(kafka)
    for gone in admin.delete_topics([TOPIC]).values():
        gone.result(20)
    until(lambda: TOPIC not in admin.list_topics(timeout=10).topics, said="the topic is gone")


def recreate(kafka: Kafka) -> None:
    """Delete it and make it anew, with as many partitions: the name is the same, the topic is another."""
    topic = admin_of(kafka).list_topics(TOPIC, timeout=10).topics[TOPIC]
    delete(kafka)
    create(kafka, len(topic.partitions), len(topic.partitions[0].replicas))


def topic_id(kafka: Kafka) -> str:
    """The topic's id, as Kafka prints it."""
    admin = admin_of(kafka)  # to be kept: without its client an answer never comes
    (described,) = admin.describe_topics(TopicCollection([TOPIC])).values()
    return str(described.result(20).topic_id)


@contextmanager
def configured(kafka: Kafka, **settings: str) -> Iterator[None]:
    """The topic with other settings (`segment_ms="50"`), and afterwards as before."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    admin = admin_of(kafka)
    before = _own_settings(admin)
    _alter(admin, {name: (AlterConfigOpType.SET, value) for name, value in named.items()})
    try:
        yield
    finally:
        # A setting that the topic did not have of its own is taken back to be the broker's.
        taken_back = dict.fromkeys(named, (AlterConfigOpType.DELETE, ""))
        _alter(admin, taken_back | {it: (AlterConfigOpType.SET, before[it]) for it in named if it in before})


def roll(kafka: Kafka, partitions: Collection[int]) -> dict[int, int]:
    """A new segment in each partition: cleaner and retention leave the one alone that is written to. For each
    partition an offset before which only older segments are. It takes a commit, of a group `filler-…`."""
    with configured(kafka, segment_ms="50"):
        return _nudge(kafka, partitions)


def compact(kafka: Kafka, partitions: Collection[int]) -> None:
    """Keep only the newest record of each key, and no tombstones, as far as the log goes now; on every replica."""
    settings = {"min_cleanable_dirty_ratio": "0.0", "delete_retention_ms": "0", "segment_ms": "50"}
    with configured(kafka, **settings):
        # A tombstone goes in the pass after the one that first saw it; that pass needs something to clean.
        for _ in range(2):
            ends = _nudge(kafka, partitions)
            until(lambda ends=ends: _cleaned(kafka, ends), said="the cleaner has been there")  # type: ignore[misc]


def delete_segments(kafka: Kafka, partitions: Collection[int]) -> dict[int, int]:
    """Every record that is there now is gone, as by retention; the offsets that the partitions begin with then.

    DeleteRecords, which could leave some, is refused for internal topics (INVALID_TOPIC_EXCEPTION, 3.9 and 4.3).
    """
    ends = roll(kafka, partitions)
    with configured(kafka, cleanup_policy="delete", retention_bytes="1"):
        until(lambda: all(begin(kafka, it) >= at for it, at in ends.items()), said="old segments are gone")
    return {partition: begin(kafka, partition) for partition in partitions}


def begin(kafka: Kafka, partition: int) -> int:
    """The first offset of a partition."""
    return _offset(kafka, partition, OffsetSpec.earliest())


def end(kafka: Kafka, partition: int) -> int:
    """The offset behind a partition's last."""
    return _offset(kafka, partition, OffsetSpec.latest())


def offsets(kafka: Kafka, partition: int) -> list[int]:
    """The offsets of all records that are left in a partition."""
    last = end(kafka, partition)
    conf = {"bootstrap.servers": kafka.admin_servers, "group.id": "faults", "enable.partition.eof": True}
    # Without a commit: that would be one more record.
    conf |= {"enable.auto.commit": False, "isolation.level": "read_uncommitted", "log_level": 0}
    consumer = Consumer(conf)
    consumer.assign([TopicPartition(TOPIC, partition, begin(kafka, partition))])
    found: list[int] = []
    try:
        while last > 0:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None or message.offset() >= last:
                break
            found.append(message.offset())
    finally:
        consumer.close()
    return found


def _offset(kafka: Kafka, partition: int, spec: OffsetSpec) -> int:
    admin = admin_of(kafka)
    (found,) = admin.list_offsets({TopicPartition(TOPIC, partition): spec}).values()
    offset: int = found.result(20).offset
    return offset


def _led(admin: AdminClient) -> int:
    topic = admin.list_topics(timeout=10).topics.get(TOPIC)
    return sum(it.leader >= 0 for it in topic.partitions.values()) if topic is not None else 0


def _nudge(kafka: Kafka, partitions: Collection[int]) -> dict[int, int]:
    """Something written to each partition once its segment is old enough to be rolled; where they ended before.

    A group's commit, since 4.3 loads a partition's groups anew where it finds what its coordinator did not write; but
    where others write all the time, and the coordinator does nothing else, the same record as they do.
    """
    time.sleep(0.1)
    ends = {partition: end(kafka, partition) for partition in partitions}
    count = len(admin_of(kafka).list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)
    for partition in partitions:
        name = next(name for it in range(10**6) if partition_for_group(name := f"filler-{it}", count) == partition)
        conf = {"bootstrap.servers": kafka.admin_servers, "group.id": name, "log_level": 0}
        consumer = Consumer(conf)
        if not _commits(consumer, ends[partition]):
            _write_commit(kafka, name, partition, ends[partition])
        consumer.close()
    return ends


def _commits(consumer: Consumer, offset: int) -> bool:
    """Whether a commit was taken, of a few: its coordinator may never get to load the partition."""
    return any(_takes_commit(consumer, TopicPartition(TOPIC, 0, offset)) for _ in range(10))


def _takes_commit(consumer: Consumer, *offsets: TopicPartition) -> bool:
    try:
        consumer.commit(offsets=list(offsets), asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in _LATER:
            raise
        time.sleep(0.2)
        return False
    return True


def _write_commit(kafka: Kafka, group: str, partition: int, offset: int) -> None:
    """What the commit would have come to, by a name that brokers let write there."""
    conf = {"bootstrap.servers": kafka.admin_servers, "client.id": "__admin_client", "log_level": 2}
    producer = Producer(conf)
    value = commit_value(offset, round(time.time() * 1000))
    producer.produce(TOPIC, value, commit_key(group, TOPIC, 0), partition)
    assert producer.flush(20) == 0


def _cleaned(kafka: Kafka, ends: Mapping[int, int]) -> bool:
    """Whether every replica's cleaner came as far as that."""
    for directory in kafka.log_dirs:
        here = {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{TOPIC}-*")}
        if any(_checkpoint(directory).get(it, 0) < ends[it] for it in here & ends.keys()):
            return False
    return True


def _checkpoint(directory: Path) -> dict[int, int]:
    """Kafka's own note of where the cleaner goes on: version, count, then topic, partition, offset."""
    file = directory / "cleaner-offset-checkpoint"
    lines = [line.split() for line in file.read_text().splitlines()[2:]] if file.exists() else []
    return {int(partition): int(offset) for topic, partition, offset in lines if topic == TOPIC}


def _own_settings(admin: AdminClient) -> dict[str, str]:
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]).values()
    return {name: it.value for name, it in described.result(20).items() if it.source == 1}  # of the topic itself


def _alter(admin: AdminClient, settings: Mapping[str, tuple[AlterConfigOpType, str]]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=how) for name, (how, value) in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(20)
