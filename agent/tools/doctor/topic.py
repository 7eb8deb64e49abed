"""The offsets topic: its format, and a sample of its newest records, decoded, with what they tell of the clocks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]
from msgspec import Struct, field

from agent.core.protocol.group_placement import observe_placement
from agent.core.protocol.hashing import GroupPartitioner
from agent.core.wire import decode
from agent.core.wire.offset_commit_fastpath import is_commit_key, read_commit_key
from agent.core.wire.records import Record, Tombstone, Undecodable
from agent.kafka.client import new_consumer
from agent.kafka.source.client import consumer_properties
from agent.kafka.source.cluster import EARLIEST, LATEST, leaders, offsets_at
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.kafka.source.group_locator import group_of_key, has_kafkas_id, is_redpanda
from agent.presentation.narrative.words import count
from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, DoctorRequest, Trial
from agent.tools.doctor.connection import AdminConnection

SAMPLE = 2000
"""Records, over all partitions."""
WATCH_S = 3.0
"""How long new records are waited for, to compare clocks by."""
STAMPED_MS = 100
"""How long before a record shows it may have been stamped: coordinators gather a batch, and replicas take it over."""
SKEW_MS = 5000
"""What a run can bear: time passes that much behind the clock (`agent.runtime.reader_loop.GRACE_S`)."""


class TopicSample(Struct):
    """What the newest records are. Times are epoch milliseconds."""

    kinds: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    groups: set[str] = field(default_factory=set)
    with_broker_sessions: set[str] = field(default_factory=set)
    """Groups whose session timeout the brokers set: KIP-848, share, Streams."""
    places: dict[str, int] = field(default_factory=dict)
    """By group the partition that it stands in; tombstones tell that, too."""
    topics: set[str] = field(default_factory=set)
    with_hidden_topics: set[str] = field(default_factory=set)
    """Groups that are not described, as there is no right to a topic that they subscribe to (KIP-848)."""
    newest_ms: int | None = None
    read_at_ms: int = 0
    skews_ms: list[tuple[float, float]] = field(default_factory=list)
    """For each record that came while we watched the least and the most that the broker's clock may be ahead."""
    reached: bool = True
    """Whether all of the sample came in time: of every partition, those without a leader among them."""

    def add(self, message: Message) -> None:
        """One more record."""
        key, value = message.key(), message.value()
        entry = decode(_raw(key), _raw(value))
        match entry:
            case Record(type=kind, version=version):
                self.kinds[f"{kind.name} v{version}"] += 1
            case Tombstone(type=kind):
                self.kinds[f"{kind.name} tombstone"] += 1
            case Undecodable(error=error):
                self.errors[error.kind] += 1
        if isinstance(entry, Record):
            if (epoch_group := getattr(entry.key, "group_id", None)) is not None:
                self.with_broker_sessions.add(epoch_group)
            self.groups.add(str(epoch_group or getattr(entry.key, "group", "")))
        if (group := group_of_key(key)) is not None:
            self.places[group] = message.partition() or 0
        if is_commit_key(_raw(key)) and (commit := read_commit_key(_raw(key))) is not None:
            self.topics.add(commit[1])
        if (at_ms := message.timestamp()[1]) >= 0:
            self.newest_ms = max(at_ms, self.newest_ms or 0)


def _raw(data: object) -> bytes | None:
    return data if isinstance(data, bytes) else None


def check_format(description: Any) -> Check:
    """Partitions, leaders and replicas, by the topic's description."""
    trial, partitions = Trial("topic", OFFSETS_TOPIC, "asked for the topic's partitions"), description.partitions
    replicas = min(len(it.replicas) for it in partitions)
    found = f"{count(len(partitions), 'partition')} with {count(replicas, 'replica')}"
    if leaderless := [it.id for it in partitions if it.leader is None or it.leader.id < 0]:
        fix = "start the brokers that hold them: kafka-topics.sh --describe --unavailable-partitions"
        return trial.failed(f"{found}; none leads {_numbers(leaderless)}", fix)
    if lagging := [it.id for it in partitions if len(it.isr) < len(it.replicas)]:
        fix = "kafka-topics.sh --describe --under-replicated-partitions; start the brokers that are missing"
        return trial.warning(f"{found}; not all are in sync of {_numbers(lagging)}", fix)
    if replicas == 1:
        found += ": with its broker all groups of a partition go, and what kshadow reads"
        return trial.warning(found, "kafka-reassign-partitions.sh with three replicas for each partition")
    return trial.ok(found)


_SETTINGS = ("cleanup.policy", "min.insync.replicas", "compression.type")


