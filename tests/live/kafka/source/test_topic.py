"""The live reader against a real broker."""

import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.common import pacing
from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source import open_transactions
from agent.kafka.source.errors import SourceDenied, SourceMisconfigured, SourceUnreachable, TopicMissing
from agent.kafka.source.once import read_to_end
from agent.kafka.source.open_transactions import transactional_ids
from agent.kafka.source.progress import LogBounds, OffsetReset, PartitionCountChanged
from agent.kafka.source.segments import discover
from agent.kafka.source.topic import BATCH_RECORDS, TopicReader
from agent.kafka.writer.topic import partition_count
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.kafka import EmbeddedCluster
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

OFFSETS = "__consumer_offsets"
QUIET = {"log_level": 0}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(fetch_jars(), properties=AUTHORIZER) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})


@pytest.fixture
def conf(broker):
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(admin):
    name = f"t-{uuid.uuid4()}"
    await_all(admin.create_topics([NewTopic(name, 3, 1)]))
    # The controller has made it; the broker hears of it a moment later.
    until(lambda: is_known(admin, name), said=name)
    return name


def is_known(admin, name):
    with suppress(KafkaException):
        return bool(admin.describe_topics(TopicCollection([name]))[name].result(20).partitions)
    return False


def await_all(futures):
    for future in futures.values():
        future.result(20)


def produce(conf, topic, count, *, partition=0, transaction: str | None = None, end: str = "commit"):
    """`count` records of one partition; the producer, whose transaction is left open when `end` is neither."""
    more = {} if transaction is None else {"transactional.id": transaction}
    producer = Producer({**conf, **more, **QUIET, "client.id": "__admin_client"})
    if transaction is not None:
        producer.init_transactions(20)
        producer.begin_transaction()
    for index in range(count):
        producer.produce(topic, partition=partition, key=b"k%d" % index, value=b"v", timestamp=1000 + index)
    producer.flush(20)
    if transaction is not None and end == "commit":
        producer.commit_transaction(20)
    elif transaction is not None and end == "abort":
        producer.abort_transaction(20)
    return producer


def poll_until(reader: TopicReader, done: Callable[[], bool], *, within_s: float = 30.0) -> list[RawRecord]:
    return [record for run in runs_until(reader, done, within_s=within_s) for record in run.records()]


def runs_until(reader: TopicReader, done: Callable[[], bool], *, within_s: float = 30.0) -> list[RecordBatch]:
    runs: list[RecordBatch] = []
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, (reader.last_error, reader.positions, reader.behind_records)
        runs += reader.poll(0.2)
    return runs


def caught_up(reader: TopicReader) -> list[RawRecord]:
    return poll_until(reader, lambda: reader.caught_up)


def test_offsets_topic_of_a_new_cluster_is_waited_for_and_then_read():
    with (
        EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "3"}, heap="256m") as fresh,
        TopicReader({"bootstrap.servers": fresh.bootstrap_servers}) as reader,
    ):
        # librdkafka looks up the coordinator of its group, and that makes the topic; before, it is missing.
        with suppress(TopicMissing):
            reader.connect()
        assert caught_up(reader) == []
        assert (reader.healthy, reader.partition_count) == (True, 3)
        produce({"bootstrap.servers": fresh.bootstrap_servers}, "__consumer_offsets", 2, partition=1)
        records = poll_until(reader, lambda: reader.positions[1] == 2)
        assert records == [RawRecord(1, i, 1000 + i, b"k%d" % i, b"v") for i in range(2)]
        assert sum(reader.behind_records.values()) == 0


def test_after_this_process_stood_still_what_was_written_meanwhile_has_yet_to_be_read(conf, topic, monkeypatch):
    """As after SIGSTOP and SIGCONT: it was said to be read to the end while it was not."""
    with TopicReader(conf, topic=topic) as reader:
        reader.connect()
        reader.poll(0.2)
        assert reader.caught_up
        monkeypatch.setattr(pacing, "STOOD_STILL_S", 1.0)
        produce(conf, topic, 3 * BATCH_RECORDS)
        time.sleep(1.1)
        reader.poll(0)
        assert not (reader.healthy and reader.current_partitions[0])
        monkeypatch.undo()
        poll_until(reader, lambda: reader.positions[0] == 3 * BATCH_RECORDS)
        assert reader.healthy
        assert reader.current_partitions[0]


