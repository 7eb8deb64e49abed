"""A broker whose offsets topic is full of hostile names: by clients, and by records that no coordinator wrote."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.core.protocol.hashing import partition_for_group
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs

PARTITIONS = 4
PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0"}

EVERY = {
    **TEXTS,
    **LETTERS,
    "17 is for Prometheus": 'a"b\\c\nd\\n{x="1"} 5 # {} 6\r# EOF',
    "18 is the longest": "\x1b" * 32_764,  # and three more in a KIP-848 group's name
    "19 is a path": "../../..//etc/passwd?x#y%2e%00",
    "20 is blank": " \t ",
}

INVALID = [
    struct.pack(">hh", 1, 4) + b"\xff\xfe\x1b[" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 0),
    struct.pack(">hh", 2, 3) + b"a\xc3\x28",
    b"\x00\x63\x1b[2J\nkey of an unknown type",
    b"\x1b]0;owned\x07",
    struct.pack(">hh", 2, 6) + b"\xed\xa0\x80abc",  # a surrogate, as no UTF-8 has it
]
"""Keys that are no text, or nothing at all."""


@dataclass
class Stage:
    bootstrap: str
    log_dir: Path
    joined: list[str]
    """Groups that clients made, with members still there."""
    written: list[str]
    """Groups that are in the topic only."""


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    jars = fetch_jars()
    with EmbeddedBroker(jars, directory=directory, properties=PROPERTIES) as broker:
        bootstrap = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 4)])["orders"].result(20)
        # What a client's configuration can hold: no NUL, and names that the broker takes.
        joining = [text for text in EVERY.values() if "\x00" not in text and text.strip() and len(text) < 10_000]
        stop = threading.Event()
        joined: list[str] = []
        threads = [
            threading.Thread(target=consume, args=(bootstrap, text, protocol, stop, joined))
            for text in joining
            for protocol in ("classic", "consumer")
        ]
        for thread in threads:
            thread.start()
        try:
            deadline = time.monotonic() + 180
            while len(joined) < len(threads):
                assert time.monotonic() < deadline, (len(joined), len(threads))
                assert all(it.is_alive() for it in threads), "a client has failed"
                time.sleep(0.1)
            written = write(bootstrap)
            yield Stage(bootstrap, broker.log_dirs[0], sorted(joined), written)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def consume(bootstrap: str, text: str, protocol: str, stop: threading.Event, joined: list[str]) -> None:
    """A member of a group, with `text` wherever a client may put it."""
    group = f"{text} {protocol}"
    more = {"group.protocol": protocol, **({"session.timeout.ms": 10_000} if protocol == "classic" else {})}
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": text, "log_level": 0, **more}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    metadata = text[:1000]
    while not stop.is_set():
        consumer.poll(0.2)
        assignment = consumer.assignment()
        if assignment and group not in joined:
            committed = [TopicPartition(it.topic, it.partition, 0, metadata=metadata) for it in assignment]
            try:
                consumer.commit(offsets=committed, asynchronous=False)
            except KafkaException as error:
                # Of a cluster that has just begun, as a coordinator that still loads: the next turn commits.
                if not error.args[0].retriable() and error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                continue
            joined.append(group)
    consumer.close()


def write(bootstrap: str) -> list[str]:
    """Records of every text, as Kafka's own tools may write them (`__admin_client`), and keys that are no text."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "log_level": 0})

    def put(key: bytes, value: bytes | None, partition: int) -> None:
        producer.produce(
            "__consumer_offsets",
            key=key,
            value=value,
            partition=partition,
            on_delivery=lambda error, message: refused.append(error) if error else None,
        )

    groups = []
    for text in EVERY.values():
        records = pairs(text)
        for group, own in ((text, records[:4]), (f"{text}848", records[4:])):
            groups.append(group)
            for key, value in own:
                put(key, value, partition_for_group(group, PARTITIONS))
    for number, key in enumerate(INVALID * 20):
        put(key, b"\x1b[2J\n", number % PARTITIONS)
    assert producer.flush(20) == 0
    assert not refused
    return sorted(groups)
