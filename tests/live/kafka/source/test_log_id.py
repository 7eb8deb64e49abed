"""Which log it is: a topic that is made anew under its name is read anew, and nobody takes one for the other."""

import time

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from agent.core.records import LogId
from agent.kafka.source.errors import SourceMisconfigured, TopicMissing
from agent.kafka.source.identity import IdentityClient
from agent.kafka.source.progress import LogBounds, PartitionCountChanged, TopicRecreated
from agent.kafka.source.topic import TopicReader
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.kafka.source.test_topic import QUIET, await_all, caught_up, poll_until, produce
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

TOPIC = "__consumer_offsets"


@pytest.fixture
def broker():
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "3"}, heap="256m") as broker:
        yield broker


def make_topic(conf):
    """It is made when a group looks for its coordinator."""
    consumer = Consumer({**conf, "group.id": "any", "log_level": 0})
    consumer.subscribe(["none"])
    consumer.poll(3)
    consumer.close()


def make_topic_anew(conf, identity, first):
    admin = AdminClient({**conf, **QUIET})
    await_all(admin.delete_topics([TOPIC]))
    deadline = time.monotonic() + 60
    while True:
        try:
            if identity.ask(TOPIC, 3) != first:
                break
        except TopicMissing:
            make_topic(conf)
        assert time.monotonic() < deadline


def test_what_was_left_to_others_is_read_anew_with_the_rest(broker):
    conf = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"}
    make_topic(conf)
    produce(conf, TOPIC, 5, partition=0)
    produce(conf, TOPIC, 5, partition=1)
    with TopicReader(conf) as reader:
        reader.connect()
        reader.leave([0])
        first = reader.log_id
        reader.read_elsewhere(0, 3)
        assert {it.partition for it in poll_until(reader, lambda: reader.positions[1] == 5)} == {1}
        identity = IdentityClient(Consumer({**conf, "group.id": "any", **QUIET}), conf)
        make_topic_anew(conf, identity, first)
        produce(conf, TOPIC, 8, partition=0)
        records = poll_until(reader, lambda: reader.log_id != first and reader.caught_up)
        assert [it.offset for it in records if it.partition == 0] == [*range(8)]
        # It is of a log that is no more what others have read.
        reader.take_back([0])
        assert poll_until(reader, lambda: reader.caught_up) == []


def test_a_topic_that_was_made_anew_is_another_log(broker):
    conf = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"}
    consumer = Consumer({**conf, "group.id": "any", **QUIET})
    identity = IdentityClient(consumer, conf)
    # Not the offsets topic itself: a consumer asks for its group's coordinator when it likes, and that makes it.
    with pytest.raises(TopicMissing):
        identity.ask("none", 3)
    make_topic(conf)
    asked: list[tuple[LogId, dict[int, LogBounds]]] = []

    def start(log_id, bounds):
        asked.append((log_id, dict(bounds)))
        return {0: 2}

    produce(conf, TOPIC, 5, partition=0)
    produce(conf, TOPIC, 9, partition=2)
    with TopicReader(conf, start=start, partitions=lambda number: number != 1) as reader:
        assert [it.offset for it in caught_up(reader) if it.partition == 0] == [2, 3, 4]
        first = reader.log_id
        assert first == identity.ask(TOPIC, 3)
        assert first.cluster_id == "a3NoYWRvdy1lbWJlZGRlZA"
        assert asked == [(first, {0: LogBounds(0, 5), 2: LogBounds(0, 9)})]
        assert reader.take_notices() == []

        make_topic_anew(conf, identity, first)
        # More than there was, so that going on from the old offset would find records too.
        produce(conf, TOPIC, 8, partition=0)
        records = poll_until(reader, lambda: reader.log_id != first and reader.caught_up)
        second = reader.log_id
        assert [it for it in reader.take_notices() if isinstance(it, TopicRecreated)] == [
            TopicRecreated(first, second)
        ]
        assert asked[1][0] == second
        assert asked[1][1].keys() == {0, 2}
        # This owner begins at 2 whatever the log; all that is before the notice is nothing to it.
        assert [it.offset for it in records if it.partition == 0][-6:] == [2, 3, 4, 5, 6, 7]
        assert second != first


def test_a_topic_that_was_made_anew_with_fewer_partitions_is_another_log(broker):
    """Of those that it has no more no fetch tells that offsets are lost: reading had stopped for ever."""
    conf = {"bootstrap.servers": broker.bootstrap_servers}
    admin, topic = AdminClient({**conf, **QUIET}), "few"

    def is_made(partitions: int) -> bool:
        try:
            await_all(admin.create_topics([NewTopic(topic, partitions, 1)]))
        except KafkaException:
            return False
        return True

    until(lambda: is_made(3))
    produce(conf, topic, 5, partition=2)
    with TopicReader(conf, topic=topic) as all_of_them, TopicReader(conf, topic=topic, partitions=[2]) as one:
        assert len(caught_up(all_of_them)) == len(caught_up(one)) == 5
        first = all_of_them.log_id
        await_all(admin.delete_topics([topic]))
        until(lambda: is_made(1))
        poll_until(all_of_them, lambda: all_of_them.log_id != first and all_of_them.caught_up)
        assert all_of_them.positions == {0: 0}
        assert all_of_them.take_notices() == [TopicRecreated(first, all_of_them.log_id)]
        # Who reads this one alone looks for its groups anew after a restart.
        with pytest.raises(SourceMisconfigured):
            poll_until(one, lambda: False)


def test_a_rule_holds_for_partitions_that_come_later(broker):
    conf = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"}
    make_topic(conf)
    with TopicReader(conf, partitions=lambda number: number % 2 == 0, probe_interval_s=0.3) as reader:
        caught_up(reader)
        assert set(reader.positions) == {0, 2}
        admin = AdminClient({**conf, **QUIET})
        await_all(admin.create_partitions([NewPartitions(TOPIC, 6)]))
        poll_until(reader, lambda: set(reader.positions) == {0, 2, 4})
        assert reader.take_notices() == [PartitionCountChanged(3, 6)]
