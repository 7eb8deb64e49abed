"""Lag on real brokers: what an agent's mirror and the watch make of it, against the broker's own word."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from agent.common import clock
from agent.core.end_offsets import Lag, LagNote
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.views import CommittedOffset
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.primitives import ZERO_UUID
from agent.kafka.lag.asking import OffsetOutcome
from agent.kafka.lag.lag_calculator import CommittedPositions, LagCalculator, TopicLag, lowest_committed
from agent.kafka.lag.scraped import NOTHING_COMMITTED, LagSnapshot
from agent.kafka.lag.watch import LagWatcher, fetch_end_offsets
from agent.kafka.writer.topic import partition_count
from agent.persistence.cluster_state import ClusterState
from agent.presentation.json_views import lag_json
from agent.runtime.agent import Agent
from agent.runtime.group_lags import GroupLags
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.scenarios.committing import commit
from tests.live.versions import NEWEST, SUPPORTED
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

INTERVAL_S = 0.4
ONCE = pytest.mark.parametrize("live", [NEWEST], indirect=True)
"""What is the same with every version."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Live:
    """A broker, and an agent with a watch as the runtime has them."""

    version: str
    broker: EmbeddedBroker
    admin: AdminClient
    agent: Agent
    sums: LagCalculator

    def __post_init__(self) -> None:
        self.watch = LagWatcher(self.conf, lambda: lowest_committed(self.positions()), INTERVAL_S)

    @property
    def conf(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def positions(self) -> list[CommittedPositions]:
        with self.agent.lock:
            mirrors = list(self.agent.state.mirror.partitions.values())
            return [self.sums.take(it.offsets) for it in mirrors]

    def lag(self, group: str) -> dict[tuple[str, int], Lag]:
        """Each position of a group, by what is known now."""
        ends = self.watch.snapshot()
        with self.agent.lock:
            mirrors = list(self.agent.state.mirror.partitions.values())
            return {
                (topic, partition): ends.lag(topic, partition, it.offset, it.commit_ms, it.topic_id, now_ms())
                for mirror in mirrors
                for topic, partition, it in mirror.offsets.commits(group)
            }

    def summed(self, group: str) -> dict[str, TopicLag]:
        ends = self.watch.snapshot()
        taken = (LagSnapshot(it, ends, now_ms(), lambda topic: True) for it in self.positions())
        found = (it.groups(topics=True, partitions=False).get(group, NOTHING_COMMITTED) for it in taken)
        return {lag.topic: lag for it in found for lag in it.topics}

    def create(self, topic: str, partitions: int = 1) -> None:
        if topic in self.admin.list_topics(timeout=10).topics:
            self.delete(topic)  # of the first try of a test that is run once more
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)
        until(lambda: topic in self.admin.list_topics(timeout=10).topics)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)
        until(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def write(self, topic: str, count: int, partition: int = 0, **conf: Any) -> None:
        producer = Producer({**self.conf, "linger.ms": 0, **conf})
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(20) == 0

    def commit(self, group: str, *offsets: tuple[str, int, int]) -> None:
        commit(self.admin, group, [TopicPartition(*it) for it in offsets])

    def is_lag(self, group: str, place: tuple[str, int], lag: int | None, note: LagNote | None = None) -> None:
        """In the end it is this one."""
        until(
            lambda: (it := self.lag(group).get(place)) is not None and (it.records, it.note) == (lag, note),
            said=lambda: (self.lag(group), self.watch.snapshot().topics.get(place[0])),
        )


@pytest.fixture(scope="module", params=SUPPORTED)
def live(request: pytest.FixtureRequest) -> Iterator[Live]:
    properties = {
        "offsets.topic.num.partitions": "4",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:nobody",
        "transaction.state.log.num.partitions": "2",
        # What 4.x keeps until its next clean-up.
        "offsets.retention.check.interval.ms": "2000",
    }
    with EmbeddedBroker(fetch_jars(request.param), properties=properties) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient({**conf, "log_level": 2})
        partition_count(conf, create=True)
        agent = Agent(AgentOptions(conf=conf))
        live = Live(request.param, broker, admin, agent, LagCalculator())
        try:
            agent.start()
            until(lambda: agent.queries.has_caught_up)
            live.watch.start()
            yield live
        finally:
            live.watch.stop()
            agent.stop()


def test_hundreds_of_partitions_as_the_broker_has_them(live: Live) -> None:
    """As Kafka's tool computes it: the high watermark less the committed offset. 0 differences."""
    topics = [f"many-{number}" for number in range(4)]
    producer = Producer(live.conf)
    for topic in topics:
        live.create(topic, 100)
        for partition in range(100):
            for _ in range(partition % 7):
                producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    groups = ["many-a", "many-b"]
    for number, group in enumerate(groups):
        live.commit(
            group,
            *((topic, at, min(at % (5 + number), at % 7)) for topic in topics[number:] for at in range(100)),
        )
    until(lambda: sum(len(live.lag(group)) for group in groups) == 700)
    until(lambda: all(it.records is not None for group in groups for it in live.lag(group).values()))
    wanted: dict[str, dict[tuple[str, int], int]] = {}
    for group in groups:
        request = ConsumerGroupTopicPartitions(group)
        committed = live.admin.list_consumer_group_offsets([request])[group].result(20).topic_partitions
        asked = {TopicPartition(it.topic, it.partition): OffsetSpec.latest() for it in committed}
        ends = {
            (it.topic, it.partition): found.result(20).offset for it, found in live.admin.list_offsets(asked).items()
        }
        wanted[group] = {(it.topic, it.partition): ends[it.topic, it.partition] - it.offset for it in committed}
    assert sum(map(len, wanted.values())) == 700
    sums = {
        group: {topic: (sum(lag for (of, _), lag in lags.items() if of == topic), 100, 0) for topic, _ in lags}
        for group, lags in wanted.items()
    }

    def differences() -> list[object]:
        found = {group: {place: it.records for place, it in live.lag(group).items()} for group in groups}
        summed = {
            group: {topic: (it.records, it.partitions, it.unknown) for topic, it in live.summed(group).items()}
            for group in groups
        }
        return [it for it in ((found, wanted), (summed, sums)) if it[0] != it[1]]

    # Where looks at the ends are late there is no lag for a while.
    until(lambda: not differences(), said=differences)
    assert len(live.watch.snapshot().numbers) >= 400


@ONCE
def test_a_group_that_is_behind_and_commits_on_is_never_told_to_be_at_the_end(live: Live) -> None:
    """It is 200 records behind all the time, and goes through five times as many from look to look."""
    live.create("steady")
    state, lock = live.agent.state, live.agent.lock
    lags = GroupLags(state, lock, live.conf, 3.0, lambda _: True, with_shares=False, is_hidden=lambda _: False)
    assert lags.watcher is not None
    told: list[int] = []
    written, began, looks = 0, time.monotonic(), set[int]()
    try:
        while len(looks) < 4:
            live.write("steady", 40)
            written += 40
            if written == 400:
                lags.watcher.start()
            live.commit("steady-behind", ("steady", 0, max(written - 200, 0)))
            if (lag := lags.totals().get("steady-behind")) is not None:
                told.append(lag)
                looks.add(lags.ends().at_ms)
            assert time.monotonic() < began + 120
    finally:
        lags.watcher.stop()
    assert written > 2_000, "there is something that lag could be too low by"
    assert min(told) >= 160, told


@ONCE
@pytest.mark.parametrize("hidden", [[True, True], [False, False, True]], ids=["as it begins", "as it ends"])
def test_what_was_committed_while_nothing_was_read_is_no_lag(live: Live, hidden: list[bool]) -> None:
    """Until the next look a group was behind by all that it had consumed while a right was missing, or the agent's
    process was stopped."""
    live.create("resumed")
    live.write("resumed", 100)
    state, answers = ClusterState(), [*hidden]

    def is_hidden(partition: int) -> bool:
        return bool(answers) and answers.pop(0)

    lags = GroupLags(state, Lock(), live.conf, 60.0, lambda _: True, with_shares=False, is_hidden=is_hidden)
    assert lags.watcher is not None

    def read(at: int, committed: int) -> None:
        key, value = commit_key("resumes", "resumed", 0), commit_value(committed, now_ms(), -1)
        state.replay_batch(RecordBatch.of([RawRecord(0, at, now_ms(), key, value)]))

    read(0, 10)
    assert lags.watcher.look(time.monotonic())
    assert not answers
    read(1, 90)
    assert lags.totals() == {"resumes": 10}
    assert lags.watcher.look(time.monotonic())
    read(2, 95)
    assert lags.totals() == {"resumes": 10}, "as of the look again"


def test_seconds(live: Live) -> None:
    """From the watch's own history, and for what is older from the brokers', the same within what is promised."""
    live.create("aging")
    live.write("aging", 1)
    live.commit("ages", ("aging", 0, 1))
    live.is_lag("ages", ("aging", 0), 0)
    assert live.lag("ages")["aging", 0].seconds == 0
    before = time.time()
    live.write("aging", 10)
    after = time.time()
    live.is_lag("ages", ("aging", 0), 10)
    time.sleep(6)
    live.write("aging", 50)
    live.is_lag("ages", ("aging", 0), 60)
    # Where no look came between the two writes, the past is asked for, and known a bit later.
    until(lambda: live.lag("ages")["aging", 0].seconds is not None)
    seconds = live.lag("ages")["aging", 0].seconds
    now = time.time()
    assert seconds is not None
    assert now - after - 0.2 <= seconds <= now - before + INTERVAL_S + 1
    assert live.summed("ages")["aging"].seconds == pytest.approx(seconds, abs=1)

    found = live.agent.state.mirror.find("ages")
    assert found is not None
    ends = fetch_end_offsets(live.conf, found[1])
    (form,) = [lag_json(ends, now_ms(), are_newer=True)(it) for it in found[1]]
    assert form["lag"] == 60
    assert not form["lag_seconds_at_least"]
    assert 0.5 * (time.time() - before) <= form["lag_seconds"] <= 1.7 * (time.time() - before) + 1


def test_a_topic_is_deleted_and_comes_again(live: Live) -> None:
    live.create("again", 2)
    live.write("again", 10)
    live.write("again", 10, partition=1)
    live.commit("returns", ("again", 0, 4), ("again", 1, 10))
    live.is_lag("returns", ("again", 0), 6)
    before = live.watch.snapshot().topics["again"].topic_id
    live.delete("again")
    # The broker deletes what was committed to it, sooner or later; until then there is no lag.
    until(lambda: all(it.records is None for it in live.lag("returns").values()), said=lambda: live.lag("returns"))
    until(lambda: not live.lag("returns"))
    live.create("again", 1)
    live.write("again", 30)
    live.commit("returns", ("again", 0, 7))
    live.is_lag("returns", ("again", 0), 23)
    until(lambda: live.watch.snapshot().topics["again"].topic_id not in (before, bytes(16)))


def test_a_topic_comes_again_faster_than_anybody_looks(live: Live) -> None:
    """A commit to the topic of before is not held against the ends of this one for longer than it takes to see that
    it is another: until the broker drops the commit, or the topic's id is asked for."""
    live.create("quick")
    live.write("quick", 10)
    live.commit("quicker", ("quick", 0, 4))
    live.is_lag("quicker", ("quick", 0), 6)
    live.delete("quick")
    live.create("quick")
    live.write("quick", 100)
    time.sleep(1)
    deadline = time.monotonic() + 60
    right = 0
    while right < 50:
        told = live.lag("quicker").get(("quick", 0))
        right = right + 1 if told is None or told.records is None else 0
        assert time.monotonic() < deadline, told
        time.sleep(0.02)


def test_records_are_deleted_under_a_commit(live: Live) -> None:
    live.create("purged")
    live.write("purged", 100)
    live.commit("late", ("purged", 0, 10))
    live.is_lag("late", ("purged", 0), 90)
    place = TopicPartition("purged", 0, 60)
    live.admin.delete_records([place])[place].result(20)
    live.is_lag("late", ("purged", 0), 40, LagNote.BELOW_LOG_START)
    assert live.lag("late")["purged", 0].lost == 50


@ONCE
def test_since_when_the_first_record_that_is_left_has_been_there(live: Live) -> None:
    """Asked once, as a command does: it was told as some 290 s, by where the search for a deleted one had ended."""
    live.create("old")
    producer, before = Producer(live.conf), time.time() - 65
    for _ in range(100):
        producer.produce("old", b"x", partition=0, timestamp=int(before * 1000))
    assert producer.flush(20) == 0
    place = TopicPartition("old", 0, 60)
    live.admin.delete_records([place])[place].result(20)
    ends = fetch_end_offsets(live.conf, [CommittedOffset("old", 0, 10, 0, "", now_ms(), None)])
    told = ends.lag("old", 0, 10, now_ms(), bytes(16), now_ms())
    assert (told.records, told.lost, told.at_least, told.note) == (40, 50, True, LagNote.BELOW_LOG_START)
    assert told.seconds is not None
    assert 50 <= told.seconds <= time.time() - before


def test_transactions(live: Live) -> None:
    live.create("tx")
    live.write("tx", 5)
    live.commit("committed", ("tx", 0, 5))
    live.commit("uncommitted", ("tx", 0, 7))
    live.commit("behind", ("tx", 0, 3))
    producer = Producer({**live.conf, "transactional.id": f"tx-{live.version}", "linger.ms": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(4):
        producer.produce("tx", b"x", partition=0)
    producer.flush(20)
    # Who reads committed records stands at the first one that is open, and is not behind.
    live.is_lag("committed", ("tx", 0), 0, LagNote.OPEN_TRANSACTION)
    live.is_lag("behind", ("tx", 0), 2, LagNote.OPEN_TRANSACTION)
    live.is_lag("uncommitted", ("tx", 0), 2)
    assert live.lag("committed")["tx", 0].held_back == 4
    producer.commit_transaction(20)
    # Four records and the marker.
    live.is_lag("committed", ("tx", 0), 5)
    consumer = Consumer(
        {**live.conf, "group.id": "committed", "isolation.level": "read_committed", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("tx", 0, 5)])
    assert len(consumer.consume(4, 20)) == 4
    # A position moves past the marker, as a Java consumer's does.
    consumer.consume(1, 1)
    (position,) = consumer.position([TopicPartition("tx", 0)])
    consumer.close()
    assert position.offset in (9, 10)
    live.commit("committed", ("tx", 0, 10))
    live.is_lag("committed", ("tx", 0), 0)
    producer.begin_transaction()
    producer.produce("tx", b"x", partition=0)
    producer.flush(20)
    live.is_lag("committed", ("tx", 0), 0, LagNote.OPEN_TRANSACTION)
    producer.abort_transaction(20)
    live.is_lag("committed", ("tx", 0), 2)


def test_a_group_without_members_and_one_that_is_deleted(live: Live) -> None:
    live.create("left")
    live.write("left", 10)
    live.commit("goes", ("left", 0, 4))
    live.is_lag("goes", ("left", 0), 6)
    live.write("left", 5)
    live.is_lag("goes", ("left", 0), 11)
    live.admin.delete_consumer_groups(["goes"])["goes"].result(20)
    until(lambda: not live.lag("goes"))
    assert not live.summed("goes")
    until(lambda: ("left", 0) not in live.watch.snapshot().numbers)


def test_a_new_partition_that_nothing_was_committed_to(live: Live) -> None:
    live.create("grows", 2)
    live.write("grows", 10)
    live.commit("knows", ("grows", 0, 4))
    live.is_lag("knows", ("grows", 0), 6)
    assert live.lag("knows").keys() == {("grows", 0)}
    told = live.summed("knows")["grows"]
    assert (told.partitions, told.unknown, told.at_least) == (1, 0, False)


@ONCE
def test_a_topic_without_the_right(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    live.create("secret")
    live.create("public")
    for topic in ("secret", "public"):
        live.write(topic, 10)
    live.commit("sees", ("secret", 0, 4), ("public", 0, 4))
    live.is_lag("sees", ("secret", 0), 6)
    denied = AclBinding(
        ResourceType.TOPIC,
        "secret",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    live.admin.create_acls([denied])[denied].result(20)
    try:
        with caplog.at_level(logging.WARNING, "kshadow"):
            live.is_lag("sees", ("secret", 0), None, LagNote.TOPIC_DENIED)
            time.sleep(3 * INTERVAL_S)
        live.write("public", 1)
        live.is_lag("sees", ("public", 0), 7)
        said = [it for it in caplog.messages if "no lag in topics" in it]
        assert said == ["no lag in topics 'secret': ACL operation Describe on them is needed"]
        assert len(live.watch._suspended) == 1
        # To who may see none of what it asks for, its client says only that it knows no leader.
        for topic, note in (("secret", LagNote.TOPIC_DENIED), ("nowhere", LagNote.TOPIC_DELETED)):
            alone = LagWatcher(live.conf, lambda topic=topic: {topic: {0: 4}})
            assert alone.look(0.0)
            assert alone.snapshot().topics[topic].absent is note
    finally:
        allowed = _filter(denied)
        live.admin.delete_acls([allowed])[allowed].result(20)
    live.watch._suspended.clear()
    with caplog.at_level(logging.INFO, "kshadow"):
        live.is_lag("sees", ("secret", 0), 6)
    assert "lag in topics 'secret' is known again" in caplog.messages


def _filter(it: AclBinding) -> Any:
    from confluent_kafka.admin import AclBindingFilter

    return AclBindingFilter(
        it.restype, it.name, it.resource_pattern_type, it.principal, it.host, it.operation, it.permission_type
    )


@ONCE
def test_the_command(live: Live) -> None:
    live.create("told")
    live.write("told", 10)
    live.commit("tells", ("told", 0, 4))
    live.is_lag("tells", ("told", 0), 6)
    where = ("--bootstrap-server", live.broker.bootstrap_servers)
    result = kshadow("lag", "tells", *where)
    assert result.exit_code == 0
    header, row, *_ = result.stdout.splitlines()
    assert header.split()[:3] == ["TOPIC", "PARTITION", "COMMITTED"]
    assert row.split()[:6] == ["told", "0", "4", "0", "10", "6"]
    result = kshadow("describe", "tells", *where, "-o", "ndjson")
    assert '"lag":6' in result.stdout


@ONCE
@pytest.mark.parametrize("wrong_ms", [-3_600_000, 3_600_000])
def test_this_machines_clock_is_set(live: Live, wrong_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one that was an hour ahead and is right now the lag in seconds was 0 for an hour, by one that was behind an
    hour too much."""
    topic = f"set-{time.monotonic_ns()}"
    live.create(topic)
    watch = LagWatcher(live.conf, lambda: {topic: {0: 4}}, INTERVAL_S)
    began = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now_ms", lambda: now_ms() + wrong_ms)
        live.write(topic, 4)
        until(lambda: watch.look(time.monotonic()) and (topic, 0) in watch.snapshot().numbers)
        live.write(topic, 6)
        written = time.monotonic()
        assert watch.look(time.monotonic())
        lag = watch.snapshot().lag(topic, 0, 4, 0, ZERO_UUID, clock.now_ms())
        assert (lag.records, lag.at_least) == (6, False)
    time.sleep(2)
    assert watch.look(time.monotonic())
    lag = watch.snapshot().lag(topic, 0, 4, 0, ZERO_UUID, now_ms())
    assert (lag.records, lag.at_least) == (6, False)
    assert lag.seconds is not None
    assert time.monotonic() - written - 1 < lag.seconds < time.monotonic() - began + 1


@ONCE
def test_a_broker_that_stops_and_comes_again(live: Live) -> None:
    live.create("stays")
    live.write("stays", 10)
    live.commit("waits", ("stays", 0, 4))
    live.is_lag("waits", ("stays", 0), 6)
    live.broker.pause()
    try:
        until(lambda: live.lag("waits")["stays", 0] == Lag(note=LagNote.STALE_END))
        assert live.summed("waits")["stays"] == TopicLag("stays", None, None, 1, 1)
        until(lambda: live.watch.requests[OffsetOutcome.FAILED] > 0, 90)
    finally:
        live.broker.resume()
    live.is_lag("waits", ("stays", 0), 6)
    live.broker.kill()
    until(lambda: live.lag("waits")["stays", 0].note == LagNote.STALE_END)
    live.broker.restart()
    live.write("stays", 1)
    live.is_lag("waits", ("stays", 0), 7)
    # A broker that starts may say twice that there is no such topic: then the past is known from now on only.
    until(
        lambda: (lag := live.lag("waits")["stays", 0]).seconds is not None and (lag.seconds > 1 or lag.at_least),
        said=lambda: live.lag("waits"),
    )


@pytest.mark.thorough  # one that stops and comes again is below
@ONCE
def test_all_ends_are_known_again_soon_after_a_broker_came_back(live: Live) -> None:
    topics = [f"again-{number}" for number in range(20)]
    for topic in topics:
        live.create(topic)
    watch = LagWatcher(live.conf, lambda: {topic: {0: 0} for topic in topics}, INTERVAL_S)

    def is_all_answered() -> bool:
        failed = watch.requests[OffsetOutcome.FAILED]
        return watch.look(time.monotonic()) and watch.requests[OffsetOutcome.FAILED] == failed

    until(is_all_answered)
    live.broker.kill()
    live.broker.restart()
    until(lambda: watch.look(time.monotonic()))
    looks = 0
    while not is_all_answered():
        looks += 1
        assert looks < 5, watch.requests
        time.sleep(INTERVAL_S)
