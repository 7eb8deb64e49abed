"""What is read in bulk from a real broker is what is read record by record, whatever happens meanwhile."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from threading import Thread, stack_size

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.core.packed import PackedColumn
from agent.core.record_time import FOLLOWERS
from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source import bulk, topic
from agent.kafka.source.progress import OffsetReset, ReaderNotice, TopicRecreated
from agent.kafka.source.topic import TopicReader
from agent.runtime import bulk_catch_up
from agent.runtime.bulk_catch_up import read_in_bulk
from agent.tools.embedded import EmbeddedBroker, fetch_jars

pytestmark = pytest.mark.usefixtures("kafka")

QUIET = {"log_level": 0}
PARTITIONS = 3


class Keeping:
    """Keeps what it is given, as `read_in_bulk` gives it; each time `at_take` is called with the number of times."""

    def __init__(self, at_take: Callable[[int], None] = lambda times: None) -> None:
        self.records: dict[int, list[RawRecord]] = {it: [] for it in range(PARTITIONS)}
        self.next_ms: dict[int, list[int]] = {}
        self.times = 0
        self._at_take = at_take
        self.wants_no_more = False

    def take(self, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        assert isinstance(batch.keys, PackedColumn)
        told = self.next_ms.get(batch.partition)
        assert told is None or told[: len(batch)] == [*batch.timestamps_ms[:FOLLOWERS]]
        self.records[batch.partition] += batch.records()
        self.next_ms[batch.partition] = list(next_ms)
        self.times += 1
        self._at_take(self.times)
        return True

    def next_offset(self, partition: int) -> int:
        its = self.records[partition]
        return its[-1].offset + 1 if its else 0

    def let_go(self, partition: int) -> None:
        """Nothing is held back."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), heap="512m") as broker:
        yield broker


