"""Positions committed for a group that nobody is in."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient


def commit(admin: AdminClient, group: str, positions: Sequence[TopicPartition], timeout_s: float = 60) -> None:
    """Until the coordinator took them: one that is new refuses for a while, each position by itself."""
    deadline = time.monotonic() + timeout_s
    while True:
        asked = ConsumerGroupTopicPartitions(group, list(positions))
        answer = admin.alter_consumer_group_offsets([asked])[group].result(20)
        errors = [it.error for it in answer.topic_partitions if it.error is not None]
        if not errors:
            return
        assert time.monotonic() < deadline, errors
        time.sleep(0.2)
