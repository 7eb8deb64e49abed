"""What is to be learned of open transactions: when one began, for which group, and by which transactional id.

Owns two questions, each with a client of its own that lives for its answer. Keeps nothing; when what is asked is for
`agent.runtime.transaction_watch`.

The transactional id stands in the coordinator's own log, `__transaction_state`, of which only what was written since
shortly before the transaction's beginning is read. Read and Describe on that topic are needed for it, and nothing
else hangs on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from agent.core.open_transactions import OpenTransaction
from agent.core.wire.errors import WireError
from agent.core.wire.transaction_state import decode_transaction_state
from agent.kafka.client import kafka_errors, new_consumer, quiet
from agent.kafka.source import TOPIC
from agent.kafka.source.client import classify, consumer_properties, misconfigured
from agent.kafka.source.cluster import LATEST, leaders, offsets_at
from agent.kafka.source.errors import SourceUnreachable
from agent.kafka.source.group_locator import group_of_key

STATE_TOPIC = "__transaction_state"
NEEDED = f"ACL operation Read on topic {STATE_TOPIC}"
"""The right to learn transactional ids; Describe comes with it."""
TIMEOUT_S = 5.0
MARGIN_MS = 60_000
"""A partition is entered in a transaction's state right before its first record is written: so long before that is
looked, since the time is of a record, and a broker's clock is its own."""
MAX_STATES = 200_000
"""Records of the coordinator's log that are read at most: with so many transactions a minute, none is named."""
MAX_IDS = 5
"""Transactional ids that are named of those that may be a partition's."""
_POLL_S = 0.1


def first_records(conf: Mapping[str, str], offsets: Mapping[int, int], now_ms: int) -> dict[int, OpenTransaction]:
    """What the first records of open transactions say, by partition; `offsets` are those of these records.

    A record's time is what its writer says, and no later than `now_ms`. A partition of which no record came within
    `TIMEOUT_S` is absent. Raises `SourceError`.
    """
    found: dict[int, OpenTransaction] = {}
    with closing(_consumer(conf)) as consumer:
        consumer.assign([TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()])
        for message in _messages(consumer, TOPIC):
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None or partition in found or message.error() is not None:
                continue
            written_ms = message.timestamp()[1]
            since_ms = min(written_ms, now_ms) if written_ms >= 0 else now_ms
            found[partition] = OpenTransaction(offsets[partition], since_ms, group_of_key(message.key()))
            if len(found) == len(offsets):
                break
            # Its other records are not wanted.
            consumer.pause([TopicPartition(TOPIC, partition)])
    return found


def transactional_ids(conf: Mapping[str, str], since_ms: Mapping[int, int]) -> dict[int, tuple[str, ...]]:
    """Which transactions are open in each partition, by their coordinators' word, the oldest first.

    `since_ms`: when the oldest of each partition began, at the latest. Raises `SourceError`: `SourceDenied` where
    `NEEDED` is missing.
    """
    states: dict[str, tuple[int, frozenset[int]]] = {}
    with closing(_consumer(conf)) as consumer:
        numbers = leaders(consumer, STATE_TOPIC, TIMEOUT_S)
        ends = offsets_at(consumer, STATE_TOPIC, numbers, LATEST, TIMEOUT_S)
        starts = offsets_at(consumer, STATE_TOPIC, numbers, max(min(since_ms.values()) - MARGIN_MS, 0), TIMEOUT_S)
        left = {number for number, start in starts.items() if 0 <= start < ends[number]}
        consumer.assign([TopicPartition(STATE_TOPIC, number, starts[number]) for number in left])
        read = 0
        for message in _messages(consumer, STATE_TOPIC) if left else ():
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:
                continue
            if message.error() is None:
                _take_state(message, states)
                read += 1
            if offset + 1 >= ends[partition]:
                left.discard(partition)
            if not left:
                break
            if read > MAX_STATES:
                raise SourceUnreachable(f"{STATE_TOPIC}: expected at most {MAX_STATES} records to read, got more")
        else:
            if left:
                raise SourceUnreachable(f"{STATE_TOPIC}: expected its records within {TIMEOUT_S:g} s, got some")
    found: dict[int, tuple[str, ...]] = {}
    for partition in since_ms:
        open_there = sorted((start, name) for name, (start, numbers_) in states.items() if partition in numbers_)
        found[partition] = tuple(name for _, name in open_there[:MAX_IDS])
    return found


def _take_state(message: Message, states: dict[str, tuple[int, frozenset[int]]]) -> None:
    """Keep a transactional id's newest state, where it is open in the offsets topic."""
    key, value = message.key(), message.value()
    with suppress(WireError):
        name, state = decode_transaction_state(_bytes(key), _bytes(value))
        partitions = frozenset() if state is None else frozenset(state.partitions_of(TOPIC))
        if state is not None and partitions:
            states[name] = (state.transaction_start_timestamp_ms, partitions)
        else:
            states.pop(name, None)


def _bytes(it: object) -> bytes | None:
    return it if isinstance(it, bytes) else None


def _consumer(conf: Mapping[str, str]) -> Consumer:
    own = {
        "isolation.level": "read_uncommitted",
        # One record of each partition is wanted, or a few.
        "queued.min.messages": "1000",
        "queued.max.messages.kbytes": "2048",
        "fetch.message.max.bytes": "65536",
        "fetch.wait.max.ms": "100",
    }
    with kafka_errors(misconfigured):
        return new_consumer(quiet({**consumer_properties(conf), **own}))


def _messages(consumer: Consumer, topic: str) -> Iterator[Message]:
    """What comes of a topic, PARTITION_EOF included, for `TIMEOUT_S`. Raises `SourceDenied`."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for message in consumer.consume(500, _POLL_S):
            error = message.error()
            if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise classify(error, doing=f"reading {topic}", topic=topic, operation="Read")
            if message.topic() == topic:
                yield message
