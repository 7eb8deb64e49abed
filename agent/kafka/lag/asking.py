"""The questions to the brokers, and what their answers are: ends, last stable offsets, starts, times, topics' ids.

Owns the client and the errors. Keeps nothing of the answers, and decides nothing.

What a question costs: one ListOffsets to each leader for each `BATCH` partitions, and 20 microseconds of ours for a
partition; a description of topics is one request. The right for all of it is Describe on the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is documented
from msgspec import Struct, field

from agent.config.values import TOPIC_NAME
from agent.core.end_offsets import PartitionId
from agent.kafka.client import CertificateFiles, ignore_error, kafka_errors, new_admin_client, quiet
from agent.kafka.source.client import misconfigured
from agent.kafka.source.errors import SourceError

BATCH = 2_000
"""Partitions of one question: its answer is made in one go, and others wait for that; some 10 ms."""
TOPICS = 200
"""Topics of one description: its answer holds every partition of theirs."""
TIMEOUT_S, SHORT_S = 10.0, 2.0
"""How long brokers may take; and once one of them did not answer in time, with what else is asked in one go."""
MAX_FAILED_BATCHES = 3
"""Batches of which nothing was answered, before the rest is not asked for."""

_MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_EXCEPTION,
}
"""TOPIC_EXCEPTION: the name is none that a topic may have."""
T = TypeVar("T")
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]


class OffsetOutcome(StrEnum):
    """How a question ended; a metric's label."""

    ANSWERED = "answered"
    DENIED = "denied"
    MISSING = "missing"
    FAILED = "failed"