def check_settings(link: AdminConnection) -> Check:
    """How the topic is cleaned; known only to whom DescribeConfigs was granted, which the agent does not need."""
    trial = Trial("settings", OFFSETS_TOPIC, "asked for the topic's settings")
    try:
        entries = link.ask(link.admin.describe_configs, [ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC)])
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return trial.skipped("not granted: DescribeConfigs on the topic, which kshadow does not need")
        return trial.skipped(error.args[0].str())
    value: Mapping[str, str] = {name: it.value for name, it in entries.items() if it.value is not None}
    if untold := [name for name in _SETTINGS if name not in value]:
        return trial.skipped(f"not known: the brokers do not tell {', '.join(untold)}")
    policy, in_sync, compression = (value[name] for name in _SETTINGS)
    found = f"cleanup.policy={policy}, min.insync.replicas={in_sync}, compression.type={compression}"
    alter = f"kafka-configs.sh --alter --entity-type topics --entity-name {OFFSETS_TOPIC} --add-config"
    if policy != "compact":
        found += ": groups that have not changed for long are deleted from the log, and brokers forget them, too"
        return trial.warning(found, f"{alter} cleanup.policy=compact")
    if in_sync == "1":
        fix = f"{alter} min.insync.replicas=2 (with three replicas)"
        return trial.warning(f"{found}: a commit may be lost with one broker", fix)
    return trial.ok(found)


