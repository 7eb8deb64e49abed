"""Replicas that share the partitions out by Kafka's own group protocol, against a real broker."""

import time
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient

from agent.kafka.source.errors import SourceDenied
from agent.kafka.source.shared import SharedTopicReader
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.kafka.source.test_log_id import make_topic
from tests.live.kafka.source.test_topic import QUIET, await_all, produce

pytestmark = pytest.mark.usefixtures("kafka")

TOPIC = "__consumer_offsets"
PARTITIONS = 6


class Replica:
    """Keeps, as an agent would, how far each partition was read, and leaves it where the others find it."""

    def __init__(self, conf, name: str, kept: dict[int, int]) -> None:
        self.name, self.kept = name, kept
        self.at: dict[int, int] = {}
        self.seen: Counter[tuple[int, int]] = Counter()
        self.lost: list[int] = []
        self.reader = SharedTopicReader(
            conf, group="replicas", instance_id=name, on_revoked=self.partitions_revoked, start=self.start
        )
        self.notices: list[object] = []

    def start(self, log_id, bounds):
        out = {number: self.kept.get(number, 0) for number in bounds}
        self.at.update(out)
        return out

    def partitions_revoked(self, partitions, lost):
        for number in partitions:
            position = self.at.pop(number)
            if lost:
                self.lost.append(number)
            else:
                self.kept[number] = position

    def step(self, timeout_s=0.1):
        for run in self.reader.poll(timeout_s):
            for record in run.records():
                assert record.offset == self.at[run.partition], (self.name, record)
                self.at[run.partition] = record.offset + 1
                self.seen[run.partition, record.offset] += 1
        for notice in self.reader.take_notices():
            self.notices.append(notice)
            # Begun anew.
            self.seen.clear()
            self.at = dict.fromkeys(self.at, 0)
            self.kept.clear()


@pytest.fixture
def conf():
    with EmbeddedBroker(
        fetch_jars(), properties={"offsets.topic.num.partitions": str(PARTITIONS)}, heap="256m"
    ) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"}
        make_topic(conf)
        yield conf


def until(replicas, done, within_s=40.0):
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, [(it.name, it.at, it.reader.last_error) for it in replicas]
        for replica in replicas:
            replica.step()


def test_partitions_move_and_each_record_is_read_once(conf):
    kept: dict[int, int] = {}
    ends = dict.fromkeys(range(1, PARTITIONS), 0)
    replicas = [Replica(conf, "one", kept)]

    def write(count):
        for number in ends:
            produce(conf, TOPIC, count, partition=number)

    write(100)
    one = replicas[0]
    until(replicas, lambda: len(one.at) == PARTITIONS and one.reader.caught_up and sum(one.at.values()) >= 500)
    assert one.reader.healthy
    assert one.reader.is_sole_owner
    replicas.append(Replica(conf, "two", kept))
    two = replicas[1]
    until(replicas, lambda: len(two.at) == len(one.at) == PARTITIONS // 2 and two.reader.caught_up)
    write(50)
    until(replicas, lambda: sum((one.seen + two.seen).values()) >= 750 and one.reader.caught_up)
    two.reader.close()
    replicas.pop()
    # A static member is waited for as long as a session lasts; then the other has all again.
    assert two.at == {}
    write(10)
    until(replicas, lambda: len(one.at) == PARTITIONS and one.reader.caught_up)
    until(replicas, lambda: sum(1 for key in one.seen + two.seen if key[0] in ends) >= 5 * 160)
    # By the hand-over of positions every record was read, and by one of the two only.
    counts = one.seen + two.seen
    assert set(counts.values()) == {1}
    assert one.lost == two.lost == []
    one.reader.close()


def test_a_topic_made_anew_under_a_shared_reader(conf):
    replica = Replica(conf, "one", {})
    produce(conf, TOPIC, 20, partition=1)
    until([replica], lambda: replica.at.get(1) == 20)
    first = replica.reader.log_id
    admin = AdminClient({**conf, **QUIET})
    await_all(admin.delete_topics([TOPIC]))
    time.sleep(1)
    make_topic(conf)
    until([replica], lambda: replica.reader.log_id != first and replica.reader.caught_up, within_s=60)
    produce(conf, TOPIC, 7, partition=1)
    until([replica], lambda: sum(1 for number, _ in replica.seen if number == 1) == 7, within_s=60)
    assert len(replica.notices) >= 1
    replica.reader.close()


def test_whose_instance_id_another_takes_has_nothing_any_more(conf):
    one = Replica(conf, "same", {})
    until([one], lambda: len(one.at) == PARTITIONS)
    other = Replica(conf, "same", {})
    refusals = []

    def step():
        try:
            one.step()
        except SourceDenied as error:
            refusals.append(error)
        other.step()

    deadline = time.monotonic() + 40
    while not (refusals and len(other.at) == PARTITIONS):
        assert time.monotonic() < deadline, (one.reader.last_error, other.at)
        step()
    assert not one.reader.is_sole_owner
    assert other.reader.is_sole_owner
    assert "an instance id that nobody else has, not same" in str(refusals[0])
    one.reader.close()
    other.reader.close()
