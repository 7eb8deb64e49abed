"""Two questions to the cluster: which partitions are there, and where do they begin and end.

Owns the calls and the typed errors of their answers. Keeps nothing, and never waits longer than told.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition

from agent.kafka.client import kafka_errors
from agent.kafka.source.client import classify

# ListOffsets' special timestamps; librdkafka's offsets_for_times passes them on, one request for each leader.
EARLIEST, LATEST = -2, -1


def leaders(consumer: Consumer, topic: str, timeout_s: float) -> dict[int, int]:
    """For each partition of the topic the broker that leads it, -1 if none does.

    Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`.
    """
    with kafka_errors(partial(classify, doing=f"asking for the partitions of {topic}", topic=topic)):
        metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
    return {number: partition.leader for number, partition in metadata.partitions.items()}


def offsets_at(
    consumer: Consumer, topic: str, partitions: Iterable[int], which: int, timeout_s: float
) -> dict[int, int]:
    """For each partition its first offset (`EARLIEST`), or the one behind its last (`LATEST`).

    A read_committed consumer's last is the last stable one. Raises as `leaders`.
    """
    doing = f"asking for the offsets of {topic}"
    asked = [TopicPartition(topic, partition, which) for partition in partitions]
    if not asked:
        return {}
    with kafka_errors(partial(classify, doing=doing, topic=topic)):
        answers = consumer.offsets_for_times(asked, timeout=timeout_s)
    for answer in answers:
        if answer.error is not None:
            raise classify(answer.error, doing=f"{doing}, partition {answer.partition}", topic=topic)
    return {answer.partition: answer.offset for answer in answers}