def read_sample(request: DoctorRequest, sample: TopicSample) -> None:
    """Take in the newest records of each partition, and those that come in a moment more. Raises `SourceError`."""
    # Uncommitted: what an open transaction holds back was written long before it is seen, and clocks seemed wrong.
    consumer = new_consumer({**consumer_properties(request.conf), "isolation.level": "read_uncommitted"})
    try:
        led = leaders(consumer, OFFSETS_TOPIC, request.timeout_s)
        numbers = [number for number, leader in led.items() if leader >= 0]
        sample.reached = len(numbers) == len(led)
        begins = offsets_at(consumer, OFFSETS_TOPIC, numbers, EARLIEST, request.timeout_s)
        ends = offsets_at(consumer, OFFSETS_TOPIC, numbers, LATEST, request.timeout_s)
        most = max(10, SAMPLE // max(1, len(numbers)))
        starts = {number: max(begins[number], ends[number] - most) for number in numbers}
        consumer.assign([TopicPartition(OFFSETS_TOPIC, number, at) for number, at in starts.items()])
        _read(
            consumer, sample, {number for number in numbers if starts[number] < ends[number]}, ends, request.timeout_s
        )
        _watch(consumer, sample, numbers, request.timeout_s)
    finally:
        consumer.close()


def _read(consumer: Consumer, sample: TopicSample, left: set[int], ends: Mapping[int, int], timeout_s: float) -> None:
    """Up to where each partition ended. Without a record an answer is waited for, too: only a fetch shows whether
    Read was granted. Raises `SourceUnreachable` where none comes."""
    deadline = time.monotonic() + timeout_s
    heard = False
    while left or not heard:
        if time.monotonic() > deadline:
            if not heard:
                raise SourceUnreachable(
                    f"expected records or a partition's end, no fetch answered in {timeout_s:g} s"
                )
            sample.reached = False
            break
        message = consumer.poll(0.2)
        if message is None or message.topic() != OFFSETS_TOPIC:
            continue
        heard = True
        partition, offset = message.partition() or 0, message.offset() or 0
        error = message.error()
        if error is None:
            sample.add(message)
            offset += 1
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise SourceDenied(error.str(), right=f"ACL operation Read on topic {OFFSETS_TOPIC}")
        elif error.code() != KafkaError._PARTITION_EOF:
            raise SourceUnreachable(f"partition {partition}: {error.str()}")
        if offset >= ends[partition]:
            left.discard(partition)
    sample.read_at_ms = round(time.time() * 1000)


def _watch(consumer: Consumer, sample: TopicSample, numbers: list[int], timeout_s: float) -> None:
    """What is written from now on tells of the broker's clock: it was stamped after the end was asked for, or hardly
    before, and before it came here."""
    asked = time.time()
    ends = offsets_at(consumer, OFFSETS_TOPIC, numbers, LATEST, timeout_s)
    deadline = time.monotonic() + WATCH_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        came = time.time()
        if message is None or message.error() is not None:
            continue
        at_ms, partition = message.timestamp()[1], message.partition() or 0
        if at_ms >= 0 and (message.offset() or 0) >= ends.get(partition, 0):
            sample.skews_ms.append((at_ms - came * 1000, at_ms - asked * 1000 + STAMPED_MS))


def check_decoded(sample: TopicSample) -> Check:
    """Whether what the topic holds is what kshadow knows."""
    trial = Trial("records", OFFSETS_TOPIC, "decoded the newest records of each partition")
    good, bad = sample.kinds.total(), sample.errors.total()
    kinds = ", ".join(f"{number} {kind}" for kind, number in sample.kinds.most_common(12))
    none = "no record yet" if sample.reached else "no record came"
    found = f"{count(good, 'record')}: {kinds}" if good else none
    if bad:
        errors = ", ".join(f"{number} {kind}" for kind, number in sample.errors.most_common())
        found = f"{bad} of {count(good + bad, 'record')} cannot be decoded: {errors}; {found}"
        return trial.warning(found, "kshadow decode shows them; a newer kshadow may know what they are")
    if not sample.reached:
        fix = "see whether the brokers are busy, or raise the quota of this client"
        return trial.warning(f"{found}; not all came in time", fix)
    return trial.ok(found)


def check_placement(request: DoctorRequest, sample: TopicSample, partitions: int, cluster_id: str | None) -> Check:
    """By whose hash of their names groups have their partitions: what `--group`, sidecars and `coordinator` go by."""
    trial = Trial(
        "partitioner", OFFSETS_TOPIC, "compared where groups stand with where hashes of their names put them"
    )
    placement = observe_placement(sample.places.items(), partitions)
    seen, told = placement.partitioner, request.group_partitioner
    found = placement.describe()
    if placement.is_by_neither:
        fix = "read all of the topic, without --group; was its number of partitions changed?"
        return trial.warning(f"neither Kafka's hash nor Redpanda's puts groups where they stand; {found}", fix)
    if seen is not None:
        found = (
            f"{seen.name.capitalize()}'s ({seen}): {found}, by chance with a probability of {placement.chance:.0e}"
        )
        if told not in ("auto", seen):
            return trial.warning(f"{found}; told was {told}", f"--group-partitioner {seen}, or auto")
        return trial.ok(found)
    if is_redpanda(cluster_id) or told == GroupPartitioner.REDPANDA:
        return trial.ok(
            f"Redpanda's, {'as told' if told == 'redpanda' else 'as the cluster calls itself so'}; {found}"
        )
    if told == GroupPartitioner.KAFKA or (has_kafkas_id(cluster_id) and placement.by_kafka == placement.telling):
        return trial.ok(
            f"Kafka's, {'as told' if told == 'kafka' else 'as the form of the cluster id has it'}; {found}"
        )
    fixes = ["--group-partitioner kafka or redpanda; until then --group reads the partitions of both"]
    if placement.elsewhere:
        found += f", {placement.elsewhere} where neither Kafka's nor Redpanda's does"
        fixes.append("was the topic's number of partitions changed? Then read all of it, without --group")
    return trial.warning(f"not known: {found}", *fixes)


def check_clocks(sample: TopicSample) -> Check:
    """How far the brokers' clocks and ours are apart, as far as records can tell."""
    trial = Trial("clock", "brokers' clocks", f"compared record timestamps with this clock, for {WATCH_S:g} s")
    if sample.skews_ms:
        # Brokers have clocks of their own: the bounds hold for each record's, and together for the widest.
        least, most = zip(*sample.skews_ms, strict=True)
        low, high = max(least), min(most)
        found, is_far = "", low > SKEW_MS or high < -SKEW_MS
        if low > high:
            low, high = min(least), max(most)
            found, is_far = "brokers disagree: ", high > SKEW_MS or low < -SKEW_MS
        found += f"between {low / 1000:+.2f} s and {high / 1000:+.2f} s ahead of this clock"
    elif sample.newest_ms is None:
        return trial.skipped("no record with a time")
    else:
        ahead_ms = sample.newest_ms - sample.read_at_ms
        if ahead_ms <= 0:
            age = f"{-ahead_ms / 1000:.0f} s old"
            return trial.skipped(f"not known: nothing was written meanwhile, the newest record is {age}")
        found = f"the newest record is {ahead_ms / 1000:.2f} s in the future"
        is_far = ahead_ms > SKEW_MS
        if is_far:
            found += ": so far ahead of this clock is its broker's, or a client wrote it with that time"
    fix = "run NTP (chrony) here and on the brokers: chronyc tracking"
    if not sample.skews_ms:
        fix += "; if clocks are right, see who else may write to the topic"
    return trial.warning(found, fix) if is_far else trial.ok(found)


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, sorted(numbers)[:10]))
    return f"partitions {shown}" + (" and others" if len(numbers) > 10 else "")
