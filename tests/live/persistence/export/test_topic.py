"""The topic sink on a real broker: what it makes, what it writes, and what it does when that fails."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from agent.core.events.events import Event
from agent.persistence.export.encoded_event import MAX_MESSAGE_BYTES, encode_event
from agent.persistence.export.errors import ExportMisconfigured, SinkDown
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.topic_sink import PARTITIONS, RETENTION_MS, TopicSink
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.kafka.writer.test_topic import acl, rules
from tests.unit.persistence.export.made import HOSTILE, event
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
}
GROUPS = [f"group-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture
def conf(broker: EmbeddedBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic() -> str:
    """A name of its own, also where a test is run again: the broker is the same."""
    return f"history-{next(_numbers)}"


_numbers = count()


def read(conf: dict[str, str], topic: str) -> list[Message]:
    """All records of a topic, partition by partition."""
    consumer = Consumer({**conf, "group.id": "test", "enable.auto.commit": "false", "log_level": "2",
                         "enable.partition.eof": "true", "fetch.message.max.bytes": "10000000"})  # fmt: skip
    out: list[Message] = []
    try:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, it, OFFSET_BEGINNING) for it in partitions])
        ended: set[int] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    out.append(message)
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(out, key=lambda it: (it.partition(), it.offset()))


def events_in(messages: Iterable[Message]) -> list[Event]:
    return [json.loads(it.value()) for it in messages]


def seen(messages: Iterable[Message]) -> tuple[Counter[int], dict[str, list[int]]]:
    """How often each number is there, and each group's numbers in the order in which they first appear."""
    counts: Counter[int] = Counter()
    first: dict[str, list[int]] = defaultdict(list)
    for it in events_in(messages):
        counts[it["offset"]] += 1
        if counts[it["offset"]] == 1:
            first[it["group"]].append(it["offset"])
    return counts, first


def assert_all_in_order(conf: dict[str, str], topic: str, expected: int, what: str) -> None:
    counts, first = seen(read(conf, topic))
    twice = sum(counts.values()) - len(counts)
    print(f"\n{what}: expected {expected}, seen {len(counts)}, duplicated {twice}")
    assert sorted(counts) == list(range(expected))
    for group, numbers in first.items():
        assert numbers == sorted(numbers), group


def some(first: int, count: int) -> list[Event]:
    return [event(number, GROUPS[number % len(GROUPS)]) for number in range(first, first + count)]


