"""Who coordinates what: the partitions of the topic and the brokers that lead them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from agent.kafka.source.client import classify, consumer_properties
from agent.kafka.source.errors import SourceMisconfigured


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as it advertises itself to this client."""

    broker_id: int
    host: str
    port: int


def coordinators(
    conf: Mapping[str, str], *, topic: str = "__consumer_offsets", timeout_s: float = 10.0
) -> tuple[int, dict[int, Broker]]:
    """How many partitions the topic has, and for each the broker that leads it (absent if none does).

    Needs Describe on the topic. Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`, `SourceMisconfigured`.
    """
    with _asking(conf, timeout_s) as metadata_of:
        metadata, found = metadata_of(topic)
    if found.error is not None:
        raise classify(found.error, doing=f"asking for the partitions of {topic}", topic=topic)
    brokers = {
        number: Broker(broker.id, broker.host, broker.port)
        for number, partition in found.partitions.items()
        if (broker := metadata.brokers.get(partition.leader)) is not None
    }
    return len(found.partitions), brokers


def partition_counts(conf: Mapping[str, str], topics: Collection[str], *, timeout_s: float = 10.0) -> dict[str, int]:
    """How many partitions topics have; those that do not exist, or may not be described, are not in the answer.

    Raises `SourceUnreachable`, `SourceDenied`, `SourceMisconfigured`.
    """
    with _asking(conf, timeout_s) as metadata_of:
        found = {topic: metadata_of(topic)[1] for topic in topics}
    return {topic: len(it.partitions) for topic, it in found.items() if it.error is None}


@contextmanager
def _asking(conf: Mapping[str, str], timeout_s: float) -> Iterator[Callable[[str], tuple[Any, Any]]]:
    """Asks for the metadata of a topic: the cluster's, and the topic's in it."""
    # What the connections said tells which broker, and why; the answer only that none came.
    said: list[KafkaError] = []
    properties: dict[str, object] = {**consumer_properties(conf), "error_cb": said.append}
    try:
        consumer = Consumer(properties)
    except KafkaException as error:
        raise SourceMisconfigured(f"librdkafka does not take the properties: {error.args[0].str()}") from error

    def metadata_of(topic: str) -> tuple[Any, Any]:
        try:
            metadata = consumer.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            consumer.poll(0)  # serves error_cb
            reason = next((it for it in said if it.code() != KafkaError._ALL_BROKERS_DOWN), error.args[0])
            raise classify(reason, doing=f"asking for the partitions of {topic}", topic=topic) from error
        return metadata, metadata.topics[topic]

    try:
        yield metadata_of
    finally:
        consumer.close()
