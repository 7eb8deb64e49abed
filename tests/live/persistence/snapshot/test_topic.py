"""Snapshots in a compacted topic of a real broker: whole or not at all, whoever reads, whoever died."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.persistence.snapshot.compacted_topic import PARTITIONS, TOPIC_CONFIG
from agent.persistence.snapshot.store import StoreError, StoreErrorReason
from agent.persistence.snapshot.topic_store import TopicStore
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests import ROOT
from tests.live.kafka.writer.test_topic import acl, rules
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

TOPIC, CLUSTER = "kshadow-snapshots", "cluster-1"
PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "log.cleaner.backoff.ms": "200",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture
def conf(broker: EmbeddedBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def some(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def make(conf: dict[str, str], topic: str, **config: str) -> None:
    admin = AdminClient({**conf})
    new = NewTopic(topic, num_partitions=3, replication_factor=1, config=config)
    for future in admin.create_topics([new]).values():
        future.result(20)
    while topic not in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)


def test_the_topic_is_made_to_keep_the_newest(conf: dict[str, str]) -> None:
    TopicStore(conf, TOPIC, CLUSTER).close()
    admin = AdminClient({**conf})
    assert len(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions) == PARTITIONS
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]).values()
    found = future.result(20)
    assert {name: found[name].value for name in TOPIC_CONFIG} == TOPIC_CONFIG


def test_another_client_loads_the_newest(conf: dict[str, str]) -> None:
    writer = TopicStore(conf, TOPIC, CLUSTER)
    blobs = {"partition-7": some(400_000), "partition-17": some(5_000_000, 1), "cluster": b""}
    for name, blob in blobs.items():
        writer.save(name, some(2_000_000, 2))
        writer.save(name, blob)
    reader = TopicStore(conf, TOPIC, CLUSTER, create=False)
    assert reader.load([*blobs, "partition-8"]) == blobs
    # It takes over: what it writes is what the other finds then.
    reader.save("partition-17", b"taken over")
    assert writer.load(["partition-17"]) == {"partition-17": b"taken over"}
    writer.delete("partition-17")
    writer.delete("never-there")
    assert reader.load(blobs) == {"partition-7": blobs["partition-7"], "cluster": b""}
    assert TopicStore(conf, TOPIC, "cluster-2").load(blobs) == {}, "another cluster's are its own"
    writer.close()
    reader.close()


def records_of(conf: dict[str, str], topic: str, partition: int) -> dict[bytes, bytes | None]:
    """What compaction would leave."""
    consumer = Consumer({**conf, "group.id": "test", "enable.partition.eof": "true"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    out: dict[bytes, bytes | None] = {}
    while (message := consumer.poll(10)) is not None and message.error() is None:
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert value is None or isinstance(value, bytes)
        out[key] = value
    consumer.close()
    return out


def test_nothing_is_left_of_older_ones(conf: dict[str, str]) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER, chunk_bytes=1_000)
    for size in (5_500, 9_500, 2_500, 100, 3_000, 3_001):
        store.save("partition-3", some(size, size))
    standing = {key for key, value in records_of(conf, TOPIC, 3).items() if value is not None}
    prefix = b"cluster-1/partition-3"
    assert standing == {prefix, *(prefix + b"/1/%d" % number for number in range(4))}
    # One that knows nothing of what was written before goes on there.
    other = TopicStore(conf, TOPIC, CLUSTER, chunk_bytes=1_000)
    other.save("partition-3", some(1_500, 5))
    standing = {key for key, value in records_of(conf, TOPIC, 3).items() if value is not None}
    assert standing == {prefix, prefix + b"/0/0", prefix + b"/0/1"}
    other.delete("partition-3")
    assert {key for key, value in records_of(conf, TOPIC, 3).items() if value is not None} == set()


def test_a_head_whose_answer_was_lost_has_its_chunks_left_alone(
    conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER, chunk_bytes=1_000)
    store.save("partition-5", some(3_000, 1))
    write = store._topic.write
    left = 0

    def lost_after(partition: int, records: Mapping[str, bytes | None], doing: str) -> None:
        nonlocal left
        write(partition, records, doing)
        left -= 1
        if not left:
            raise StoreError(StoreErrorReason.UNREACHABLE, "not taken within 60 s")

    monkeypatch.setattr(store._topic, "write", lost_after)
    for writings in (2, 1):  # the head's answer is lost; then the process ends behind the next one's chunks
        left = writings
        with pytest.raises(StoreError):
            store.save("partition-5", some(3_000, 1 + writings))
    assert TopicStore(conf, TOPIC, CLUSTER).load(["partition-5"]) == {"partition-5": some(3_000, 3)}


def test_a_takeover_reads_one_partition(conf: dict[str, str]) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER)
    store.save("history-topic-24", b"there")
    assert b"cluster-1/history-topic-24" in records_of(conf, TOPIC, 24 % PARTITIONS)


SAVING = """
import sys
from agent.persistence.snapshot.topic_store import TopicStore
store = TopicStore({"bootstrap.servers": sys.argv[1]}, sys.argv[2], "cluster-1", chunk_bytes=5_000)
for number in range(1, 200):
    print("saving", number, flush=True)
    store.save("partition-5", bytes([number]) * 3_000_000)
    print("saved", number, flush=True)
