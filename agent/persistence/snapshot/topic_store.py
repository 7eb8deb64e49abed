"""Snapshots as records of a compacted topic: for agents without a disk, and for those that take over from others.

Under the key `<cluster id>/<name>` stands a head. A snapshot of up to `CHUNK` bytes is in it; of a larger one it
says where its chunks are: under `<cluster id>/<name>/<0 or 1>/<number>`. The chunks of the next are written beside
those of the one that is there, then the head, and only then are the old ones deleted; so whoever reads finds the old
one or the new one, whole, and compaction leaves nothing else.

`partition-7` stands in partition 7 modulo the topic's number of partitions, so that whoever takes over one partition
of `__consumer_offsets` reads a part of the topic.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from agent.kafka.client import quiet
from agent.persistence.snapshot.store import StoreError, StoreErrorReason, checked_name

CHUNK_BYTES = 900_000
"""Bytes of a record's value: brokers take 1 MiB with all around it unless told otherwise."""

PARTITIONS = 10
STORE_TIMEOUT_S = 60.0
UNREACHABLE_S = 30.0
"""How long brokers may be out of reach."""
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),  # only whole segments are compacted
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(3_600_000),
    "max.message.bytes": "1048588",
    "compression.type": "producer",
}
"""How the topic is made, if it is: so that it takes little more than one snapshot of each name."""

_PRODUCER: Mapping[str, str] = {"acks": "all", "enable.idempotence": "true"}
_CONSUMER: Mapping[str, str] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "ACL operations Read, Write and Describe on topic {topic}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "ACL operation Create on topic {topic}, or the topic made beforehand",
    **dict.fromkeys(
        (
            KafkaError._AUTHENTICATION,
            KafkaError.SASL_AUTHENTICATION_FAILED,
            KafkaError.UNSUPPORTED_SASL_MECHANISM,
            KafkaError.ILLEGAL_SASL_STATE,
        ),
        "credentials that the cluster accepts (properties sasl.*, ssl.*)",
    ),
}
_REASONS = {
    KafkaError.MSG_SIZE_TOO_LARGE: StoreErrorReason.MISCONFIGURED,
    KafkaError.RECORD_LIST_TOO_LARGE: StoreErrorReason.MISCONFIGURED,
    KafkaError.KAFKA_STORAGE_ERROR: StoreErrorReason.FULL,
    KafkaError.POLICY_VIOLATION: StoreErrorReason.DENIED,
    KafkaError.INVALID_REPLICATION_FACTOR: StoreErrorReason.MISCONFIGURED,
    KafkaError.UNKNOWN_TOPIC_OR_PART: StoreErrorReason.MISSING,
    KafkaError._UNKNOWN_TOPIC: StoreErrorReason.MISSING,
    KafkaError._INVALID_ARG: StoreErrorReason.MISCONFIGURED,
}


class Head(msgspec.Struct, array_like=True, frozen=True):
    """What stands under a snapshot's key: itself, or in how many chunks of which generation it is."""

    size: int
    digest: bytes
    blob: bytes | None
    generation: int = 0
    chunks: int = 0


_HEAD = msgspec.msgpack.Decoder(Head)
_MOST_CHUNKS = 10_000