def test_what_others_read_is_read_on_from_there(conf, topic):
    for partition in range(3):
        produce(conf, topic, 10, partition=partition)
    with TopicReader(conf, topic=topic) as reader:
        reader.connect()
        assert reader.unread == dict.fromkeys(range(3), LogBounds(0, 10))
        reader.leave([0, 1])
        alone = poll_until(reader, lambda: reader.positions[2] == 10)
        reader.read_elsewhere(0, 7)
        assert (reader.positions, reader.caught_up) == ({0: 7, 1: 0, 2: 10}, False)
        assert sum(reader.behind_records.values()) == 13
        reader.take_back([0, 1, 2])
        rest = caught_up(reader)
        assert {it.partition for it in alone} == {2}
        assert sorted((it.partition, it.offset) for it in rest) == [
            *((0, offset) for offset in range(7, 10)),
            *((1, offset) for offset in range(10)),
        ]
        assert reader.take_notices() == []


def test_runs_positions_and_going_on_from_them(conf, topic):
    produce(conf, topic, 25_000, partition=0)
    produce(conf, topic, 5, partition=2)
    with TopicReader(conf, topic=topic) as reader:
        records = caught_up(reader)
        assert len(records) == 25_005
        assert [r.offset for r in records if r.partition == 0] == list(range(25_000))
        assert reader.positions == {0: 25_000, 1: 0, 2: 5}
        assert reader.behind_records == {0: 0, 1: 0, 2: 0}
        start = reader.positions
    produce(conf, topic, 1, partition=2)
    with TopicReader(conf, topic=topic, partitions=[2], start=start) as reader:
        assert [r.offset for r in caught_up(reader)] == [5]
        assert reader.positions == {2: 6}
    assert reader.positions == {2: 6}
    assert not reader.healthy


def test_starts_that_take_their_time_while_the_ends_are_fetched(conf, topic):
    produce(conf, topic, 10, partition=0)
    produce(conf, topic, 5, partition=1)
    asked = []

    def start(log_id, bounds):
        asked.append({number: it.end for number, it in bounds.items()})
        if len(asked) == 1:
            raise RuntimeError("no store")
        produce(conf, topic, 3, partition=0)
        produce(conf, topic, 2, partition=1)
        time.sleep(0.5)
        return {0: 10, 1: 2}

    with TopicReader(conf, topic=topic, start=start) as reader:
        with pytest.raises(RuntimeError, match="no store"):
            reader.connect()
        records = poll_until(reader, lambda: reader.positions == {0: 13, 1: 7, 2: 0} and reader.caught_up)
        assert asked == [{0: 10, 1: 5, 2: 0}] * 2
        assert sorted((it.partition, it.offset) for it in records) == [
            *((0, offset) for offset in range(10, 13)),
            *((1, offset) for offset in range(2, 7)),
        ]
        assert reader.take_notices() == []
        produce(conf, topic, 1, partition=2)
        assert [(it.partition, it.offset) for it in poll_until(reader, lambda: reader.positions[2] == 1)] == [(2, 0)]


def test_ends_that_no_record_reaches(conf, topic):
    """Markers, an aborted transaction, and a beginning that was deleted up to the end."""
    produce(conf, topic, 3, partition=0, transaction=f"{topic}-0")
    produce(conf, topic, 3, partition=0, transaction=f"{topic}-0", end="abort")
    produce(conf, topic, 3, partition=1, transaction=f"{topic}-1", end="abort")
    produce(conf, topic, 4, partition=2)
    admin = AdminClient({**conf, **QUIET})
    await_all(admin.delete_records([TopicPartition(topic, 2, 4)]))
    with TopicReader(conf, topic=topic) as reader:
        assert [(r.partition, r.offset) for r in caught_up(reader)] == [(0, 0), (0, 1), (0, 2)]
        poll_until(reader, lambda: not any(reader.behind_records.values()))
        assert reader.positions == {0: 8, 1: 4, 2: 4}