"""


def test_a_writer_killed_between_chunks_leaves_a_whole_one(conf: dict[str, str]) -> None:
    for round_ in range(4):
        command = [sys.executable, "-c", SAVING, conf["bootstrap.servers"], TOPIC]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert child.stdout is not None
        lines: list[str] = []
        while lines[-1:] != ["saving 3\n"]:
            lines.append(child.stdout.readline())
        time.sleep(0.02 * round_)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        saved = max(int(line.split()[1]) for line in lines if line.startswith("saved"))
        reader = TopicStore(conf, TOPIC, CLUSTER, chunk_bytes=5_000)
        blob = reader.load(["partition-5"])["partition-5"]
        assert isinstance(blob, bytes)
        assert blob == blob[:1] * 3_000_000
        assert blob[0] in (saved, saved + 1)
        # Whoever comes next writes over what was left.
        reader.save("partition-5", b"\xff" * 20_000)
        assert reader.load(["partition-5"]) == {"partition-5": b"\xff" * 20_000}


def test_what_is_no_snapshot_is_none(conf: dict[str, str]) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER, chunk_bytes=1_000)
    store.save("partition-9", some(5_000))
    producer = Producer({**conf})
    for key, value in (
        (b"cluster-1/partition-9/0/1", b"of another writer"),
        (b"cluster-1/partition-19", b"\xc1 no head"),
        (b"\xff\xfe", b"no key of ours"),
        (None, b"no key"),
    ):
        if key is not None:  # a compacted topic takes none without
            producer.produce(TOPIC, value, key, 9)
    producer.flush(20)
    torn = store.load(["partition-9", "partition-19"])
    assert {name: str(it) for name, it in torn.items()} == dict.fromkeys(
        ("partition-9", "partition-19"),
        f"topic {TOPIC}: expected all records of one snapshot, some are missing or of another",
    )
    store.save("partition-9", b"well again")
    assert store.load(["partition-9"]) == {"partition-9": b"well again"}


def test_a_topic_that_forgets_is_refused(conf: dict[str, str]) -> None:
    make(conf, "forgetful", **{"cleanup.policy": "delete"})
    with pytest.raises(StoreError, match=r"expected cleanup\.policy=compact, so .* got delete") as told:
        TopicStore(conf, "forgetful", CLUSTER)
    assert told.value.reason is StoreErrorReason.MISCONFIGURED


def delete(conf: dict[str, str], topic: str) -> None:
    admin = AdminClient({**conf})
    admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in admin.list_topics(timeout=10).topics)


def test_a_topic_that_is_deleted_meanwhile_is_made_anew_as_at_first(
    conf: dict[str, str],
) -> None:
    """The producer's question for it made it, with the brokers' settings: one partition, not compacted."""
    store, admin = TopicStore(conf, "deleted", CLUSTER), AdminClient({**conf})
    store.save("partition-0", b"before")
    delete(conf, "deleted")
    with pytest.raises(StoreError, match="writing partition-0 to topic deleted: "):
        store.save("partition-0", b"unwritten")
    assert "deleted" not in admin.list_topics(timeout=10).topics, "this producer makes none"
    with pytest.raises(StoreError, match="topic deleted was deleted and is another one now") as told:
        store.save("partition-7", b"unwritten")
    assert told.value.reason is StoreErrorReason.BROKEN
    store.save("partition-7", b"after")
    assert store.load(["partition-0", "partition-7"]) == {"partition-7": b"after"}
    assert len(admin.list_topics("deleted", timeout=10).topics["deleted"].partitions) == PARTITIONS
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "deleted")]).values()
    assert {name: future.result(20)[name].value for name in TOPIC_CONFIG} == TOPIC_CONFIG


def test_a_topic_that_others_made_anew_is_not_written_to_unless_it_keeps_what_is_put_there(
    conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.persistence.snapshot.compacted_topic.CHECK_S", 0.0)
    store, admin = TopicStore(conf, "remade", CLUSTER), AdminClient({**conf})
    store.save("partition-8", b"before")
    delete(conf, "remade")
    make(conf, "remade", **{"cleanup.policy": "delete"})
    for _ in range(2):
        with pytest.raises(StoreError, match=r"got delete; set it, or delete the topic") as told:
            store.save("partition-8", b"unwritten")
        assert told.value.reason is StoreErrorReason.MISCONFIGURED
    assert [records_of(conf, "remade", partition) for partition in range(3)] == [{}, {}, {}]
    compact = AlterConfigOpType.SET
    resource = ConfigResource(
        ResourceType.TOPIC,
        "remade",
        incremental_configs=[ConfigEntry("cleanup.policy", "compact", incremental_operation=compact)],
    )
    admin.incremental_alter_configs([resource])[resource].result(20)
    # The controller has it a moment before the broker that is asked.
    until(lambda: admin.describe_configs([resource])[resource].result(20)["cleanup.policy"].value == "compact")
    with pytest.raises(StoreError, match="was deleted and is another one now"):
        store.save("partition-8", b"unwritten")
    store.save("partition-8", b"after")
    assert len(records_of(conf, "remade", 8 % 3)) == 1
    assert store.load(["partition-8"]) == {"partition-8": b"after"}


def test_no_topic_is_made_unless_asked(conf: dict[str, str]) -> None:
    with pytest.raises(StoreError, match="there is none") as told:
        TopicStore(conf, "nowhere", CLUSTER, create=False)
    assert told.value.reason is StoreErrorReason.MISSING
    assert "nowhere" not in AdminClient({**conf}).list_topics(timeout=10).topics


def test_what_the_topic_does_not_take_is_told(conf: dict[str, str]) -> None:
    make(conf, "narrow", **{"cleanup.policy": "compact", "max.message.bytes": "2000"})
    store = TopicStore(conf, "narrow", CLUSTER)
    store.save("partition-1", b"small")
    needed = "writing partition-1 to topic narrow: .*; needed: max.message.bytes=1048588"
    with pytest.raises(StoreError, match=needed) as told:
        store.save("partition-1", some(100_000))
    assert told.value.reason is StoreErrorReason.MISCONFIGURED
    assert store.load(["partition-1"]) == {"partition-1": b"small"}
    store.save("partition-1", b"small again")
    assert store.load(["partition-1"]) == {"partition-1": b"small again"}


def test_a_right_that_lacks_is_named(conf: dict[str, str]) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER)
    store.save("partition-2", b"before")
    admin = AdminClient({**conf})
    everything = (ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    binding = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    allow = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([binding, allow]).values():
        future.result(20)
    try:
        with pytest.raises(
            StoreError, match=f"needed: ACL operations Read, Write and Describe on topic {TOPIC}"
        ) as it:
            store.save("partition-2", b"after")
        assert it.value.reason is StoreErrorReason.DENIED
        assert store.load(["partition-2"]) == {"partition-2": b"before"}
    finally:
        for deleted in admin.delete_acls([AclBindingFilter(ResourceType.ANY, None, *everything)]).values():
            deleted.result(20)


def test_who_may_write_nowhere_is_told_the_right(
    conf: dict[str, str], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The producer ends with a fatal error then, which came as a SystemError, and ended the thread of snapshots.
    librdkafka wrote of it to standard error itself, a line of its own among those in JSON."""
    TopicStore(conf, TOPIC, CLUSTER).close()
    nowhere = acl(ResourceType.TOPIC, "*", AclOperation.WRITE, AclPermissionType.DENY)
    read = acl(ResourceType.TOPIC, "*", AclOperation.READ, AclPermissionType.ALLOW)
    # The broker itself is the same user: what it needs stays allowed.
    others = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    denied = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE, AclPermissionType.DENY)
    with rules(conf, nowhere, read, others, denied):
        store = TopicStore(conf, TOPIC, CLUSTER)
        # The client may lose its own exception on the way.
        with pytest.raises(StoreError, match=f"needed: ACL operation Write on topic {TOPIC}|kshadow doctor tries"):
            store.save("partition-2", b"never")
    assert "FATAL" not in capfd.readouterr().err
    assert [it.name for it in caplog.records if "Fatal error" in it.getMessage()] == ["librdkafka"]