@pytest.fixture
def name(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic, of which everything is read in bulk, in small runs."""
    monkeypatch.setattr(bulk_catch_up, "MIN_RECORDS", 0)
    monkeypatch.setattr(bulk, "RUN_RECORDS", 50)
    return made(broker, f"t-{uuid.uuid4()}")


def made(broker: EmbeddedBroker, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    return name


def write(broker: EmbeddedBroker, name: str, rng: random.Random, partition: int, count: int, **conf: str) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 2_000_000, **QUIET, **conf}
    )
    if is_transaction := "transactional.id" in conf:
        producer.init_transactions(20)
        producer.begin_transaction()
    for _ in range(count):
        key, value = (
            rng.choice([None, b"", rng.randbytes(rng.choice([1, 8, 60, 900, 3]))]) for _ in ("key", "value")
        )
        if rng.random() < 0.01:
            value = rng.randbytes(900_000)
        time_ms = 1_700_000_000_000 + rng.randrange(100_000)
        producer.produce(name, value, key, partition, timestamp=time_ms, headers={"a": b"b"})
    assert producer.flush(30) == 0
    if is_transaction and rng.random() < 0.5:
        producer.abort_transaction(20)
    elif is_transaction:
        producer.commit_transaction(20)


def polled(reader: TopicReader) -> tuple[dict[int, list[RawRecord]], list[ReaderNotice]]:
    """All that comes until the end as of the start was reached, and a little more."""
    records: dict[int, list[RawRecord]] = {it: [] for it in range(PARTITIONS)}
    notices: list[ReaderNotice] = []
    for _ in range(600):
        for batch in reader.poll(0.1):
            records[batch.partition] += batch.records()
        notices += reader.take_notices()
        if reader.caught_up and reader.healthy:
            break
    assert reader.caught_up, (reader.positions, reader.last_error)
    return records, notices


def test_all_that_the_ordinary_reader_gives(broker: EmbeddedBroker, name: str) -> None:
    rng = random.Random(7)
    for partition in range(PARTITIONS):
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            write(broker, name, rng, partition, 120, **{"compression.type": compression})
            if partition:
                write(broker, name, rng, partition, 40, **{"transactional.id": f"{name}-{partition}"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.delete_records([TopicPartition(name, 2, 90)])[TopicPartition(name, 2)].result(20)
    conf = {"bootstrap.servers": broker.bootstrap_servers}
    with TopicReader(conf, topic=name) as reader:
        expected, _ = polled(reader)
        positions = reader.positions
    assert min(map(len, expected.values())) > 500
    assert expected[2][0].offset == 90
    kept = Keeping()
    with TopicReader(conf, topic=name) as reader:
        reader.connect()
        assert not read_in_bulk(reader, conf, kept), "all was read"
        assert reader.caught_up
        assert reader.positions == positions
        assert kept.records == expected
        assert kept.times > 30
        assert kept.next_ms == {it: [] for it in range(PARTITIONS)}
        # From there the ordinary one goes on.
        write(broker, name, rng, 1, 3)
        more, notices = {1: list[RawRecord]()}, reader.take_notices()
        for _ in range(100):
            for batch in reader.poll(0.1):
                more[batch.partition] += batch.records()
            if len(more[1]) == 3:
                break
        assert [it.offset for it in more[1]] == [positions[1], positions[1] + 1, positions[1] + 2]
        assert notices == []


def test_who_has_begun_goes_on(broker: EmbeddedBroker, name: str) -> None:
    write(broker, name, random.Random(1), 0, 400)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()
    kept.records[0] = [RawRecord(0, 149, 0, None, None)]
    with TopicReader(conf, topic=name, start={0: 150}) as reader:
        reader.connect()
        read_in_bulk(reader, conf, kept)
    assert [it.offset for it in kept.records[0]] == list(range(149, 400))


def test_an_offset_that_is_gone_is_for_the_ordinary_reader(broker: EmbeddedBroker, name: str) -> None:
    write(broker, name, random.Random(1), 0, 300)
    write(broker, name, random.Random(2), 1, 300)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()
    with TopicReader(conf, topic=name) as reader:
        reader.connect()
        admin = AdminClient({**conf, **QUIET})
        admin.delete_records([TopicPartition(name, 0, 200)])[TopicPartition(name, 0)].result(20)
        read_in_bulk(reader, conf, kept)
        records, notices = polled(reader)
    assert kept.records[0] == []
    assert [it.offset for it in records[0]] == list(range(200, 300))
    assert [it.offset for it in kept.records[1]] == list(range(300))
    assert all(isinstance(it, OffsetReset) for it in notices)


def test_what_the_reader_was_told_of_partitions_before_it_left_them_is_of_no_account(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that an offset is gone: it is told again once the partition is taken back."""
    monkeypatch.setattr(bulk_catch_up, "MEANWHILE_S", 0.0)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()
    admin = AdminClient({**conf, **QUIET})
    for partition in range(PARTITIONS):
        write(broker, name, random.Random(partition), partition, 300)
    gone = [TopicPartition(name, partition, 200) for partition in (0, 1)]
    for deleted in admin.delete_records(gone).values():
        deleted.result(20)
    for partition in (0, 1):
        kept.records[partition] = [RawRecord(partition, 99, 0, None, None)]
    with TopicReader(conf, topic=name, start={0: 100, 1: 100}) as reader:
        reader.connect()
        time.sleep(1)
        meanwhile = list[RecordBatch]()
        read_in_bulk(reader, conf, kept, lambda: meanwhile.extend(reader.poll(0.0)))
        assert meanwhile == []
        assert reader.take_notices() == []
        records, notices = polled(reader)
    assert [it.offset for it in kept.records[2]] == list(range(300))
    assert [[it.offset for it in records[partition]] for partition in (0, 1)] == [list(range(200, 300))] * 2
    assert sorted(it.partition for it in notices if isinstance(it, OffsetReset)) == [0, 1]
    assert len(notices) == 2


def test_a_topic_that_is_made_anew_is_read_from_its_beginning(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "_IDENTIFY_S", 0.1)
    monkeypatch.setattr(bulk_catch_up, "MEANWHILE_S", 0.0)
    write(broker, name, random.Random(1), 0, 2_000)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})

    def make_anew(times: int) -> None:
        if times == 2:
            admin.delete_topics([name])[name].result(20)
            for _ in range(50):
                try:
                    made(broker, name)
                    break
                except Exception:  # noqa: BLE001  # it is still being deleted
                    continue
            write(broker, name, random.Random(9), 0, 70)

    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping(make_anew)
    with TopicReader(conf, topic=name, probe_interval_s=0.2) as reader:
        reader.connect()
        notices: list[ReaderNotice] = []
        after: list[RawRecord] = []

        def look() -> None:
            for batch in reader.poll(0.0):
                after.extend(batch.records())
            notices.extend(reader.take_notices())

        read_in_bulk(reader, conf, kept, look)
        records, more = polled(reader)
    assert [type(it) for it in notices + more].count(TopicRecreated) == 1
    assert len(kept.records[0]) < 2_000
    assert [it.offset for it in after + records[0]] == list(range(70))