def test_an_open_transaction_is_not_waited_for_but_shown(conf, topic):
    produce(conf, topic, 2)
    open_one = produce(conf, topic, 3, transaction=topic, end="neither")
    with TopicReader(conf, topic=topic) as reader:
        assert [r.offset for r in caught_up(reader)] == [0, 1]
        poll_until(reader, lambda: reader.behind_records[0] == 3)
        poll_until(reader, lambda: reader.held_back == {0: 2})
        open_one.commit_transaction(20)
        assert [r.offset for r in poll_until(reader, lambda: reader.positions[0] >= 5)] == [2, 3, 4]
        poll_until(reader, lambda: reader.behind_records[0] == 0)  # the marker
        poll_until(reader, lambda: reader.held_back == {})


def test_a_reader_that_lags_is_not_held_back(conf, topic):
    produce(conf, topic, 9_000)
    with TopicReader(conf, topic=topic) as reader:
        while not reader.caught_up:
            reader.poll(0.01)
            assert reader.held_back == {}
        producer = Producer({**conf, **QUIET})
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            for _ in range(1_000):
                producer.produce(topic, partition=0, key=b"k")
            producer.flush(20)
            reader.poll(0.01)
            assert reader.held_back == {}


def test_the_coordinators_log_is_not_read_without_end(conf, topic, monkeypatch):
    produce(conf, topic, 1, transaction=topic)
    now_ms = round(time.time() * 1000)
    assert transactional_ids(conf, {0: now_ms + 3_600_000}) == {0: ()}, "nothing was written since"
    monkeypatch.setattr(open_transactions, "MAX_STATES", 0)
    with pytest.raises(SourceUnreachable, match="at most 0 records to read"):
        transactional_ids(conf, {0: now_ms})
    monkeypatch.setattr(open_transactions, "TIMEOUT_S", 0.0)
    assert open_transactions.first_records(conf, {0: 0}, now_ms) == {}, "no record within no time"


def test_whose_a_transaction_is_needs_a_right(conf, topic, admin):
    produce(conf, topic, 1, transaction=topic)  # so that there is a coordinator's log
    now_ms = round(time.time() * 1000)
    assert transactional_ids(conf, {0: now_ms}) == {0: ()}, "none sends offsets"
    await_all(admin.create_acls([acl("__transaction_state", AclOperation.READ)]))
    try:
        with pytest.raises(SourceDenied, match="on topic __transaction_state"):
            [transactional_ids(conf, {0: now_ms}) for _ in range(100)]
    finally:
        await_all(admin.delete_acls([no_acl("__transaction_state")]))


def test_an_offset_that_is_not_there_is_told_and_read_again_from_the_beginning(conf, topic):
    produce(conf, topic, 3)
    with TopicReader(conf, topic=topic, start={0: 1000}) as reader:
        records = poll_until(reader, lambda: reader.positions.get(0) == 3)
        assert [r.offset for r in records] == [0, 1, 2]
        (notice,) = reader.take_notices()
        assert isinstance(notice, OffsetReset)
        assert (notice.partition, notice.offset) == (0, 1000)
        assert "Offset out of range" in notice.reason
        assert reader.take_notices() == []
        assert reader.healthy


def test_partitions_that_are_added_are_read_too(conf, topic, admin):
    with TopicReader(conf, topic=topic, probe_interval_s=0.2) as reader:
        caught_up(reader)
        await_all(admin.create_partitions([NewPartitions(topic, 5)]))
        produce(conf, topic, 2, partition=4)
        poll_until(reader, lambda: reader.positions.get(4) == 2)
        assert reader.take_notices() == [PartitionCountChanged(3, 5)]
        assert reader.partition_count == 5


def test_a_shard_for_which_there_is_no_partition_yet(conf, topic, admin):
    """It was never ready: reading had stopped, for no reason."""
    with TopicReader(conf, topic=topic, partitions=lambda it: it % 5 == 4, probe_interval_s=0.2) as reader:
        assert (reader.caught_up, reader.healthy) == (False, False), "it is not connected"
        reader.connect()
        reader.poll(0.1)
        assert (reader.caught_up, reader.healthy, reader.positions) == (True, True, {})
        await_all(admin.create_partitions([NewPartitions(topic, 5)]))
        produce(conf, topic, 2, partition=4)
        poll_until(reader, lambda: reader.positions.get(4) == 2)