def test_a_broker_that_stands_still_is_told_in_time(broker: EmbeddedBroker, conf: dict[str, str]) -> None:
    store = TopicStore(conf, TOPIC, CLUSTER, timeout_s=10)
    store.save("partition-4", b"before")
    store._timeout_s = store._topic._timeout_s = 3.0
    store._topic._producer = None
    broker.pause()
    try:
        for ask in (lambda: store.save("partition-4", b"after"), lambda: store.load(["partition-4"])):
            began = time.monotonic()
            with pytest.raises(StoreError) as told:
                ask()
            assert told.value.reason is StoreErrorReason.UNREACHABLE
            assert time.monotonic() - began < 60
    finally:
        broker.resume()
        broker.wait()
    # Until its lease is back, a broker may name no brokers: a client that hears that first may stay cut off, and the
    # next is not.
    kept, deadline = None, time.monotonic() + 60
    while kept is None:
        try:
            kept = TopicStore(conf, TOPIC, CLUSTER, timeout_s=10).load(["partition-4"])["partition-4"]
        except StoreError as error:
            if error.reason is not StoreErrorReason.UNREACHABLE or time.monotonic() > deadline:
                raise
    assert kept in (b"before", b"after")


def test_nobody_there() -> None:
    with pytest.raises(StoreError) as told:
        TopicStore({"bootstrap.servers": "127.0.0.1:1"}, TOPIC, CLUSTER, timeout_s=2)
    assert told.value.reason is StoreErrorReason.UNREACHABLE
    with pytest.raises(StoreError) as told:
        TopicStore({"bootstrap.servers": "127.0.0.1:1", "no.such": "property"}, TOPIC, CLUSTER)
    assert told.value.reason is StoreErrorReason.MISCONFIGURED