class OffsetAnswers(Struct):
    """Offsets by place, and the places without: because there is no such partition, because we may not ask, or
    `failed` because of `errors`, which are counted. What can be no partition is in none of them."""

    offsets: dict[PartitionId, int] = field(default_factory=dict)
    missing: list[PartitionId] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    failed: list[PartitionId] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class OffsetRequests:
    """One thread's. Nothing here raises for what the world does: `OffsetAnswers.errors` says what was wrong."""

    def __init__(self, conf: Mapping[str, str], is_stopped: Callable[[], bool]) -> None:
        """Raises `SourceMisconfigured`. `is_stopped` is asked between batches."""
        self.requests = Counter(dict.fromkeys(OffsetOutcome, 0))
        """Questions by how they ended, one for each batch."""
        self._is_stopped = is_stopped
        self._properties: dict[str, Any] = {"client.id": "kshadow", **quiet(conf), "error_cb": ignore_error}
        self._files = CertificateFiles(conf)
        self._admin = self._new_client()

    def _new_client(self) -> AdminClient:
        with kafka_errors(misconfigured):
            return new_admin_client(self._properties)

    def heed_certificates(self) -> None:
        """Nothing was answered: if files of certificates were renewed since the client was made, go on with a new
        one."""
        if self._files.are_renewed():
            with suppress(SourceError):  # half of them are renewed: the other half is still to come
                renewed = self._new_client()
                with self._admin:
                    self._admin = renewed

    def high_watermarks(self, places: Iterable[PartitionId]) -> OffsetAnswers:
        """High watermarks."""
        return self._ask(dict.fromkeys(places, LATEST))

    def last_stable_offsets(self, places: Iterable[PartitionId]) -> OffsetAnswers:
        """Last stable offsets: where a read_committed consumer's end is."""
        return self._ask(dict.fromkeys(places, LATEST), IsolationLevel.READ_COMMITTED)

    def log_starts(self, places: Iterable[PartitionId]) -> OffsetAnswers:
        """Where logs start."""
        return self._ask(dict.fromkeys(places, EARLIEST))

    def offsets_at_times(self, times_ms: Mapping[PartitionId, int]) -> OffsetAnswers:
        """The first offset of a record of a time or later, for each place its time; -1 where there is none."""
        return self._ask({place: OffsetSpec.for_timestamp(time_ms) for place, time_ms in times_ms.items()})

    def _ask(
        self, asked: Mapping[PartitionId, Any], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> OffsetAnswers:
        names = {topic for topic in {topic for topic, _ in asked} if TOPIC_NAME.fullmatch(topic)}
        # What strangers commit may be no topic's name and no partition's number. Brokers have none such, and the
        # client raises for some of them before it asks for any.
        askable = [item for item in asked.items() if item[0][0] in names and item[0][1] >= 0]
        out = OffsetAnswers()
        timeout_s, given_up = TIMEOUT_S, 0
        for batch in self._batches(askable):
            specs = {TopicPartition(topic, partition): spec for (topic, partition), spec in batch}
            answered, failed = len(out.offsets), len(out.failed)
            try:
                futures = self._admin.list_offsets(specs, isolation_level=isolation, request_timeout=timeout_s)
            except KafkaException as error:
                out.errors[error.args[0].str()] += len(batch)
                out.failed += (place for place, _ in batch)
                futures = {}
            outcome = OffsetOutcome.ANSWERED
            unled: dict[PartitionId, KafkaError] = {}
            for it, future in futures.items():
                try:
                    out.offsets[it.topic, it.partition] = future.result().offset
                except KafkaException as error:
                    if error.args[0].code() == KafkaError._NOENT:
                        unled[it.topic, it.partition] = error.args[0]
                    else:
                        outcome = _sort_error(out, (it.topic, it.partition), error.args[0])
            # Where a client knows a leader of none of them, it says no more than that: also where it may see none of
            # their topics, or none is there.
            whys = self.topic_ids({topic for topic, _ in unled}, SHORT_S)[1] if unled else {}
            for place, said in unled.items():
                outcome = _sort_error(out, place, whys.get(place[0], said))
            if len(out.failed) > failed:
                outcome, timeout_s = OffsetOutcome.FAILED, SHORT_S
                given_up += len(out.offsets) == answered
            self.requests[outcome] += 1
            if given_up == MAX_FAILED_BATCHES:
                break
        return out

    def topic_ids(
        self, topics: Collection[str], timeout_s: float = TIMEOUT_S
    ) -> tuple[dict[str, bytes], dict[str, KafkaError]]:
        """Topics' ids, and why others have none; those that were not asked for are in none of both.

        Brokers before 2.8 have no ids: then they are zero.
        """
        ids: dict[str, bytes] = {}
        errors: dict[str, KafkaError] = {}
        given_up = 0
        for batch in self._batches([topic for topic in topics if TOPIC_NAME.fullmatch(topic)], TOPICS):
            if given_up == MAX_FAILED_BATCHES:
                break
            is_answered = False
            try:
                futures = self._admin.describe_topics(TopicCollection(batch), request_timeout=timeout_s)
            except KafkaException:
                self.requests[OffsetOutcome.FAILED] += 1
                continue
            outcome = OffsetOutcome.ANSWERED
            for topic, future in futures.items():
                try:
                    ids[topic] = _bytes(future.result().topic_id)
                    is_answered = True
                except KafkaException as error:
                    errors[topic] = error.args[0]
                    outcome = _outcome_of(error.args[0])
                    is_answered |= outcome is not OffsetOutcome.FAILED
            if not is_answered:
                timeout_s, given_up = SHORT_S, given_up + 1
            self.requests[outcome] += 1
        return ids, errors

    def _batches(self, items: Sequence[T], size: int = BATCH) -> Iterator[list[T]]:
        rest = iter(items)
        while (batch := list(islice(rest, size))) and not self._is_stopped():
            yield batch


def _outcome_of(error: KafkaError) -> OffsetOutcome:
    if error.code() in _MISSING:
        return OffsetOutcome.MISSING
    is_denied = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    return OffsetOutcome.DENIED if is_denied else OffsetOutcome.FAILED


def _sort_error(out: OffsetAnswers, place: PartitionId, error: KafkaError) -> OffsetOutcome:
    """Put an error where it belongs."""
    outcome = _outcome_of(error)
    match outcome:
        case OffsetOutcome.MISSING:
            out.missing.append(place)
        case OffsetOutcome.DENIED:
            out.denied.add(place[0])
        case _:
            out.failed.append(place)
            out.errors[error.str()] += 1
    return outcome


def _bytes(uuid: Any) -> bytes:
    # Its text is base64 with other characters than Kafka's own.
    words = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    return b"".join(word.to_bytes(8, "big", signed=True) for word in words)