def test_a_broker_that_goes_away_meanwhile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_catch_up, "MIN_RECORDS", 0)
    monkeypatch.setattr(bulk_catch_up, "SILENT_S", 0.5)
    monkeypatch.setattr(bulk, "RUN_RECORDS", 50)
    monkeypatch.setattr(bulk, "RUNS_AHEAD", 1)
    with EmbeddedBroker(fetch_jars(), heap="512m") as broker:
        name = made(broker, "t")
        write(broker, name, random.Random(1), 0, 30_000)
        back = Thread(target=broker.restart)

        def kill(times: int) -> None:
            if times == 3:
                broker.kill()
                back.start()

        conf = {"bootstrap.servers": broker.bootstrap_servers, "queued.min.messages": "100"}
        kept = Keeping(kill)
        with TopicReader(conf, topic=name, probe_interval_s=0.5) as reader:
            reader.connect()
            assert read_in_bulk(reader, conf, kept), "it is to be tried again"
            back.join()
            records, notices = polled(reader)
    assert notices == []
    assert [it.offset for it in kept.records[0] + records[0]] == list(range(30_000))
    assert 0 < len(kept.records[0]) < 30_000


def test_who_wants_no_more_is_given_no_more(broker: EmbeddedBroker, name: str) -> None:
    write(broker, name, random.Random(1), 0, 1_000)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()

    def enough(times: int) -> None:
        kept.wants_no_more = times == 4

    kept._at_take = enough
    with TopicReader(conf, topic=name) as reader:
        reader.connect()
        assert not read_in_bulk(reader, conf, kept)
        records, _ = polled(reader)
    assert kept.times == 4
    assert [it.offset for it in kept.records[0] + records[0]] == list(range(1_000))


def test_what_is_little_is_not_read_in_bulk(
    broker: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(broker, name, random.Random(1), 0, 100)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()
    monkeypatch.setattr(bulk_catch_up, "MIN_RECORDS", 101)
    with TopicReader(conf, topic=name) as reader:
        reader.connect()
        read_in_bulk(reader, conf, kept)
        records, _ = polled(reader)
    assert kept.times == 0
    assert len(records[0]) == 100


def test_where_no_thread_can_be_started_it_is_read_record_by_record(broker: EmbeddedBroker, name: str) -> None:
    write(broker, name, random.Random(1), 0, 100)
    conf, kept = {"bootstrap.servers": broker.bootstrap_servers}, Keeping()
    with TopicReader(conf, topic=name) as reader:
        reader.connect()
        size = stack_size(1 << 46)
        try:
            assert not read_in_bulk(reader, conf, kept)
        finally:
            stack_size(size)
        records, _ = polled(reader)
    assert kept.times == 0
    assert len(records[0]) == 100
