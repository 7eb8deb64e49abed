"""The topic of a real broker: what was written is read, and what the broker makes of it once it loads it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from agent.core.records import RawRecord
from agent.kafka.source.once import read_to_end
from agent.kafka.writer import TOPIC, Written
from agent.kafka.writer.errors import (
    PartitionCountDiffers,
    RecordRefused,
    SinkDenied,
    SinkMisconfigured,
    SinkUnreachable,
    TopicMissing,
)
from agent.kafka.writer.segments import write_segments
from agent.kafka.writer.topic import partition_count, write_topic
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.kafka import committed, described
from tests.unit.kafka.writer.making import groups, numbered
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 5
PROPERTIES = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NAMES = [f"team.group-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture
def conf(broker: EmbeddedBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


def some(names: list[str]) -> list[RawRecord]:
    return groups(names, partitions=PARTITIONS, at_ms=int(time.time() * 1000) - 5_000)


def acl(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)


@contextmanager
def rules(conf: dict[str, str], *bindings: AclBinding) -> Iterator[None]:
    admin = AdminClient({**conf, "log_level": 0})
    for future in admin.create_acls(list(bindings)).values():
        future.result(20)
    try:
        yield
    finally:
        every = (ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        for future in admin.delete_acls([AclBindingFilter(ResourceType.ANY, None, *every)]).values():
            future.result(20)


def assert_loaded(conf: dict[str, str], names: list[str]) -> None:
    """The broker answers for each group as if its members and commits had been its own."""
    servers = conf["bootstrap.servers"]
    for name in names:
        group = described(servers, name)
        assert group.state is ConsumerGroupState.STABLE, name
        (member,) = group.members
        assert (member.member_id, member.client_id, member.host) == (f"{name}-member", f"{name}-client", "/10.0.0.1")
        assert [(it.topic, it.partition) for it in member.assignment.topic_partitions] == [("orders", 0)]
        assert committed(servers, name) == {("orders", 0, 500)}


def test_a_topic_that_is_not_there_is_told_and_made_if_wanted_and_loaded_after_a_restart(
    broker: EmbeddedBroker, conf: dict[str, str]
) -> None:
    records = some(NAMES)
    with pytest.raises(TopicMissing, match=f"expected topic {TOPIC}, the cluster has none"):
        write_topic(records, conf, placed_for=PARTITIONS)
    with pytest.raises(TopicMissing):
        partition_count(conf)
    denied = acl(ResourceType.GROUP, "kshadow", AclOperation.DESCRIBE, AclPermissionType.DENY)
    with rules(conf, denied), pytest.raises(SinkDenied, match="needed: ACL operation Describe on the group kshadow"):
        write_topic(records, conf, placed_for=PARTITIONS, create=True)
    with pytest.raises(PartitionCountDiffers, match=r"expected 50 partitions, .* it has 5; place them for 5"):
        write_topic(records, conf, placed_for=50, create=True)
    assert partition_count(conf) == PARTITIONS
    # What stands in a partition when its coordinator begins is loaded, so that has to be over.
    assert {it.partition for it in records} == set(range(PARTITIONS))
    for name in NAMES:
        described(conf["bootstrap.servers"], name)

    written = write_topic(iter(records), conf, placed_for=PARTITIONS)
    size = sum(len(it.key or b"") + len(it.value or b"") for it in records)
    assert written == Written(len(records), PARTITIONS, size)
    read = [record for run in read_to_end(conf) for record in run.records()]
    assert sorted(read, key=lambda it: it.partition) == numbered(records)

    admin = AdminClient({**conf, "log_level": 0})
    listed = {it.group_id for it in admin.list_consumer_groups().result(20).valid}
    assert not listed & set(NAMES), "a running broker does not look"
    idempotent = Producer({**conf, "client.id": "__admin_client", "enable.idempotence": True, "log_level": 0})
    for record in some(["idempotent"]):
        idempotent.produce(TOPIC, record.value, record.key, record.partition, timestamp=record.timestamp_ms)
    assert idempotent.flush(20) == 0

    broker.restart()
    assert_loaded(conf, NAMES)
    assert committed(conf["bootstrap.servers"], "idempotent") == set(), "why the producer of this sink is not"


@pytest.mark.thorough  # segment files are written and read without one, too
def test_a_stopped_broker_takes_segment_files(tmp_path) -> None:
    names = [f"by.file-{number}" for number in range(20)]
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        assert partition_count(conf, create=True) == PARTITIONS
        write_segments(some(names), tmp_path, segment_bytes=2_000, batch_bytes=500)
        # A partition has its leader before the broker has made its folder.
        folders = {history: broker.log_dirs[0] / history.name for history in tmp_path.iterdir()}
        until(lambda: all((it / "partition.metadata").exists() for it in folders.values()), said="they are there")
        broker.kill()
        for history, theirs in folders.items():
            for pattern in ("*.log", "*.index", "*.timeindex"):
                for file in theirs.glob(pattern):
                    file.unlink()
            for segment in history.iterdir():
                (theirs / segment.name).write_bytes(segment.read_bytes())
        broker.restart()
        assert_loaded(conf, names)


def later(records: list[RawRecord], by_ms: int) -> list[RawRecord]:
    return [record._replace(timestamp_ms=record.timestamp_ms + by_ms) for record in records]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"timestamp_ms": 0}, "got timestamp 0, key b'"),
        ({"key": None}, "key None"),
        ({"control": True}, "got a transaction marker"),
        ({"partition": PARTITIONS}, r"partition 5: expected .* in a partition below 5"),
    ],
)
def test_a_record_that_the_topic_cannot_hold_is_refused(conf: dict[str, str], change: dict, said: str) -> None:
    partition_count(conf, create=True)
    with pytest.raises(RecordRefused, match=said):
        write_topic([some(["refused"])[0]._replace(**change)], conf, placed_for=PARTITIONS)


def test_what_the_broker_refuses_is_counted_and_told(conf: dict[str, str]) -> None:
    partition_count(conf, create=True)
    records = later(some(["ahead"]), 2 * 3_600_000)
    with pytest.raises(RecordRefused, match=r"7 of 7 records not written, first in partition \d: .*an hour ahead"):
        write_topic(records, conf, placed_for=PARTITIONS)


def test_without_the_right_to_write(conf: dict[str, str]) -> None:
    partition_count(conf, create=True)
    denied = acl(ResourceType.TOPIC, TOPIC, AclOperation.WRITE, AclPermissionType.DENY)
    # Where there is a rule, what no rule names is denied.
    shown = acl(ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with (
        rules(conf, denied, shown),
        pytest.raises(SinkDenied, match=r"7 of 7 records not written, .*needed: ACL operations Write and Descr"),
    ):
        write_topic(some(["denied"]), conf, placed_for=PARTITIONS)


def test_a_broker_that_stops_answering_is_told_with_what_was_not_written() -> None:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES, heap="256m") as broker:
        short = {"message.timeout.ms": "1500", "queue.buffering.max.messages": "1000"}
        conf = {"bootstrap.servers": broker.bootstrap_servers, **short}
        partition_count(conf, create=True)

        def endless() -> Iterator[RawRecord]:
            yield from some(["first"])
            broker.pause()
            while True:
                yield from some(["second"])  # more than the queue holds

        with pytest.raises(SinkUnreachable, match=r"[\d]+ of [\d]+ records not written, first in partition \d: "):
            write_topic(endless(), conf, placed_for=PARTITIONS)


def test_many_records_through_a_short_queue(conf: dict[str, str]) -> None:
    partition_count(conf, create=True)
    record = some(["many"])[0]
    many = (record._replace(timestamp_ms=record.timestamp_ms + number % 1000) for number in range(25_000))
    written = write_topic(many, {**conf, "queue.buffering.max.messages": "1000"}, placed_for=PARTITIONS)
    assert written.records == 25_000
    kept = [
        it for run in read_to_end(conf, partitions=[record.partition]) for it in run.records() if it.key == record.key
    ]
    assert [it.timestamp_ms - record.timestamp_ms for it in kept] == [number % 1000 for number in range(25_000)]


def test_nobody_answers() -> None:
    with pytest.raises(SinkUnreachable, match=f"asking for the partitions of {TOPIC}: "):
        partition_count({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, timeout_s=1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"enable.idempotence": "true"},
            "property enable.idempotence: kshadow needs 'false' to write groups, got 'true'",
        ),
        ({"no.such": "1"}, "no.such"),
    ],
)
def test_a_property_that_cannot_be_is_told(conf: dict[str, str], more: dict[str, str], said: str) -> None:
    with pytest.raises(SinkMisconfigured, match=said):
        write_topic([], {**conf, **more}, placed_for=PARTITIONS)


@pytest.mark.thorough
def test_a_topic_that_can_be_made_only_after_the_broker_was_restarted() -> None:
    """An Admin client's question that was given up ends the process then (confluentinc/librdkafka#4605)."""
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.replication.factor": "3"}, heap="256m") as broker:
        ours = (sys.executable, "-m", "agent.cli.main", "generate", "--create-topic", "--groups=1", "--duration=1m")
        command = (*ours, "--bootstrap-server", broker.bootstrap_servers)
        writing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(8)
        assert writing.poll() is None, "it asks again and again"
        broker.kill()
        file = broker.directory / "server.properties"
        file.write_text(re.sub(r"(offsets.topic.replication.factor)=3", r"\1=1", file.read_text()))
        broker.restart()
        said, _ = writing.communicate(timeout=60)
        assert writing.returncode == 0, said
