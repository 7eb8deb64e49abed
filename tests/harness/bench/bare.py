"""The loop that nobody can beat: `consume` over the whole topic, with kshadow's settings and no decoding.

Run as a process of its own: `python -m tests.harness.bench.bare BOOTSTRAP`; prints one JSON line when every
partition's end was reached. `--dict` also keeps the newest value by raw key.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from agent.kafka.source.client import consumer_properties
from agent.kafka.source.topic import BATCH_RECORDS

TOPIC = "__consumer_offsets"


def main(bootstrap_servers: str, *, keep: bool) -> None:
    """Read, and say how long it took."""
    started = time.monotonic()
    records = read(bootstrap_servers, keep=keep)
    print(json.dumps({"records": records, "seconds": time.monotonic() - started}), flush=True)


def read(bootstrap_servers: str, *, keep: bool = False) -> int:
    """Read to the end of every partition: how many records."""
    consumer = Consumer(consumer_properties({"bootstrap.servers": bootstrap_servers}))
    count = len(consumer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(count)])
    ended: set[int] = set()
    records = 0
    latest: dict[object, object] = {}
    while len(ended) < count:
        for message in consumer.consume(BATCH_RECORDS, 0.05):
            error = message.error()
            if error is None:
                records += 1
                if keep:
                    latest[message.key()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                partition = message.partition()
                assert partition is not None, "an end has a partition"
                ended.add(partition)
    consumer.close()
    return records


if __name__ == "__main__":
    main(sys.argv[1], keep="--dict" in sys.argv)
