"""History to a Kafka topic: a record an event, keyed by group, so that a group's events stay in order.

Value: the event's JSON. Key: the group, for findings of the cluster the cluster's name. Headers: `type`, `schema`.
Time: the event's, or now where that is ahead of us or none; so consumers can seek by event time, and retention counts
from it. Partitions are chosen as Java's producer does; what has no key goes to one and the same.

The producer is idempotent and leaves no gap: when a record fails, none behind it in its partition is written. So in
each partition the first appearances of events are in order, whatever failed. Where a broker is silent the producer
goes on by itself, without an end; where it says no, the producer is thrown away and what it had not delivered goes
to the next. Then a record may be there twice: consumers tell by `event_id`.

The topic, if it is not there and may be created: 6 partitions (so that two, three or six consumers share evenly; one
would bear the load), kept for 30 days, records of up to 8 MiB (a rebalance of 10,000 members is 3 MB), the cluster's
own replication and min.insync.replicas.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from agent.common import clock
from agent.common.units import DAY_MS
from agent.kafka.client import (
    IDEMPOTENT_WRITE,
    NO_SUCH_TOPIC,
    OWN_CREDENTIALS,
    RIGHT_CREDENTIALS,
    CertificateFiles,
    error_text,
    fatal_errors_raised,
    is_login_failure,
    kafka_errors,
    new_admin_client,
    new_producer,
    quiet,
    refused_properties,
)
from agent.persistence.export.encoded_event import MAX_MESSAGE_BYTES, EncodedEvent
from agent.persistence.export.errors import ExportError, ExportMisconfigured, SinkDown
from agent.persistence.export.sinks import BatchLimits, RejectedEvent

log = logging.getLogger("kshadow.export")

PARTITIONS = 6
RETENTION_MS = 30 * DAY_MS

PATIENCE_S = 10.0
"""How long to wait for acknowledgements before the sink counts as down; the producer keeps trying."""

_FIXED: Mapping[str, str] = {
    "acks": "all",
    "enable.idempotence": "true",
    "enable.gapless.guarantee": "true",
    # A partition that is just made takes any first request. Of two under way, the first refused since the broker does
    # not lead it yet, librdkafka takes both for written once the second is.
    "max.in.flight.requests.per.connection": "1",
    "message.timeout.ms": "0",  # never: a record that timed out would leave a gap
    "partitioner": "murmur2",  # Java's; no key: always the same partition
}
_DEFAULTS: Mapping[str, str] = {
    "client.id": "kshadow",
    "compression.type": "zstd",  # JSON of one schema: a seventh of its size
    "linger.ms": "5",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
    "message.max.bytes": str(MAX_MESSAGE_BYTES),
}
_silent = logging.getLogger("kshadow.export.librdkafka")
_silent.setLevel(logging.CRITICAL + 1)  # errors are told by us, once; log_level alone would let fatal ones through
_BATCH_BYTES = (1_000_000, 50_000)
"""A topic may take less at once than the usual 1 MB: then smaller batches, for good."""

_REJECTIONS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "larger than the topic takes (its max.message.bytes)",
    KafkaError.INVALID_MSG_SIZE: "larger than the topic takes (its max.message.bytes)",
    KafkaError.INVALID_TIMESTAMP: "its time is out of the topic's bounds (message.timestamp.*)",
    KafkaError.INVALID_RECORD: "an invalid record to this topic (message.timestamp.*, cleanup.policy)",
}
_AFTERMATH = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE}
_ADMIN_S = 10.0


class TopicSink:
    """Writes lines to one topic."""

    name = "topic"
    batching = BatchLimits(events=10_000, size_bytes=16 * 1024 * 1024, age_s=0)

    def __init__(
        self, conf: Mapping[str, str], topic: str, *, create: bool = True, patience_s: float = PATIENCE_S
    ) -> None:
        """`conf` are properties of librdkafka, `bootstrap.servers` at least; `create`: whether to create the topic if
        there is none. Connects to nobody yet. Raises `ExportMisconfigured`."""
        for name, value in _FIXED.items():
            if conf.get(name, value) != value:
                raise ExportMisconfigured(
                    f"property {name}: kshadow needs {value!r} to lose no history, got {conf[name]!r}"
                )
        self._conf, self._topic, self._create, self._patience_s = conf, topic, create, patience_s
        self._files = CertificateFiles(conf)
        self._checked = False
        self._told_of_compaction = False
        self._smaller = 0
        self._one_by_one = False
        self._producer: Producer | None = None
        self._events: Sequence[EncodedEvent] = ()
        self._done = bytearray()
        self._rejected: list[RejectedEvent] = []
        self._failure: tuple[KafkaError, int] | None = None
        self._fatal: KafkaError | None = None
        self._trouble = ""
        self._open_producer()  # its complaints about properties come now

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        """Produce them; returns when all are acknowledged. Raises `SinkDown`."""
        if batch is not self._events:
            self._events, self._done, self._rejected = batch, bytearray(len(batch)), []
            self._sent = 0
        if self._files.are_renewed():
            self._close_producer()  # it goes on with what they held before
        deadline = time.monotonic() + self._patience_s
        while True:
            if not self._checked:
                self._check_topic()
            producer = self._producer or self._open_producer()
            self._produce(producer, deadline)
            self._await(producer, deadline)
            if self._failure is None and self._fatal is None:
                break
            self._replace_producer()
        if self._one_by_one:
            self._close_producer()  # the next batch goes the usual way again
            self._one_by_one = False
        refused, self._events, self._rejected = self._rejected, (), []
        return refused

    def close(self) -> None:
        """Drop what was not delivered."""
        self._close_producer()

    def _open_producer(self) -> Producer:
        own = {"batch.size": str(_BATCH_BYTES[self._smaller])}
        if self._one_by_one:
            own["batch.num.messages"] = "1"
        conf = {**_DEFAULTS, **own, **self._conf, **_FIXED, "error_cb": self._on_error}
        with kafka_errors(_not_made):
            self._producer = new_producer(conf, logger=_silent)
        self._failure = self._fatal = None
        self._trouble = ""
        self._sent = 0
        return self._producer

    def _close_producer(self) -> None:
        """Drop what was not delivered, and learn what was and why the rest was not."""
        if self._producer is not None:
            self._producer.purge()
            # A fatal error cuts a round of reports short, and comes once.
            for _ in range(3):
                if not self._flush(self._producer, 1.0):
                    break
            self._producer = None

    def _produce(self, producer: Producer, deadline: float) -> None:
        now_ms = clock.now_ms()
        while self._sent < len(self._events) and self._failure is None and self._fatal is None:
            number = self._sent
            if self._done[number]:
                self._sent += 1
                continue
            line = self._events[number]
            headers: list[tuple[str, str | bytes | None]] = [
                ("type", line.type.encode("utf-8", "backslashreplace")),
                ("schema", b"%d" % line.schema),
            ]
            at_ms = line.at_ms if 0 < line.at_ms <= now_ms else now_ms
            try:
                producer.produce(
                    self._topic,
                    line.body,
                    line.key,
                    timestamp=at_ms,
                    headers=headers,
                    on_delivery=partial(self._on_delivery, number),
                )
            except BufferError:  # the broker takes them more slowly than they come
                self._poll(producer, 0.1)
                if time.monotonic() > deadline:
                    raise SinkDown(self._no_acknowledgement()) from None
                continue
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:  # by our own message.max.bytes
                    self._reject(number, "larger than message.max.bytes")
                elif reason.code() in _AFTERMATH:
                    self._fatal = reason  # why, the reports say that are still to come
                else:
                    self._failure = (reason, number)
            self._sent += 1
            if not number % 1_000:
                self._poll(producer, 0)

    def _await(self, producer: Producer, deadline: float) -> None:
        while self._flush(producer, 0.2) and self._failure is None and self._fatal is None:
            if time.monotonic() > deadline:
                raise SinkDown(self._no_acknowledgement())

    def _flush(self, producer: Producer, timeout_s: float) -> bool:
        """Take reports until all were made or the time is over; whether more are to come."""
        try:
            with fatal_errors_raised():
                return producer.flush(timeout_s) > 0
        except KafkaException as error:  # a fatal error, which the client raises in place of calling back
            self._fatal = error.args[0]
            return True

    def _poll(self, producer: Producer, timeout_s: float) -> None:
        try:
            with fatal_errors_raised():
                producer.poll(timeout_s)
        except KafkaException as error:
            self._fatal = error.args[0]

    def _no_acknowledgement(self) -> str:
        waited = f"topic {self._topic}: no acknowledgement for {self._patience_s:g} s"
        return f"{waited}: {self._trouble}" if self._trouble else waited

    def _on_delivery(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._done[number] = 1
        elif self._failure is None and error.code() not in _AFTERMATH:
            self._failure = (error, number)

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = error_text(error)

    def _reject(self, number: int, reason: str) -> None:
        self._done[number] = 1
        self._rejected.append(RejectedEvent(self._events[number], reason))

    def _replace_producer(self) -> None:
        """The producer failed: another one. Raises `SinkDown` unless it can be at once."""
        self._close_producer()
        if self._failure is None:
            assert self._fatal is not None
            log.warning(
                "history topic %s: the producer gave up, a new one goes on: %s", self._topic, self._fatal.str()
            )
            raise self._down(self._fatal, f"writing to topic {self._topic}", "Write")
        error, number = self._failure
        if (reason := _REJECTIONS.get(error.code())) is None:
            # Where the broker says no, what was checked once may be otherwise now.
            self._checked = False
            raise self._down(error, f"writing to topic {self._topic}", "Write")
        if self._one_by_one:
            self._reject(number, reason)
        elif self._smaller + 1 < len(_BATCH_BYTES):
            self._smaller += 1
        else:
            self._one_by_one = True  # so that it shows which one is refused

    def _check_topic(self) -> None:
        """See that the topic is there; create it if that is wanted. Raises `SinkDown`."""
        with kafka_errors(_not_made):
            admin = new_admin_client(quiet(self._conf))
        with kafka_errors(partial(self._down, doing=f"looking for topic {self._topic}", operation="Describe")):
            # All topics: whoever asks for one by its name, creates it, the cluster's way.
            found = admin.list_topics(timeout=_ADMIN_S).topics.get(self._topic)
            if found is not None and found.error is not None and found.error.code() not in NO_SUCH_TOPIC:
                raise KafkaException(found.error)
        if found is None or found.error is not None:
            if not self._create:
                raise SinkDown(
                    f"expected topic {self._topic}, the cluster has none, or does not show it (ACL operation"
                    f" Describe); {_create_command(self._topic)}"
                )
            self._create_topic(admin)
        else:
            self._warn_of_compaction(admin)
        self._checked = True

    def _create_topic(self, admin: AdminClient) -> None:
        config = {
            "cleanup.policy": "delete",
            "retention.ms": str(RETENTION_MS),
            "max.message.bytes": str(MAX_MESSAGE_BYTES),
        }
        new = NewTopic(self._topic, PARTITIONS, config=config)
        try:
            admin.create_topics([new], operation_timeout=_ADMIN_S, request_timeout=_ADMIN_S)[self._topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
                raise SinkDown(
                    f"creating topic {self._topic}: {error.args[0].str()}; needed: ACL operations Create, Describe"
                    f" and Write on topic {self._topic}; or {_create_command(self._topic)}, then Describe and "
                    f"Write will do"
                ) from error
            raise self._down(error.args[0], f"creating topic {self._topic}", "Create") from error
        log.info("history topic %s created: %d partitions, kept for 30 days", self._topic, PARTITIONS)

    def _warn_of_compaction(self, admin: AdminClient) -> None:
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            entries = admin.describe_configs([resource], request_timeout=_ADMIN_S)[resource].result()
        except KafkaException:
            return  # it takes the right DescribeConfigs, which we do not ask for
        policy = entries["cleanup.policy"].value or ""
        if "compact" in policy and not self._told_of_compaction:
            self._told_of_compaction = True
            log.warning(
                "history topic %s has cleanup.policy=%s: of each group only the newest event will stay; set delete",
                self._topic, policy,
            )  # fmt: skip

    def _down(self, error: KafkaError, doing: str, operation: str) -> SinkDown:
        needed = {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: f"ACL operations Write and Describe on topic {self._topic}",
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: f"ACL operation {operation} on topic {self._topic}, and"
            f" {IDEMPOTENT_WRITE}",
            **RIGHT_CREDENTIALS,
        }.get(error.code())
        message = f"{doing}: {error.str()}"
        return SinkDown(message if needed is None else f"{message}; needed: {needed}")


def _not_made(error: KafkaError) -> ExportError:
    if is_login_failure(error):
        return SinkDown(f"{error.str()}; needed: {OWN_CREDENTIALS}")
    return ExportMisconfigured(refused_properties(error))


def _create_command(topic: str) -> str:
    return (
        f"create it: kafka-topics.sh --create --topic {topic} --partitions {PARTITIONS} --config"
        f" retention.ms={RETENTION_MS} --config max.message.bytes={MAX_MESSAGE_BYTES}"
    )
