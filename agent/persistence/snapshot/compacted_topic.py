"""A compacted topic: made if it is not there, its records written and read by key.

Owns the clients, the topic's settings and what errors mean for a store. Refuses to know what keys and values are.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from agent.common.logs import LIBRDKAFKA
from agent.common.units import HOUR_MS
from agent.kafka.client import (
    IDEMPOTENT_WRITE,
    OWN_CREDENTIALS,
    RIGHT_CREDENTIALS,
    CertificateFiles,
    RecordProducer,
    Undelivered,
    is_login_failure,
    kafka_errors,
    led_partitions,
    new_admin_client,
    new_consumer,
    quiet,
    refused_properties,
)
from agent.persistence.snapshot.store import StoreError, StoreErrorReason

PARTITIONS = 10
UNREACHABLE_S = 30.0
"""How long brokers may be out of reach."""
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),  # only whole segments are compacted
    "segment.ms": str(HOUR_MS),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(HOUR_MS),
    "max.message.bytes": "1048588",
    "compression.type": "producer",
}
"""How the topic is made, if it is: so that it takes little more than one snapshot of each name."""

CHECK_S = 10.0
"""So long after it was seen that it is the topic that was opened, that is asked again before something is written
or read; and where the last writing failed."""

# A producer's questions make the topic by default, with the brokers' settings, where it was deleted.
_PRODUCER: Mapping[str, str] = {
    "acks": "all",
    "allow.auto.create.topics": "false",
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "1",  # as the history's: `agent.persistence.export.topic_sink`
    "linger.ms": "0",
}
_CONSUMER: Mapping[str, str] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
}
_DENIED: Mapping[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ACL operations Read, Write and Describe on topic {topic}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ACL operation Write on topic {topic}, and Create where it is not there;"
    f" {IDEMPOTENT_WRITE}",
    **RIGHT_CREDENTIALS,
}
_REASONS = {
    KafkaError.MSG_SIZE_TOO_LARGE: StoreErrorReason.MISCONFIGURED,
    KafkaError.RECORD_LIST_TOO_LARGE: StoreErrorReason.MISCONFIGURED,
    KafkaError.KAFKA_STORAGE_ERROR: StoreErrorReason.FULL,
    KafkaError.POLICY_VIOLATION: StoreErrorReason.DENIED,
    KafkaError.INVALID_REPLICATION_FACTOR: StoreErrorReason.MISCONFIGURED,
    KafkaError.UNKNOWN_TOPIC_OR_PART: StoreErrorReason.MISSING,
    KafkaError._UNKNOWN_TOPIC: StoreErrorReason.MISSING,
    KafkaError._UNKNOWN_PARTITION: StoreErrorReason.MISSING,
    KafkaError._INVALID_ARG: StoreErrorReason.MISCONFIGURED,
}


class CompactedTopic:
    """One topic, of so many `partitions`. Every method raises `StoreError`."""

    def __init__(self, conf: Mapping[str, str], topic: str, *, create: bool, timeout_s: float) -> None:
        """`conf` are properties of librdkafka; `create` makes the topic if it is not there. `timeout_s` bounds each
        writing and reading."""
        self._conf = {"client.id": "kshadow", **quiet(conf)}
        self._topic, self._create, self._timeout_s = topic, create, timeout_s
        self._files = CertificateFiles(conf)
        self._producer: RecordProducer | None = None
        self._make_clients()
        self._open()

    def _make_clients(self) -> None:
        """Of certificates and keys as the files have them now; the producer is made where it is needed."""
        self.close()
        with kafka_errors(_misconfigured):
            self._admin = new_admin_client(self._conf)

    def _open(self) -> None:
        """Make the topic if it is not there, and see that it keeps what is put there."""
        partitions, topic_id = self._await_leaders()
        self._check_policy()
        self.partitions, self._id = partitions, topic_id
        # When it was seen last that it is the topic that was opened.
        self._checked_s = time.monotonic()

    def _ask_id(self) -> str | None:
        """The topic's id; None where there is none of that name."""
        doing = f"asking which topic {self._topic} is"
        (future,) = self._admin.describe_topics(
            TopicCollection([self._topic]), request_timeout=self._timeout_s
        ).values()
        try:
            with self._errors(doing):
                return str(self._answer(future, doing).topic_id)
        except StoreError as error:
            if error.reason is StoreErrorReason.MISSING:
                return None
            raise

    def _answer(self, future: Future[Any], doing: str) -> Any:
        """What brokers answer. Raises `KafkaException`, too."""
        try:
            # The request has a time limit of its own, and says more.
            return future.result(self._timeout_s + 1.0)
        except TimeoutError as error:
            raise StoreError(
                StoreErrorReason.UNREACHABLE, f"{doing}: no answer within {self._timeout_s:g} s"
            ) from error

    def _check_identity(self) -> None:
        """Where the topic was deleted, make it anew, as it was made first. Where it is another one by now, raises
        `StoreError` once, as what was kept is gone; each time where that one is not fit to be written to."""
        if time.monotonic() - self._checked_s < CHECK_S:
            return
        if self._files.are_renewed():
            self._make_clients()
        before = self._id
        if self._ask_id() == before:
            self._checked_s = time.monotonic()
            return
        self.close()
        self._open()
        # A broker that has just started may know of no such topic for a moment.
        if self._id != before:
            raise StoreError(
                StoreErrorReason.BROKEN,
                f"topic {self._topic} was deleted and is another one now: what was kept in it is stored anew",
            )

    def _await_leaders(self) -> tuple[int, str]:
        began = time.monotonic()
        answer_s = min(self._timeout_s, UNREACHABLE_S)
        is_asked = False
        while True:
            try:
                with self._errors(f"asking for the partitions of {self._topic}"):
                    count = led_partitions(self._admin, self._topic, answer_s)
                topic_id = self._ask_id() if count else None
            except StoreError as error:
                # A connection may break, and a broker that restarts is soon back.
                if error.reason is not StoreErrorReason.UNREACHABLE or time.monotonic() > began + answer_s:
                    raise
                time.sleep(0.5)
                continue
            if count and topic_id is not None:
                return count, topic_id
            if count is None and not self._create:
                raise StoreError(
                    StoreErrorReason.MISSING, f"expected topic {self._topic} for snapshots, there is none"
                )
            if count is None and not is_asked:
                self._make()
                is_asked = True
            if time.monotonic() > began + self._timeout_s:
                raise StoreError(
                    StoreErrorReason.UNREACHABLE, f"topic {self._topic}: no leader within {self._timeout_s:g} s"
                )
            time.sleep(0.1)

    def _make(self) -> None:
        doing = f"creating topic {self._topic}"
        made = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=-1, config=dict(TOPIC_CONFIG))
        (future,) = self._admin.create_topics([made], request_timeout=self._timeout_s).values()
        try:
            self._answer(future, doing)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._error(error.args[0], doing) from error

    def _check_policy(self) -> None:
        """Where the topic's settings may be read, see that it keeps what is put there."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        (future,) = self._admin.describe_configs([resource], request_timeout=self._timeout_s).values()
        try:
            policy = self._answer(future, f"asking for the settings of {self._topic}")["cleanup.policy"].value
        except (KafkaException, KeyError):
            return
        if policy != "compact":
            raise StoreError(
                StoreErrorReason.MISCONFIGURED,
                f"topic {self._topic}: expected cleanup.policy=compact, so that snapshots stay, got {policy}; set it,"
                " or delete the topic, which is then made anew",
            )

    def read(self, partitions: Collection[int], deadline: float) -> Iterator[tuple[int, str, bytes | None]]:
        """Every record of these partitions to their ends: partition, key, and value, None where it was deleted.
        `deadline`: in `time.monotonic`."""
        self._check_identity()
        doing = f"reading topic {self._topic}"
        with kafka_errors(_misconfigured):
            consumer = new_consumer({"group.id": "kshadow", **self._conf, **_CONSUMER})
        with closing(consumer), self._errors(doing):
            left, last = set(partitions), "nothing came"
            consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in left])
            while left:
                if time.monotonic() > deadline:
                    within = f"not at its end within {self._timeout_s:g} s"
                    raise StoreError(StoreErrorReason.UNREACHABLE, f"{doing}: {within}: {last}")
                for message in consumer.consume(100, 0.5):
                    problem, partition = message.error(), message.partition() or 0
                    if problem is None:
                        key, value = message.key(), message.value()
                        if isinstance(key, bytes):
                            yield (
                                partition,
                                key.decode("utf-8", "replace"),
                                value if isinstance(value, bytes) else None,
                            )
                    elif problem.code() == KafkaError._PARTITION_EOF:
                        left.discard(partition)
                    elif problem.code() in _DENIED or problem.code() in _REASONS:
                        raise self._error(problem, doing)
                    else:
                        last = problem.str()

    def write(self, partition: int, records: Mapping[str, bytes | None], doing: str) -> None:
        """Write records (None deletes) and wait until all replicas in sync have them. `doing` says in errors what is
        written."""
        if not records:
            return
        self._check_identity()
        doing = f"{doing} to topic {self._topic}"
        # Kept only if all goes well: one that failed for good takes nothing any more, and the topic may be gone.
        producer, self._producer = self._producer or self._connect(), None
        checked_s, self._checked_s = self._checked_s, -math.inf
        is_written = False
        try:
            with self._errors(doing):
                for key, value in records.items():
                    producer.produce(partition, key.encode(), value)
                is_written = producer.flush(self._timeout_s + 5.0)
        except Undelivered as lost:
            raise self._error(lost.error, doing) from lost
        finally:
            if not is_written:
                producer.close()
        if not is_written:
            raise StoreError(StoreErrorReason.UNREACHABLE, f"{doing}: not taken within {self._timeout_s:g} s")
        self._producer, self._checked_s = producer, checked_s

    def _connect(self) -> RecordProducer:
        conf = {**self._conf, **_PRODUCER, "message.timeout.ms": str(round(self._timeout_s * 1000))}
        with kafka_errors(_misconfigured):
            return RecordProducer(self._topic, conf, logger=logging.getLogger(LIBRDKAFKA))

    def close(self) -> None:
        """Let go of the producer's connections."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return kafka_errors(partial(self._error, doing=doing))

    def _error(self, error: KafkaError, doing: str) -> StoreError:
        message, code = f"{doing}: {error.str()}", error.code()
        if code in _DENIED:
            return StoreError(
                StoreErrorReason.DENIED, f"{message}; needed: {_DENIED[code].format(topic=self._topic)}"
            )
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            message += f"; needed: max.message.bytes={TOPIC_CONFIG['max.message.bytes']}"
        return StoreError(_REASONS.get(code, StoreErrorReason.UNREACHABLE), message)


def _misconfigured(error: KafkaError) -> StoreError:
    if is_login_failure(error):
        return StoreError(StoreErrorReason.DENIED, f"{error.str()}; needed: {OWN_CREDENTIALS}")
    return StoreError(StoreErrorReason.MISCONFIGURED, refused_properties(error))