class TopicStore:
    """A `Store` in a topic. Of each name one process may write at a time."""

    def __init__(
        self,
        conf: Mapping[str, str],
        topic: str,
        cluster_id: str,
        *,
        create: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
        timeout_s: float = STORE_TIMEOUT_S,
    ) -> None:
        """`conf` are properties of librdkafka, `bootstrap.servers` at least. `cluster_id`: of the cluster that the
        snapshots are of. `create` makes the topic if it is not there. Raises `StoreError`."""
        self._conf = {"client.id": "kshadow", **quiet(conf)}
        self._topic, self._prefix = topic, f"{cluster_id}/"
        self._chunk_bytes, self._timeout_s = chunk_bytes, timeout_s
        self._producer: Producer | None = None
        # By name: the chunks that stand there, by generation, and the generation that the head names.
        self._chunks: dict[str, dict[int, set[int]]] = {}
        self._current: dict[str, int] = {}
        self._partitions = self._opened(create)

    def load(self, names: Iterable[str]) -> dict[str, bytes]:
        """The newest of each of these: reads the partitions that they are in, to their ends."""
        left = {checked_name(name) for name in names}
        deadline = time.monotonic() + self._timeout_s
        out: dict[str, bytes] = {}
        before: dict[str, dict[str, bytes]] = {}
        while left:
            records = self._read(left, deadline)
            torn = [name for name in left if not _put_together(name, records[name], out)]
            # Chunks may have been compacted away while they were read, after a newer snapshot: then that is there
            # by now. What is torn twice is of two who write under one name, and as good as none.
            left = {name for name in torn if records[name] != before.get(name)}
            before = records
            if left:
                time.sleep(0.2)
        return out

    def save(self, name: str, blob: bytes) -> None:
        """Write a snapshot in place of the one that is there; returns when all replicas in sync have it."""
        if checked_name(name) not in self._chunks:
            self.load([name])
        digest = blake2b(blob, digest_size=16).digest()
        standing = self._chunks[name]
        if len(blob) <= self._chunk_bytes:
            head, generation, parts = Head(len(blob), digest, blob), 0, list[bytes]()
        else:
            generation = 1 - self._current.get(name, 1)
            parts = [blob[at : at + self._chunk_bytes] for at in range(0, len(blob), self._chunk_bytes)]
            head = Head(len(blob), digest, None, generation, len(parts))
        keys = {number: self._chunk_key(name, generation, number) for number in range(len(parts))}
        standing.setdefault(generation, set()).update(keys)
        self._write(name, [(keys[number], part) for number, part in enumerate(parts)])
        self._write(name, [(self._prefix + name, msgspec.msgpack.encode(head))])
        self._stands_in(name, head)
        gone = [
            (of, number)
            for of, numbers in standing.items()
            for number in numbers
            if of != generation or number >= len(parts)
        ]
        self._write(name, [(self._chunk_key(name, of, number), None) for of, number in gone])
        self._chunks[name] = {generation: set(keys)} if keys else {}

    def delete(self, name: str) -> None:
        """Delete a snapshot, its head first."""
        if checked_name(name) not in self._chunks:
            self.load([name])
        self._write(name, [(self._prefix + name, None)])
        gone = [(of, number) for of, numbers in self._chunks[name].items() for number in numbers]
        self._write(name, [(self._chunk_key(name, of, number), None) for of, number in gone])
        self._chunks[name] = {}
        self._current.pop(name, None)

    def close(self) -> None:
        """Let go of the connections."""
        self._producer = None

    # Where things are.

    def _partition(self, name: str) -> int:
        number = re.search(r"(\d+)$", name)
        return int(number[1][-9:]) % self._partitions if number else 0

    def _chunk_key(self, name: str, generation: int, number: int) -> str:
        return f"{self._prefix}{name}/{generation}/{number}"

    def _opened(self, create: bool) -> int:
        """How many partitions the topic has; it is made if it is not there."""
        admin = self._admin()
        began = time.monotonic()
        answer_by, deadline = began + min(self._timeout_s, UNREACHABLE_S), began + self._timeout_s
        is_asked = False
        while True:
            try:
                count = self._count(admin)
            except StoreError as error:
                # A connection may break, and a broker that restarts is soon back.
                if error.reason is not StoreErrorReason.UNREACHABLE or time.monotonic() > answer_by:
                    raise
                time.sleep(0.5)
                continue
            if count:
                break
            if count is None and not create:
                raise StoreError(
                    StoreErrorReason.MISSING, f"topic {self._topic} expected for snapshots, there is none"
                )
            if count is None and not is_asked:
                self._create(admin)
                is_asked = True
            if time.monotonic() > deadline:
                raise StoreError(
                    StoreErrorReason.UNREACHABLE, f"topic {self._topic}: no leader within {self._timeout_s:g} s"
                )
            time.sleep(0.1)
        self._check_policy(admin)
        return count

    def _admin(self) -> AdminClient:
        try:
            return AdminClient({**self._conf})
        except KafkaException as error:
            raise StoreError(StoreErrorReason.MISCONFIGURED, error.args[0].str()) from error

    def _count(self, admin: AdminClient) -> int | None:
        doing = f"asking for the partitions of {self._topic}"
        try:
            # All topics: whoever asks for one by its name may create it.
            topic = admin.list_topics(timeout=min(self._timeout_s, UNREACHABLE_S)).topics.get(self._topic)
        except KafkaException as error:
            raise self._error(error.args[0], doing) from error
        if topic is None:
            return None
        if topic.error is not None:
            raise self._error(topic.error, doing)
        return len(topic.partitions) if all(it.leader >= 0 for it in topic.partitions.values()) else 0

    def _create(self, admin: AdminClient) -> None:
        made = NewTopic(self._topic, num_partitions=PARTITIONS, replication_factor=-1, config=dict(TOPIC_CONFIG))
        (future,) = admin.create_topics([made], request_timeout=self._timeout_s).values()
        try:
            future.result(self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._error(error.args[0], f"creating topic {self._topic}") from error

    def _check_policy(self, admin: AdminClient) -> None:
        """Where the topic's settings may be read, see that it keeps what is put there."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        (future,) = admin.describe_configs([resource], request_timeout=self._timeout_s).values()
        try:
            policy = future.result(self._timeout_s)["cleanup.policy"].value
        except (KafkaException, KeyError):
            return
        if policy != "compact":
            raise StoreError(
                StoreErrorReason.MISCONFIGURED,
                f"topic {self._topic}: cleanup.policy=compact expected, so that snapshots stay, {policy} came",
            )

    # Reading.

    def _read(self, names: set[str], deadline: float) -> dict[str, dict[str, bytes]]:
        """What stands under the keys of these names, by name and rest of the key (the head's is empty)."""
        out: dict[str, dict[str, bytes]] = defaultdict(dict)
        doing = f"reading topic {self._topic}"
        try:
            consumer = Consumer({"group.id": "kshadow", **self._conf, **_CONSUMER})
        except KafkaException as error:
            raise StoreError(StoreErrorReason.MISCONFIGURED, error.args[0].str()) from error
        try:
            left = {self._partition(name) for name in names}
            last = "nothing came"
            consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in left])
            while left:
                if time.monotonic() > deadline:
                    within = f"not at its end within {self._timeout_s:g} s"
                    raise StoreError(StoreErrorReason.UNREACHABLE, f"{doing}: {within}: {last}")
                for message in consumer.consume(100, 0.5):
                    problem = message.error()
                    if problem is None:
                        self._keep(message, names, out)
                    elif problem.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition() or 0)
                    elif problem.code() in _DENIED or problem.code() in _REASONS:
                        raise self._error(problem, doing)
                    else:
                        last = problem.str()
        except KafkaException as error:
            raise self._error(error.args[0], doing) from error
        finally:
            consumer.close()
        for name in names:
            self._learn(name, out[name])
        return out

    def _keep(self, message: Message, names: set[str], out: dict[str, dict[str, bytes]]) -> None:
        raw, value = message.key(), message.value()
        key = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
        if not key.startswith(self._prefix):
            return
        name, _, rest = key.removeprefix(self._prefix).partition("/")
        if name not in names or message.partition() != self._partition(name):
            return
        if isinstance(value, bytes):
            out[name][rest] = value
        else:
            out[name].pop(rest, None)

    def _learn(self, name: str, records: Mapping[str, bytes]) -> None:
        chunks: dict[int, set[int]] = defaultdict(set)
        for rest in records:
            if (found := re.fullmatch(r"([01])/(\d{1,6})", rest)) is not None:
                chunks[int(found[1])].add(int(found[2]))
        self._chunks[name] = chunks
        self._stands_in(name, _head(records))

    def _stands_in(self, name: str, head: Head | None) -> None:
        """Remember which generation is not to be written over."""
        if head is None or head.blob is not None:
            self._current.pop(name, None)
        else:
            self._current[name] = head.generation

    # Writing.

    def _write(self, name: str, records: list[tuple[str, bytes | None]]) -> None:
        """Write records, and wait until they are there."""
        if not records:
            return
        failed: list[KafkaError] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)

        doing = f"writing {name} to topic {self._topic}"
        producer = self._producer or self._connect()
        # Kept only if all went well: one that failed for good takes nothing any more.
        self._producer = None
        deadline = time.monotonic() + self._timeout_s + 5.0
        try:
            for key, value in records:
                while True:
                    try:
                        producer.produce(self._topic, value, key.encode(), self._partition(name), on_delivery=report)
                        break
                    except BufferError:
                        producer.poll(0.1)
                if failed:
                    break
            while producer.flush(0.5) and not failed and time.monotonic() < deadline:
                pass
        except KafkaException as error:
            raise self._error(error.args[0], doing) from error
        if failed or len(producer):
            producer.purge()
            producer.flush(1.0)
            if failed:
                raise self._error(failed[0], doing)
            raise StoreError(StoreErrorReason.UNREACHABLE, f"{doing}: not taken within {self._timeout_s:g} s")
        self._producer = producer

    def _connect(self) -> Producer:
        timeout_ms = str(round(self._timeout_s * 1000))
        conf = {**self._conf, **_PRODUCER, "message.timeout.ms": timeout_ms, "linger.ms": "0"}
        try:
            return Producer(conf)
        except KafkaException as error:
            raise StoreError(StoreErrorReason.MISCONFIGURED, error.args[0].str()) from error

    def _error(self, error: KafkaError, doing: str) -> StoreError:
        right = _DENIED.get(error.code())
        if right is not None:
            return StoreError(
                StoreErrorReason.DENIED, f"{doing}: {error.str()}; needed: {right.format(topic=self._topic)}"
            )
        return StoreError(_REASONS.get(error.code(), StoreErrorReason.UNREACHABLE), f"{doing}: {error.str()}")


def _head(records: Mapping[str, bytes]) -> Head | None:
    try:
        head = _HEAD.decode(records.get("", b""))
    except (msgspec.MsgspecError, ValueError):
        return None
    return head if 0 <= head.chunks <= _MOST_CHUNKS and head.generation in (0, 1) else None


def _put_together(name: str, records: Mapping[str, bytes], out: dict[str, bytes]) -> bool:
    """Add a snapshot that is there whole; False if there is one that is not."""
    if "" not in records:
        return True
    head = _head(records)
    if head is None:
        return False
    blob = head.blob
    if blob is None:
        keys = [f"{head.generation}/{number}" for number in range(head.chunks)]
        blob = b"".join(records.get(key, b"") for key in keys)
    if len(blob) != head.size or blake2b(blob, digest_size=16).digest() != head.digest:
        return False
    out[name] = blob
    return True
