"""Records → the `__consumer_offsets` topic of a broker, as if its groups had written them.

Owns the producer and what its errors mean. Clients whose id is `__admin_client` may write into the topic (Kafka's
`AdminUtils`); for all others the broker refuses internal topics.

A broker reads the topic into its group coordinator only as it becomes a partition's leader. So a running one does not
see the groups that were written behind its back until it is restarted or the leadership of the partitions moves
(`EmbeddedBroker.restart`, which keeps its directory, does it in tests); until then Kafka 4.x logs "Execution of
HighWatermarkUpdate failed" for each batch. Readers of the topic see the records at once.

After loading them the broker treats them as its own: members that do not heartbeat are removed when their session
timeout is over, and the offsets of a group without members expire `offsets.retention.minutes` (7 days) after they
were committed, so a history that is to be seen there must be recent. Records from more than an hour ahead are refused
(`message.timestamp.after.max.ms`).

The producer is not idempotent, and must not be: a broker that loads an offset commit takes a producer id in its
batch, transactional or not, to mean that the commit waits for the end of a transaction. One request at a time keeps
the order; one that is sent again after a lost answer writes its records twice, which changes no group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agent.core.records import RawRecord
from agent.kafka.client import (
    OWN_CREDENTIALS,
    RIGHT_CREDENTIALS,
    RecordProducer,
    Undelivered,
    is_login_failure,
    kafka_errors,
    led_partitions,
    new_admin_client,
    new_consumer,
    quiet,
    refused_properties,
)
from agent.kafka.writer import TOPIC, Written
from agent.kafka.writer.errors import (
    PartitionCountDiffers,
    RecordRefused,
    SinkDenied,
    SinkError,
    SinkMisconfigured,
    SinkUnreachable,
    TopicMissing,
)

_FIXED: Mapping[str, str] = {
    "client.id": "__admin_client",
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
}
_DEFAULTS: Mapping[str, str] = {
    "linger.ms": "50",
    "batch.num.messages": "10000",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
    "message.timeout.ms": "60000",
}
_POLL_EVERY = 10_000
_ASK_S = 5.0
_NOBODY = "kshadow"  # the group whose coordinator is asked for; it is not made
_REFUSED = {KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD, KafkaError.MSG_SIZE_TOO_LARGE}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: f"ACL operations Write and Describe on topic {TOPIC}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: f"ACL operation Describe on the group {_NOBODY}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ACL operations Create and Describe on the cluster",
    **RIGHT_CREDENTIALS,
}


def partition_count(conf: Mapping[str, str], *, create: bool = False, timeout_s: float = 30.0) -> int:
    """How many partitions the cluster's `__consumer_offsets` has: what records must be placed for.

    `create` makes the broker create a topic that is not there, with the partitions of its own settings, by asking
    for a group's coordinator. Raises `SinkUnreachable`, `TopicMissing`, `SinkDenied`, `SinkMisconfigured`.
    """
    with kafka_errors(_misconfigured):
        admin = new_admin_client(quiet(conf))
    deadline = time.monotonic() + timeout_s
    while True:
        with kafka_errors(partial(_classify, doing=f"asking for the partitions of {TOPIC}")):
            count = led_partitions(admin, TOPIC, max(deadline - time.monotonic(), 0.1))
        if count:
            return count
        if count is None and not create:
            raise TopicMissing(
                f"expected topic {TOPIC}, the cluster has none, or does not show it (ACL operation Describe); it is"
                " made when the first consumer group asks for its coordinator"
            )
        if time.monotonic() > deadline:
            raise SinkUnreachable(f"topic {TOPIC}: expected a leader for each partition within {timeout_s:g} seconds")
        if create:
            _ask_for_coordinator(conf, min(max(deadline - time.monotonic(), 0.1), _ASK_S))
        time.sleep(0.1)


def write_topic(
    records: Iterable[RawRecord], conf: Mapping[str, str], *, placed_for: int, create: bool = False
) -> Written:
    """Produce the records to the partitions and with the timestamps that they have; returns when all are there.

    `conf` are properties of librdkafka, `bootstrap.servers` at least; `placed_for` is the number of partitions by
    which the records' partitions were chosen. Gives up when the first record is not taken, which is after
    `message.timeout.ms` (60 s) where nobody answers. `size_bytes` is that of keys and values. Raises
    `PartitionCountDiffers`, `RecordRefused` and what `partition_count` raises.
    """
    producer = _producer(conf)
    count = partition_count(conf, create=create)
    if count != placed_for:
        raise PartitionCountDiffers(
            f"topic {TOPIC}: expected {placed_for} partitions, for which the records were placed, it has {count};"
            f" place them for {count}"
        )
    try:
        return _write(records, producer, count)
    except Undelivered as lost:
        text = f"{lost.failed} of {lost.count} records not written, first in partition {lost.partition}"
        raise _classify(lost.error, f"writing to {TOPIC}: {text}") from lost


def _producer(conf: Mapping[str, str]) -> RecordProducer:
    for name, value in _FIXED.items():
        if conf.get(name, value) != value:
            raise SinkMisconfigured(f"property {name}: kshadow needs {value!r} to write groups, got {conf[name]!r}")
    with kafka_errors(_misconfigured):
        return RecordProducer(TOPIC, {**quiet(_DEFAULTS), **conf, **_FIXED})


def _write(records: Iterable[RawRecord], producer: RecordProducer, count: int) -> Written:
    size = 0
    partitions = set()
    for partition, _, timestamp_ms, key, value, control in records:
        if control or key is None or timestamp_ms <= 0 or partition >= count:
            # A compacted topic takes no record without a key; 0 means "now" to librdkafka.
            came = "a transaction marker" if control else f"timestamp {timestamp_ms}, key {key!r}"
            raise RecordRefused(
                f"partition {partition}: expected a group's record with a key and a time, in a partition below"
                f" {count}, got {came}"
            )
        try:
            producer.produce(partition, key, value, timestamp_ms)
        except KafkaException as error:
            raise _classify(error.args[0], f"writing to {TOPIC}, partition {partition}") from error
        partitions.add(partition)
        size += len(key) + len(value or b"")
        if producer.count % _POLL_EVERY == 0:
            producer.check()
    producer.flush()
    return Written(producer.count, len(partitions), size)


def _ask_for_coordinator(conf: Mapping[str, str], timeout_s: float) -> None:
    """By a consumer, which asks again and again. An Admin client asks three times at once and then waits for a broker
    to come or go; where its time is over by then, librdkafka ends the process (confluentinc/librdkafka#4605)."""
    with kafka_errors(_misconfigured):
        consumer = new_consumer({**quiet(conf), "group.id": _NOBODY})
    try:
        with suppress(KafkaException):
            consumer.committed([TopicPartition(TOPIC, 0)], timeout_s)
        said = consumer.poll(0)
    finally:
        consumer.close()
    error = None if said is None else said.error()
    if error is not None and error.code() in _DENIED:
        raise _classify(error, f"asking for a coordinator, which makes {TOPIC}")


def _misconfigured(error: KafkaError) -> SinkError:
    if is_login_failure(error):
        return SinkDenied(error.str(), right=OWN_CREDENTIALS)
    return SinkMisconfigured(refused_properties(error))


def _classify(error: KafkaError, doing: str) -> SinkError:
    message = f"{doing}: {error.str()}"
    if error.code() in _REFUSED:
        return RecordRefused(f"{message} (a time of more than an hour ahead, or more than message.max.bytes?)")
    right = _DENIED.get(error.code())
    return SinkUnreachable(message) if right is None else SinkDenied(message, right=right)
