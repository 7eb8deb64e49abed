"""Which log it is that is read: the cluster's id and the topic's id.

A topic that is deleted and made anew under its name has another id and begins at offset 0 again, so positions,
snapshots and event ids of the one say nothing of the other. Owns the question. A consumer does not learn topic ids,
so it is asked through an Admin client (Describe on the topic is all it needs). The cluster's id the consumer knows:
an Admin client's `list_topics(topic)` would create the topic, where brokers create topics by themselves, and
librdkafka ends the process when `describe_cluster` is answered by a broker that knows of no brokers, as one without
a lease does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicCollection

from agent.core.records import LogId
from agent.kafka.client import kafka_errors, new_admin_client, quiet
from agent.kafka.source.client import DEFAULTS, FIXED, classify, misconfigured
from agent.kafka.source.errors import SourceUnreachable

_URL_SAFE = str.maketrans("+/", "-_", "=")
_CONSUMER_ONLY = {*DEFAULTS, *FIXED} - {"client.id", "log_level"}


class IdentityClient:
    """Asks which log a topic is."""

    def __init__(self, consumer: Consumer, properties: Mapping[str, Any]) -> None:
        """`properties` are the consumer's; what an Admin client has no use for is left out."""
        self._consumer = consumer
        mine = {name: value for name, value in properties.items() if name not in _CONSUMER_ONLY}
        with kafka_errors(misconfigured):
            self._admin = new_admin_client(quiet(mine))

    def ask(self, topic: str, timeout_s: float) -> LogId:
        """The topic's log as of now. Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`."""
        doing = f"asking which log {topic} is"
        try:
            with kafka_errors(partial(classify, doing=doing, topic=topic)):
                described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)[topic]
                cluster_id = self._consumer.list_topics(topic, timeout=timeout_s).cluster_id
                topic_id = str(described.result(timeout_s + 1).topic_id)
        except TimeoutError as error:
            raise SourceUnreachable(f"{doing}: expected an answer within {timeout_s:g} s, got none") from error
        # librdkafka writes plain base64, Kafka and its tools the form for URLs.
        return LogId(str(cluster_id), topic_id.translate(_URL_SAFE))

    def close(self) -> None:
        """Let go of the connections of its own."""
        with self._admin:
            return