def test_the_topic_it_makes_and_the_records_in_it(conf: dict[str, str], topic: str) -> None:
    sink = TopicSink(conf, topic)
    now_ms = time.time_ns() // 1_000_000
    events = [
        *(event(number, name) for number, name in enumerate([*GROUPS, *HOSTILE])),
        event(100, None, type="finding"),
        event(101, None, type="finding", cluster=None),
        event(102, None, type="finding", cluster=None),
        event(103, "times", at_ms=now_ms - 3 * RETENTION_MS // 4),
        event(104, "times", at_ms=now_ms + 5 * 3_600_000),
        event(105, "times", at_ms=0),
        event(106, "times", at_ms=-5),
        event(
            107, "large", numbers={"large": "".join(random.choices("abcdefghij", k=MAX_MESSAGE_BYTES - 1_000_000))}
        ),
    ]
    events = [
        {**it, "at_ms": now_ms} if it["at_ms"] > 1_790_000_000_000 and it["offset"] < 103 else it for it in events
    ]
    batch = tuple(encode_event(it, 0) for it in events)
    assert sink.write(batch) == []
    sink.close()

    messages = read(conf, topic)
    got = events_in(messages)
    assert sorted(got, key=lambda it: it["offset"]) == sorted(events, key=lambda it: it["offset"])
    by_number = {it["offset"]: message for it, message in zip(got, messages, strict=True)}
    for line, made in zip(batch, events, strict=True):
        message = by_number[made["offset"]]
        assert message.key() == line.key
        assert message.value() == line.body
        assert message.headers() == [("type", made["type"].encode()), ("schema", b"1")]
    assert by_number[101].key() is None
    assert by_number[101].partition() == by_number[102].partition(), "in order too"
    assert by_number[100].key() == b"c"
    times = [by_number[number].timestamp()[1] for number in (103, 104, 105, 106)]
    assert times[0] == events[-5]["at_ms"]
    assert all(abs(it - now_ms) < 60_000 for it in times[1:]), "what is no time, or ahead of us, is now"

    admin = AdminClient({**conf, "log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(20)
    assert len(admin.list_topics(timeout=20).topics[topic].partitions) == PARTITIONS
    assert [entries[it].value for it in ("cleanup.policy", "retention.ms", "max.message.bytes")] == [
        "delete", str(30 * 86_400_000), str(MAX_MESSAGE_BYTES),
    ]  # fmt: skip


def test_partitions_are_chosen_as_javas_producer_does(broker: EmbeddedBroker, conf: dict[str, str]) -> None:
    sink = TopicSink(conf, "java")
    sink.write(tuple(encode_event(it, 0) for it in some(0, 20)))
    ours = {message.key(): message.partition() for message in read(conf, "java")}
    # murmur2 of the key, positive, modulo: what its DefaultPartitioner does.
    assert ours == {name.encode(): (murmur2(name.encode()) & 0x7FFFFFFF) % PARTITIONS for name in GROUPS}


def murmur2(data: bytes) -> int:
    """`org.apache.kafka.common.utils.Utils.murmur2`."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_without_a_topic_and_without_leave_to_make_it(conf: dict[str, str]) -> None:
    batch = tuple(encode_event(it, 0) for it in some(0, 3))
    with pytest.raises(SinkDown, match=r"expected topic absent, the cluster has none, .*create it: kafka-topics.sh"):
        TopicSink(conf, "absent", create=False).write(batch)
    denied = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, AclPermissionType.DENY)
    # The broker itself is the same user: what it needs stays allowed.
    others = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    shown = acl(ResourceType.TOPIC, "absent", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with (
        rules(conf, others, denied, shown),
        pytest.raises(SinkDown, match="needed: ACL operations Create, Describe and Write on topic absent; or create"),
    ):
        TopicSink(conf, "absent").write(batch)


def test_who_may_write_nowhere_is_told_the_right(conf: dict[str, str]) -> None:
    batch = tuple(encode_event(it, 0) for it in some(0, 3))
    TopicSink(conf, "nowhere").write(batch)
    nowhere = acl(ResourceType.TOPIC, "*", AclOperation.WRITE, AclPermissionType.DENY)
    shown = acl(ResourceType.TOPIC, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    others = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    denied = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE, AclPermissionType.DENY)
    with (
        rules(conf, nowhere, shown, others, denied),
        pytest.raises(SinkDown, match=r"needed: ACL operation Write on topic nowhere|kshadow doctor tries"),
    ):
        TopicSink(conf, "nowhere").write(batch)


def test_a_right_that_is_taken_and_given_back_costs_nothing(conf: dict[str, str], topic: str, tmp_path: Path) -> None:
    exports = ExportPipeline([TopicSink(conf, topic)], spool=SpoolSettings(tmp_path, "c"))
    exports.start()
    exports.put(some(0, 500))
    assert exports.wait_durable(20)
    denied = acl(ResourceType.TOPIC, topic, AclOperation.WRITE, AclPermissionType.DENY)
    shown = acl(ResourceType.TOPIC, topic, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with rules(conf, denied, shown):
        time.sleep(1)
        for first in range(500, 1_500, 100):
            exports.put(some(first, 100))
        until(lambda: not exports.readings()[0].healthy, 20)
        assert f"needed: ACL operations Write and Describe on topic {topic}" in (
            exports.readings()[0].last_error or ""
        )
        assert exports.wait_durable(5), "on disk"
    until(lambda: exports.readings()[0].healthy, 40)
    exports.stop(20)
    assert_all_in_order(conf, topic, 1_500, "right taken away")


def test_an_event_that_the_topic_does_not_take_is_refused_alone(conf: dict[str, str], topic: str) -> None:
    admin = AdminClient({**conf, "log_level": 0})
    made = NewTopic(topic, 2, config={"max.message.bytes": "20000"})
    admin.create_topics([made])[topic].result(60)
    dice = random.Random(1)
    noise = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60_000))  # does not compress to 20,000
    events = some(0, 3_000)
    large = {700, 1_900}
    for number in large:
        events[number]["numbers"] = {"noise": noise}
    for it in events:
        it["summary"] = "".join(dice.choices("abcdefgh", k=60))
    too_large = event(3_000, "group-0", numbers={"noise": "x" * (MAX_MESSAGE_BYTES + 1)})
    batch = tuple(encode_event(it, 0) for it in [*events, too_large])
    sink = TopicSink(conf, topic, patience_s=60)  # others begin at the same time
    refused = sink.write(batch)
    assert sorted(json.loads(it.event.body)["offset"] for it in refused) == [*sorted(large), 3_000]
    assert {it.reason for it in refused} == {
        "larger than the topic takes (its max.message.bytes)", "larger than message.max.bytes",
    }  # fmt: skip
    assert sink.write(tuple(encode_event(it, 0) for it in some(3_001, 500))) == []
    sink.close()
    counts, first = seen(read(conf, topic))
    print(f"\nrefused: expected 3498, seen {len(counts)}, duplicated {sum(counts.values()) - len(counts)}")
    assert sorted(counts) == [number for number in range(3_501) if number not in {*large, 3_000}]
    assert all(numbers == sorted(numbers) for numbers in first.values())


def test_a_topic_that_is_compacted_is_told(
    conf: dict[str, str], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, however often it is tried again: into this one only brokers write."""
    admin = AdminClient({**conf, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(20)
    consumer = Consumer({**conf, "group.id": "its-first"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    sink = TopicSink(conf, "__consumer_offsets")
    for _ in range(2):
        with pytest.raises(SinkDown, match="Invalid topic"):
            sink.write((encode_event(event(1), 0),))
    said = "history topic __consumer_offsets has cleanup.policy=compact: of each group only the newest event"
    assert caplog.text.count(said) == 1


def test_a_topic_that_is_deleted_under_it_is_made_again(conf: dict[str, str], topic: str, tmp_path: Path) -> None:
    hasty = {**conf, "topic.metadata.propagation.max.ms": "2000"}
    exports = ExportPipeline([TopicSink(hasty, topic, patience_s=3)], spool=SpoolSettings(tmp_path, "c"))
    exports.start()
    exports.put(some(0, 100))
    assert exports.wait_durable(20)
    admin = AdminClient({**conf, "log_level": 0})
    admin.delete_topics([topic])[topic].result(20)
    # The controller has answered; until the broker has heard of it, it takes what then goes with the topic.
    until(lambda: topic not in admin.list_topics(timeout=20).topics, 30)
    exports.put(some(100, 100))
    until(lambda: exports.readings()[0].events == 200, 90)
    exports.stop(10)
    counts, _ = seen(read(conf, topic))
    assert set(counts) >= set(range(100, 200))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"acks": "1"}, "property acks: kshadow needs 'all' to lose no history, got '1'"),
        ({"max.in.flight.requests.per.connection": "5"}, "kshadow needs '1' to lose no history, got '5'"),
        ({"no.such": "1"}, "no.such"),
    ],
)
def test_a_property_that_cannot_be_is_told(more: dict[str, str], said: str) -> None:
    with pytest.raises(ExportMisconfigured, match=said):
        TopicSink({"bootstrap.servers": "127.0.0.1:1", **more}, "x")


class Stream(threading.Thread):
    """Puts numbered events at a steady rate until told to end."""

    def __init__(self, exports: ExportPipeline) -> None:
        super().__init__(daemon=True)
        self.exports, self.count, self.ended = exports, 0, threading.Event()
        self.slowest_s = 0.0

    def run(self) -> None:
        while not self.ended.wait(0.1):
            began = time.monotonic()
            self.exports.put(some(self.count, 20))
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.count += 20


@pytest.mark.thorough  # kills without a steady stream are in test_killed.py
@pytest.mark.parametrize("how", ["killed", "paused", "restarted"])
def test_a_broker_that_is_away_under_a_steady_stream(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with EmbeddedBroker(fetch_jars()) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        exports = ExportPipeline(
            [TopicSink(conf, "history", patience_s=3)], spool=SpoolSettings(tmp_path, "c"), memory_bytes=1 << 18
        )
        exports.start()
        stream = Stream(exports)
        stream.start()
        away_s = 25.0
        for _ in range(2):
            time.sleep(2)
            match how:
                case "paused":
                    broker.pause()
                case "killed":
                    broker.kill()
            if how != "restarted":
                until(lambda: not exports.readings()[0].healthy, 20)
                time.sleep(away_s)
                away_s = 12.0
                now = exports.readings()[0]
                assert now.buffered > 0
                assert now.spool_bytes > 0
                assert (exports.health() or "").startswith("history sink topic is down for ")
                assert exports.wait_durable(5)
            match how:
                case "paused":
                    broker.resume()
                case _:
                    broker.restart()
            until(lambda: exports.readings()[0].healthy, 40)
        time.sleep(1)
        stream.ended.set()
        stream.join()
        until(lambda: exports.readings()[0].buffered == 0, 60)
        exports.stop(20)
        assert_all_in_order(conf, "history", stream.count, f"broker {how}, slowest put {stream.slowest_s:.3f} s")
        assert sum(exports.readings()[0].dropped.values()) == 0
