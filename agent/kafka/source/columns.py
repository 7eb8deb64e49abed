"""Messages of confluent-kafka → `Run`s.

Owns the conversion, the hottest lines of the live path: everything here goes through C-level maps, and what
most records never need, their offset, is taken out when asked for. Refuses to know where messages come
from and what errors are: it gets real records only.
"""

from __future__ import annotations

from itertools import groupby

from confluent_kafka import Message

from agent.core.records import OffsetColumn, RecordBatch


def record_batches_of(messages: list[Message]) -> list[RecordBatch]:
    """Messages without errors, in the order they came, as runs of one partition each."""
    runs = []
    for partition, group in groupby(messages, Message.partition):
        assert partition is not None, "a record from a topic has a partition"
        rows = list(group)
        runs.append(
            RecordBatch(
                partition,
                OffsetColumn(rows, Message.offset),  # type: ignore[arg-type]  # a record from a topic has an offset
                # Without one librdkafka gives -1, which is `agent.kafka.source.NO_TIMESTAMP_MS`.
                [timestamp_ms for _, timestamp_ms in map(Message.timestamp, rows)],
                list(map(Message.key, rows)),
                list(map(Message.value, rows)),
                OffsetColumn(rows, _leader_epoch),
            )
        )
    return runs


def _leader_epoch(message: Message) -> int:
    """-1 where the broker tells none."""
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
