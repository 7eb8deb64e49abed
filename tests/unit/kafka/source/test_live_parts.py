"""What of the live reader needs no broker: conversion, progress, properties, errors."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from agent.common.pacing import STOOD_STILL_S
from agent.core.records import LogId, RawRecord
from agent.kafka.source import TOPIC
from agent.kafka.source.client import DEFAULTS, classify, consumer_properties
from agent.kafka.source.columns import record_batches_of
from agent.kafka.source.errors import SourceDenied, SourceMisconfigured, SourceUnreachable, TopicMissing
from agent.kafka.source.health import ReaderHealth
from agent.kafka.source.once import read_to_end
from agent.kafka.source.progress import OffsetReset, PartitionCountChanged, PartitionProgress, TopicRecreated
from agent.kafka.source.topic import TopicReader

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def message(
    partition: int, offset: int, value: bytes | None = b"v", timestamp: tuple[int, int] | None = None
) -> Message:
    return Message("t", partition, offset, b"k", value, timestamp=timestamp or (1, 1000 + offset))


def test_runs_are_of_one_partition_and_keep_the_order():
    runs = record_batches_of([message(1, 5), message(1, 8), message(0, 2, None), message(1, 9)])
    assert [(run.partition, list(run.offsets), list(run.timestamps_ms)) for run in runs] == [
        (1, [5, 8], [1005, 1008]),
        (0, [2], [1002]),
        (1, [9], [1009]),
    ]
    assert list(runs[1].records()) == [RawRecord(0, 2, 1002, b"k", None)]
    assert record_batches_of([]) == []


def test_offsets_that_are_taken_out_when_asked_for_are_a_sequence():
    (run,) = record_batches_of([message(0, offset) for offset in (3, 4, 7)])
    column = run.offsets
    assert (len(column), column[-1], column[0], column[1:]) == (3, 7, 3, [4, 7])
    assert 4 in column
    assert column == [3, 4, 7]
    assert column != 3
    assert column.index(7) == 2
    assert sum(column) == 14


def test_a_run_is_taken_apart_and_joined_to_the_next():
    first, second = (record_batches_of([message(0, at) for at in offsets])[0] for offsets in ((3, 4, 7), (8, 9)))
    joined = first.part(1, 3).followed_by(second)
    assert list(joined.records()) == [RawRecord(0, at, 1000 + at, b"k", b"v") for at in (4, 7, 8, 9)]
    assert joined.part(0, 2).newest_ms == 1007


def test_no_timestamp_is_minus_one():
    (run,) = record_batches_of([message(0, 1, timestamp=(0, -1))])
    assert list(run.timestamps_ms) == [-1]
    assert run.timestamps_ms[0] == -1


@pytest.mark.parametrize(
    ("position", "target", "steps", "reached", "why"),
    [
        (0, 0, [], True, "1: an empty partition"),
        (5, 5, [], True, "2: goes on at the end"),
        (0, 9, [], False, "3: nothing came yet"),
        (0, 9, [(9, False)], True, "4: the last record came"),
        (0, 9, [(8, False)], False, "5: one record is missing"),
        (0, 9, [(8, True)], True, "6: the end, and the last offset holds no record"),
        (0, 9, [(20, False)], True, "7: the last offset holds no record, and later ones came"),
        (0, 9, [(9, True), (12, False)], True, "8: caught up once is caught up"),
    ],
)
def test_caught_up(position, target, steps, reached, why):
    progress = PartitionProgress(position, target, target)
    for step, at_end in steps:
        progress.advance(step, at_end=at_end)
    assert progress.reached is reached, why


def test_what_was_written_in_an_outage_is_caught_up_with():
    progress = PartitionProgress(9, 9, 9)
    progress.catch_up(9)
    assert progress.is_current
    progress.catch_up(11)
    assert not progress.is_current
    assert progress.reached, "once"
    progress.advance(11)
    assert progress.is_current


def test_stalled_is_an_end_ahead_and_not_one_record_from_probe_to_probe():
    progress = PartitionProgress(0, 9, 9)
    assert not progress.check_stalled(9)  # just begun
    assert progress.check_stalled(9)
    progress.advance(3)
    assert not progress.check_stalled(9)
    assert progress.check_stalled(12)
    progress.advance(12)
    assert not progress.check_stalled(12)
    assert not progress.check_stalled(12)
    progress.end = 15  # asked for between two probes
    assert not progress.check_stalled(15)  # written since; ours only from the next probe on
    assert progress.check_stalled(15)


def test_behind_is_by_whichever_end_is_known_to_be_later():
    progress = PartitionProgress(4, 9, 9)
    assert (progress.behind_records(-1001), progress.behind_records(11)) == (5, 7)
    progress.advance(12)
    assert progress.behind_records(11) == 0


class Brokers:
    """What a consumer knows of high watermarks from its fetches, and what it is told of last stable offsets."""

    def __init__(self, fetched: dict[int, int], stable: dict[int, int]) -> None:
        self.fetched, self.stable = fetched, stable

    def get_watermark_offsets(self, place: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached, "that would be a question to a broker"
        return 0, self.fetched.get(place.partition, -1001)

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(it.topic, it.partition, self.stable[it.partition]) for it in places]

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        led = dict.fromkeys(self.stable, SimpleNamespace(leader=1))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=led)})


@pytest.mark.parametrize(
    ("position", "fetched", "stable", "held_back", "is_read", "why"),
    [
        (9, 9, 9, False, True, "1: read to its end"),
        (3, 9, 9, False, False, "2: the reader lags"),
        (9, 9, 12, False, False, "3: written since the last fetch"),
        (9, 12, 9, True, False, "4: a transaction is open at the reader's place"),
        (3, 12, 9, True, False, "5: and the reader lags as well"),
        (9, -1001, 9, False, False, "6: no fetch was answered yet: one may be open"),
    ],
)
def test_held_back_is_an_end_below_what_was_known_to_be_written(position, fetched, stable, held_back, is_read, why):
    health = ReaderHealth("t", 30.0)
    progress = {0: PartitionProgress(position, stable, stable)}
    health.look(Brokers({0: fetched}, {0: stable}), progress)
    assert health.held_back == ({0: stable} if held_back else {}), why
    assert (0 in health.read_until_s) is is_read, why


def test_the_ends_are_asked_for_at_once_where_it_matters():
    health, brokers = ReaderHealth("t", 30.0), Brokers({0: 9}, {0: 9})
    progress = {0: PartitionProgress(9, 9, 9)}
    health.look(brokers, progress)
    brokers.fetched = {0: 12}
    health.look(brokers, progress)
    assert health.held_back == {}, "a moment ago is as good"
    health.confirm_now()
    health.look(brokers, progress)
    assert health.held_back == {0: 9}


def test_what_was_written_while_a_right_was_missing_is_caught_up_with():
    """Where brokers answer what was asked, and refuse to give records: an agent was ready with all of it unread."""
    health, progress = ReaderHealth("t", 30.0), {0: PartitionProgress(9, 9, 9), 1: PartitionProgress(5, 5, 5)}
    progress[0].error = SourceDenied("no right", right="Read")
    assert health.probe(Brokers({}, {0: 20, 1: 7}), progress, may_wait=False) == 2
    progress[0].advance(15)
    assert (progress[0].error, progress[0].is_current, progress[1].is_current) == (None, False, True)
    progress[0].advance(20)
    assert progress[0].is_current


def test_what_a_connection_says_later_is_the_reason():
    health, refused = ReaderHealth("t", 30.0), KafkaError(KafkaError._SSL, "ssl://b:1: certificate verify failed")
    health.on_client_error(refused)
    assert health.error is None, "only a probe tells whether nothing works"
    health.works()
    health.probe_failed(SourceUnreachable("asking for partitions: Broker transport failure"))
    health.on_client_error(refused)
    assert "certificate" in str(health.error)
    health.error = denied = SourceDenied("no right", right="Describe")
    health.on_client_error(refused)
    assert health.error is denied


def test_properties_of_the_caller_win_over_defaults_and_not_over_what_is_needed():
    properties = consumer_properties({**NOBODY, "client.id": "me", "sasl.username": "u"})
    assert properties["client.id"] == "me"
    assert properties["sasl.username"] == "u"
    assert properties["group.id"] == DEFAULTS["group.id"]
    assert properties["isolation.level"] == "read_committed"
    with pytest.raises(SourceMisconfigured, match=r"property isolation\.level: kshadow needs 'read_committed'"):
        consumer_properties({**NOBODY, "isolation.level": "read_uncommitted"})
    with pytest.raises(SourceMisconfigured, match=r"bootstrap\.servers: expected host:port"):
        consumer_properties({})


@pytest.mark.parametrize("wrong", [{"no.such.property": "1"}, {"socket.timeout.ms": "soon"}])
def test_properties_that_librdkafka_does_not_know(wrong):
    with pytest.raises(SourceMisconfigured, match=next(iter(wrong))):
        TopicReader({**NOBODY, **wrong})


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SourceDenied, "needed: ACL operation Describe on topic t"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, SourceDenied, "on the cluster"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, SourceDenied, "credentials that the cluster accepts"),
        (KafkaError._AUTHENTICATION, SourceDenied, "credentials that the cluster accepts"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissing, "expected topic t, the cluster has none"),
        (KafkaError._TRANSPORT, SourceUnreachable, "reading: "),
    ],
)
def test_errors_say_what_is_missing(code, kind, says):
    error = classify(KafkaError(code), doing="reading", topic="t")
    assert type(error) is kind
    assert says in str(error)


@pytest.mark.parametrize(("topic", "is_made"), [(TOPIC, True), ("kshadow-history", False)])
def test_of_the_topic_of_offsets_alone_it_is_told_who_makes_it(topic, is_made):
    error = classify(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), doing="reading", topic=topic)
    assert str(error).startswith(f"reading: expected topic {topic}, the cluster has none")
    assert ("when the first consumer group asks" in str(error)) is is_made


def test_a_partition_that_is_read_anew_is_not_read_until_it_is_at_its_end_again():
    with TopicReader(NOBODY) as reader:
        reader._health.read_until_s = {0: 3.0, 1: 3.0}
        reader._assignment.progress = {0: PartitionProgress(9, 9, 9), 1: PartitionProgress(0, 9, 9)}
        assert (reader.read_until_s, reader.current_partitions) == ({0: 3.0}, {0: True, 1: False})
        reader._assignment.progress[1].advance(9, at_end=True)
        assert reader.read_until_s == {0: 3.0, 1: 3.0}


def test_what_was_written_while_the_process_was_stopped_is_not_known():
    """Groups were behind by all that they had consumed meanwhile, if the ends were asked for before the topic."""
    with TopicReader(NOBODY) as reader:
        reader._assignment.progress = {0: PartitionProgress(9, 9, 9)}
        reader._standstill.lasted_s(time.monotonic())
        assert not reader.is_stopped(0)
        reader._standstill.lasted_s(time.monotonic() - STOOD_STILL_S)
        assert reader.is_stopped(0)
        reader._standstill.lasted_s(time.monotonic())
        assert not reader.is_stopped(0)


def test_who_waits_for_sinks_while_it_catches_up_knows_how_far_it_is():
    """/readyz told `0 records to go` while sinks did not take what had been read."""
    with TopicReader(NOBODY) as reader:
        reader._assignment.progress = {0: PartitionProgress(2, 9, 9), 1: PartitionProgress(5, 5, 5)}
        reader._standstill.lasted_s(time.monotonic() - STOOD_STILL_S)
        assert reader.behind_records == {0: 7, 1: 0}
        reader._assignment.progress[1].error = SourceDenied("no right", right="Read")
        assert reader.behind_records == {0: 7}


def test_nobody_answers():
    with TopicReader(NOBODY) as reader:
        assert (reader.poll(0.2), reader.healthy, reader.caught_up) == ([], False, False)
        assert isinstance(reader.last_error, SourceUnreachable)
        with pytest.raises(SourceUnreachable, match="Connection refused"):
            reader.connect(1)
    reader.close()
    with pytest.raises(SourceUnreachable, match="Connection refused"):
        list(read_to_end(NOBODY, timeout_s=1))


def test_news_for_the_log_is_told_in_words() -> None:
    told = [
        str(OffsetReset(3, 7, "Broker: Offset out of range")),
        str(PartitionCountChanged(3, 6)),
        str(TopicRecreated(LogId("c", "one"), LogId("c", "two"))),
    ]
    assert told == [
        "partition 3: offset 7 is not in the log (Broker: Offset out of range); the partition is read from its"
        " beginning again",
        "the topic has 6 partitions, and had 3: groups that get another coordinator, once the brokers restart, are"
        " told to be created there, and to lose their members at their former one",
        "the topic was deleted and made anew (topic id two in cluster c, before one in c): it is read from its"
        " beginning, and what was known of groups is dropped",
    ]
