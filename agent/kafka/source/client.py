"""The properties of the librdkafka consumer, and its errors in our words.

Owns which settings are ours, which are only better defaults than librdkafka's, and what each error code means
for someone who has to grant a right or start a broker. Holds no connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from agent.kafka.client import (
    NO_SUCH_TOPIC,
    OWN_CREDENTIALS,
    RIGHT_CREDENTIALS,
    error_text,
    is_login_failure,
    refused_properties,
)
from agent.kafka.source import TOPIC
from agent.kafka.source.errors import SourceDenied, SourceError, SourceMisconfigured, SourceUnreachable, TopicMissing

# What the reader's correctness hangs on; a caller's value is refused.
FIXED: Mapping[str, str] = {
    "enable.auto.commit": "false",  # with explicit assignment the group is never joined; commit nothing either
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",  # readiness: see agent.kafka.source.topic
    "auto.offset.reset": "error",  # out of range is told, never silently skipped
    "isolation.level": "read_committed",
}

# Measured with 3 million offset commits in 50 partitions of a local broker (Kafka 4.3.1, librdkafka 2.16).
# librdkafka's own defaults: 7.5 s, 255 MB. These: 3.0 s, 60 MB, the same CPU.
DEFAULTS: Mapping[str, str] = {
    "client.id": "kshadow",
    "group.id": "kshadow",  # librdkafka wants one; it looks up its coordinator and does no more with it
    # A partition whose share of the queue is full waits this long (default 1000) before it fetches again,
    # even when the queue has long run empty. It is what makes a short queue slow: 62 s at the default.
    "fetch.queue.backoff.ms": "5",
    # A queued message costs some 400 bytes on top of its own 100, which the kbytes do not count: so the number
    # of messages (for each partition) is the limit that matters for small records.
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": "16384",
    "fetch.max.bytes": "4194304",  # a response becomes messages all at once
    # How long a broker that has nothing new waits with its answer (default 500). A start on a quiet topic sees two of
    # them: librdkafka asks for one partition at first, and for the others when that was answered.
    "fetch.wait.max.ms": "100",
    # Also what one zstd batch may be unpacked; a coordinator's batch is one of 1 MB unless brokers allow more.
    "receive.message.max.bytes": "33554432",
    "check.crcs": "true",  # damage is passed over where it is; unchecked, it stops a partition without a word
    # The reader reports errors itself, once; librdkafka would log each attempt to connect.
    "log_level": "2",
}

_NO_SUCH_OFFSET = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._LOG_TRUNCATION,  # the leader lost records that we read (KIP-320)
}


def consumer_properties(conf: Mapping[str, str]) -> dict[str, str]:
    """The caller's properties over our defaults, under what is fixed. Raises `SourceMisconfigured`."""
    for name, value in FIXED.items():
        if conf.get(name, value) != value:
            raise SourceMisconfigured(f"property {name}: kshadow needs {value!r}, got {conf[name]!r}")
    if not conf.get("bootstrap.servers") and not conf.get("metadata.broker.list"):
        raise SourceMisconfigured("property bootstrap.servers: expected host:port[,host:port…], got nothing")
    return {**DEFAULTS, **conf, **FIXED}


def misconfigured(error: KafkaError) -> SourceError:
    """Why a client was not made, in our words."""
    if is_login_failure(error):
        return SourceDenied(error.str(), right=OWN_CREDENTIALS)
    return SourceMisconfigured(refused_properties(error))


def is_lost_offset(error: KafkaError) -> bool:
    """Whether the offset to read from does not exist (any more)."""
    return error.code() in _NO_SUCH_OFFSET


def classify(error: KafkaError, *, doing: str, topic: str, operation: str = "Describe") -> SourceError:
    """The error in our words; `doing` says what was tried, and `operation` what it needs on the topic."""
    code, message = error.code(), f"{doing}: {error_text(error)}"
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return SourceDenied(message, right=f"ACL operation {operation} on topic {topic}")
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return SourceDenied(message, right="ACL operation Describe on the cluster")
    if code in RIGHT_CREDENTIALS:
        return SourceDenied(message, right=RIGHT_CREDENTIALS[code])
    if code in NO_SUCH_TOPIC:
        made = "; it is made when the first consumer group asks for its coordinator" if topic == TOPIC else ""
        return TopicMissing(f"{doing}: expected topic {topic}, the cluster has none{made}")
    return SourceUnreachable(message)
