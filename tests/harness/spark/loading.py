"""A real broker with a given history of groups: segment files put in place of its own while it is stopped."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from agent.kafka.source.segments import TOPIC
from agent.kafka.writer.topic import partition_count
from agent.tools.embedded.broker import EmbeddedBroker


def properties(partitions: int) -> dict[str, str]:
    """With which a broker adds and removes as little as can be, however old the history is."""
    return {
        "offsets.retention.minutes": "2147483647",
        "offsets.topic.num.partitions": str(partitions),
        "log.message.timestamp.before.max.ms": "9223372036854775807",
        "log.cleaner.enable": "false",
    }


def give(broker: EmbeddedBroker, history: Path) -> None:
    """Load the segments of a directory of partitions, offsets and all; returns when the broker adds nothing more."""
    conf = {"bootstrap.servers": broker.bootstrap_servers}
    partitions = partition_count(conf, create=True)
    # A partition has a leader a moment before it has a directory with its topic's id.
    while len(list(broker.log_dirs[0].glob(f"{TOPIC}-*/partition.metadata"))) < partitions:
        time.sleep(0.1)
    broker.kill()
    for partition in history.iterdir():
        theirs = broker.log_dirs[0] / partition.name
        for pattern in ("*.log", "*.index", "*.timeindex", "*.snapshot", "*.checkpoint", "leader-epoch-checkpoint"):
            for file in theirs.glob(pattern):
                file.unlink()
        for segment in partition.iterdir():
            (theirs / segment.name).write_bytes(segment.read_bytes())
    broker.restart()
    still_for(conf, 20)


def still_for(conf: dict[str, str], seconds: float, timeout_s: float = 120) -> None:
    """Wait until nothing was written for so long."""
    deadline = time.monotonic() + timeout_s
    ends, since = [], time.monotonic()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline, f"still written to after {timeout_s} s"
        time.sleep(1)
        try:
            now = ends_of(conf)
        except KafkaException:  # a broker that has just started does not lead all of them yet
            now = []
        if now != ends or not now:
            ends, since = now, time.monotonic()


def ends_of(conf: dict[str, str]) -> list[int]:
    consumer = Consumer({**conf, "group.id": "nobody", "enable.auto.commit": False, "log_level": 0})
    try:
        partitions = sorted(consumer.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions)
        return [consumer.get_watermark_offsets(TopicPartition(TOPIC, it), 20)[1] for it in partitions]
    finally:
        consumer.close()