def test_a_topic_deleted_under_the_reader(conf, topic, admin):
    produce(conf, topic, 2)
    with TopicReader(conf, topic=topic, probe_interval_s=0.2) as reader:
        caught_up(reader)
        await_all(admin.delete_topics([topic]))
        poll_until(reader, lambda: not reader.healthy)
        assert isinstance(reader.last_error, TopicMissing)


def test_partitions_that_are_not_there(conf, topic):
    with TopicReader(conf, topic=topic, partitions=[1, 7]) as reader:
        with pytest.raises(SourceMisconfigured, match=r"expected partitions below 3, got \[7\]"):
            reader.connect()
        with pytest.raises(SourceMisconfigured):
            reader.poll(0)


def acl(topic: str, operation: AclOperation) -> AclBinding:
    rule = (ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, AclPermissionType.DENY)
    return AclBinding(ResourceType.TOPIC, topic, *rule)


def no_acl(topic: str) -> AclBindingFilter:
    rule = (ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY)
    return AclBindingFilter(ResourceType.TOPIC, topic, *rule)


def test_without_the_right_to_describe(conf, topic, admin):
    await_all(admin.create_acls([acl(topic, AclOperation.DESCRIBE)]))
    with TopicReader(conf, topic=topic) as reader:
        with pytest.raises(SourceDenied, match=f"ACL operation Describe on topic {topic}"):
            reader.connect()
        assert reader.poll(0.1) == []
        assert isinstance(reader.last_error, SourceDenied)
        assert not reader.healthy
        await_all(admin.delete_acls([no_acl(topic)]))
        caught_up(reader)
        assert reader.healthy


def test_without_the_right_to_read_and_with_it_again(conf, topic, admin):
    produce(conf, topic, 2)
    await_all(admin.create_acls([acl(topic, AclOperation.READ)]))
    # Where a topic has rules at all, none is allowed that they do not name: to describe is refused, too, and first.
    with pytest.raises(SourceDenied, match="Topic authorization failed; needed: ACL operation Describe"):
        list(read_to_end(conf, topic=topic, timeout_s=20))
    await_all(admin.delete_acls([no_acl(topic)]))
    with TopicReader(conf, topic=topic) as reader:
        assert len(caught_up(reader)) == 2
        await_all(admin.create_acls([acl(topic, AclOperation.READ)]))
        poll_until(reader, lambda: isinstance(reader.last_error, SourceDenied))
        assert reader.caught_up
        await_all(admin.delete_acls([no_acl(topic)]))
        poll_until(reader, lambda: reader.healthy)  # though not one record came: the end itself is answer enough


def test_without_any_right_to_the_group(conf, topic, admin):
    produce(conf, topic, 2)
    rule = (ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.DENY)
    await_all(admin.create_acls([AclBinding(ResourceType.GROUP, "nobody", *rule)]))
    with TopicReader({**conf, "group.id": "nobody"}, topic=topic) as reader:
        assert len(caught_up(reader)) == 2
        time.sleep(1)
        reader.poll(0.1)
        assert reader.healthy


def test_read_to_end(conf, topic):
    produce(conf, topic, 12, partition=1)
    runs = list(read_to_end(conf, topic=topic))
    assert [record.offset for run in runs for record in run.records()] == list(range(12))
    with pytest.raises(TopicMissing):
        list(read_to_end(conf, topic="no-such-topic", timeout_s=5))


def test_no_group_is_made(conf, topic, admin):
    list(read_to_end({**conf, "group.id": "kshadow-reader"}, topic=topic))
    groups = admin.list_consumer_groups().result(20)
    assert "kshadow-reader" not in {group.group_id for group in groups.valid}


def offsets_sent(conf, partition):
    """Who has a transaction open in a partition of four."""
    names = (f"holder-{number}" for number in range(1_000))
    group = next(it for it in names if partition_for_group(it, 4) == partition)
    admin = AdminClient({**conf, **QUIET})
    await_all(admin.create_topics([NewTopic("orders", 1, 2)]))
    producer = Producer({**conf, **QUIET, "transactional.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    asking = Consumer({**conf, **QUIET, "group.id": group})
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], asking.consumer_group_metadata(), 30)
    asking.close()
    return producer


