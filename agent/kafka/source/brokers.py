"""Who coordinates what: the partitions of the topic and the brokers that lead them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import BrokerMetadata, ClusterMetadata  # type: ignore[attr-defined]

from agent.kafka.client import NO_SUCH_TOPIC, ignore_error, kafka_errors, new_admin_client, new_consumer, quiet
from agent.kafka.source import TOPIC
from agent.kafka.source.client import classify, consumer_properties, misconfigured

TIMEOUT_S = 10.0
PROBE_S = 3.0
"""For a question that only spares a reader a start."""


class TopicMetadata(NamedTuple):
    """How many partitions the topic has, for each the broker that leads it (absent if none does), and the cluster's
    id."""

    partitions: int
    leaders: dict[int, BrokerMetadata]
    cluster_id: str | None


def topic_metadata(conf: Mapping[str, str]) -> TopicMetadata:
    """Ask for the topic.

    Needs Describe on the topic. Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`, `SourceMisconfigured`.
    """
    metadata = _metadata(conf, [TOPIC])[TOPIC]
    found = metadata.topics[TOPIC]
    if found.error is not None:
        raise classify(found.error, doing=f"asking for the partitions of {TOPIC}", topic=TOPIC)
    leaders = {number: metadata.brokers.get(it.leader) for number, it in found.partitions.items()}
    led = {number: broker for number, broker in leaders.items() if broker is not None}
    return TopicMetadata(len(leaders), led, metadata.cluster_id)


def require_topic(conf: Mapping[str, str]) -> None:
    """Raise `TopicMissing` where the cluster says that it has none; whatever else is wrong, who reads finds out.

    By an Admin client: every consumer with a group asks for its coordinator of itself, which makes the topic.
    Raises `SourceMisconfigured`, `SourceDenied` where no client can be made.
    """
    with kafka_errors(misconfigured):
        admin = new_admin_client(quiet({"client.id": "kshadow", **conf, "error_cb": ignore_error}))
    with admin:
        try:
            asked = admin.describe_topics(TopicCollection([TOPIC]), request_timeout=PROBE_S)
            asked[TOPIC].result(2 * PROBE_S)
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException) and error.args[0].code() in NO_SUCH_TOPIC:
                raise classify(error.args[0], doing="asking for the offsets topic", topic=TOPIC) from error


def partition_counts(conf: Mapping[str, str], topics: Collection[str]) -> dict[str, int]:
    """How many partitions topics have; those that do not exist, or may not be described, are not in the answer.

    Raises `SourceUnreachable`, `SourceDenied`, `SourceMisconfigured`.
    """
    found = {topic: metadata.topics[topic] for topic, metadata in _metadata(conf, topics).items()}
    return {topic: len(it.partitions) for topic, it in found.items() if it.error is None}


def _metadata(conf: Mapping[str, str], topics: Collection[str]) -> dict[str, ClusterMetadata]:
    """The cluster's metadata, for each topic asked anew."""
    # What the connections said tells which broker, and why; the answer only that none came.
    said: list[KafkaError] = []
    out: dict[str, ClusterMetadata] = {}
    with kafka_errors(misconfigured):
        consumer = new_consumer({**consumer_properties(conf), "error_cb": said.append})
    with closing(consumer):
        for topic in topics:
            try:
                out[topic] = consumer.list_topics(topic, timeout=TIMEOUT_S)
            except KafkaException as error:
                consumer.poll(0)  # serves error_cb
                reason = next((it for it in said if it.code() != KafkaError._ALL_BROKERS_DOWN), error.args[0])
                raise classify(reason, doing=f"asking for the partitions of {topic}", topic=topic) from error
    return out