def test_partitions_without_a_leader_hold_up_no_others():
    """Their broker is gone, and has the only replica."""
    alone = {"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1"}
    with EmbeddedCluster(fetch_jars(), nodes=2, properties=alone) as cluster:
        conf = {"bootstrap.servers": cluster.bootstrap_servers}
        assert partition_count(conf, create=True) == 4
        gone = {number for number, leader in cluster.leaders(OFFSETS).items() if leader == 2}
        led = set(range(4)) - gone
        assert gone
        assert led
        here, there = min(led), min(gone)
        producer = Producer({**conf, **QUIET, "client.id": "__admin_client"})
        with TopicReader(conf) as reader:

            def polled(is_over):
                runs = []
                until(lambda: runs.extend(reader.poll(0.2)) or is_over(), 60, said=lambda: reader.last_error)
                return [record for run in runs for record in run.records()]

            reader.connect()
            polled(lambda: reader.read_until_s.keys() == gone | led)
            opened = offsets_sent(conf, there)
            polled(lambda: reader.held_back == {there: 0})
            cluster.brokers[2].kill()
            polled(lambda: not any(map(reader.is_stopped, led)) and all(map(reader.is_stopped, gone)))
            said = f"{OFFSETS}: expected leaders, none for partitions {sorted(gone)}"
            assert (str(reader.last_error), reader.healthy) == (said, False)
            assert reader.behind_records == dict.fromkeys(led, 0)
            before_s = time.monotonic()
            producer.produce(OFFSETS, b"v", b"k", here)
            assert producer.flush(20) == 0
            # All that is written there is known to be read, again and again.
            records = polled(
                lambda: (
                    reader.positions[here] == 1 and all(reader.read_until_s.get(it, 0.0) > before_s + 1 for it in led)
                )
            )
            assert [(it.partition, it.value) for it in records] == [(here, b"v")]
            assert reader.read_until_s.keys() == led
            # Nor is it known that the transaction has ended.
            assert reader.held_back == {there: 0}
            cluster.brokers[2].start()
            opened.commit_transaction(30)
            polled(lambda: reader.healthy and reader.read_until_s.keys() == gone | led)
            assert reader.held_back == {}
            producer.produce(OFFSETS, b"w", b"k", there)
            assert producer.flush(20) == 0
            assert [it.value for it in polled(lambda: reader.positions[there] == 3)] == [b"w"]


def test_a_broker_that_goes_and_comes_back(tmp_path):
    with EmbeddedBroker(fetch_jars(), directory=tmp_path, heap="256m") as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient({**conf, **QUIET})
        await_all(admin.create_topics([NewTopic("t", 1, 1)]))
        produce(conf, "t", 2)
        more = {"reconnect.backoff.max.ms": "500", "socket.timeout.ms": "2000"}
        with TopicReader({**conf, **more}, topic="t", probe_interval_s=1.0) as reader:
            assert {it for run in runs_until(reader, lambda: reader.caught_up) for it in run.leader_epochs} == {0}
            broker.kill()
            # It may have gone while it was asked who leads the partition.
            poll_until(reader, lambda: bool(re.search("Connection refused|isconnected", str(reader.last_error))))
            assert not reader.healthy
            assert isinstance(reader.last_error, SourceUnreachable)
            assert reader.caught_up
            with pytest.raises((SourceUnreachable, KafkaException)):
                list(read_to_end(conf, topic="t", timeout_s=1))
            broker.restart()
            poll_until(reader, lambda: reader.healthy)
            produce(conf, "t", 1)
            (run,) = runs_until(reader, lambda: reader.positions[0] == 3)
            assert list(run.offsets) == [2]
            (epoch,) = run.leader_epochs
            assert epoch > 0, "another leader: so the broker is told to be, as it comes back"
            (log,) = discover(tmp_path / "data" / "t-0")
            assert [it for runs in log.committed() for it in runs.leader_epochs] == [0, 0, epoch]
            broker.pause()  # connections stay open, nothing answers
            poll_until(reader, lambda: not reader.healthy)
            broker.resume()
            poll_until(reader, lambda: reader.healthy)
