"""A Kafka cluster with one topic, as far as a consumer of ours sees it: `__consumer_offsets` by virtual time.

Owns what each partition's log holds at which moment, what a read_committed fetch gets of it, and when brokers do not
answer. `Consumer` and `AdminClient` have librdkafka's semantics as far as `agent.kafka.source` depends on them:
offsets that are gone are an error, an end of partition comes once for an offset, calls time out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import ConfigResource

from agent.core.records import RawRecord
from tests.harness.deterministic.scheduler import Scheduler

TOPIC, STATE_TOPIC = "__consumer_offsets", "__transaction_state"
_EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when something holds, seconds on the steady clock; of one partition, or of all (None)."""

    begin_s: float
    end_s: float
    partition: int | None = None

    def holds(self, now_s: float, partition: int | None = None) -> bool:
        """Whether it does now: for all, or for this partition."""
        return self.begin_s <= now_s < self.end_s and self.partition == partition


@dataclass(slots=True)
class Entry:
    """One offset of a log. `at_s`: when it was appended, on the steady clock. A `marker` ends the transaction of the
    `first` offset; what is of an aborted one is never given."""

    record: RawRecord
    at_s: float
    is_given: bool = True
    is_compacted: bool = False
    """Whether compaction has taken it since."""


@dataclass(slots=True)
class Cut:
    """A leader that had less became leader, or the topic was made anew. `is_noticed`: a consumer was told."""

    keeps: int
    at_s: float
    is_noticed: bool = False


class Transaction(NamedTuple):
    """From its first offset on nothing is stable until `end_s`, when its marker was appended."""

    first: int
    begin_s: float
    end_s: float


@dataclass(slots=True)
class PartitionLog:
    """One partition. Entries are in the order of offsets, and of time."""

    entries: list[Entry]
    transactions: Sequence[Transaction] = ()
    first: int = 0
    """The offset of what is there first."""
    firsts: list[int] = field(default_factory=lambda: [0])
    """What that was over time: who began to read meanwhile has what went later."""
    original: list[Entry] | None = None
    """All that was ever appended, where some of it is not there any more."""
    changed_s: float = float("inf")
    """When something of it was gone for the first time, on the steady clock."""
    compacted: int = 0
    """Before which offset compaction took records."""
    cuts: list[Cut] = field(default_factory=list)
    _times: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._times = [it.at_s for it in self.entries]

    def _changes(self, now_s: float) -> None:
        if self.original is None:
            self.original, self.changed_s = list(self.entries), now_s

    def compact(self, now_s: float, age_s: float) -> None:
        """Of what is older than that, keep of each key the last record only."""
        self._changes(now_s)
        end = min(bisect_right(self._times, now_s - age_s), self.stable_end(now_s))
        seen: set[bytes | None] = set()
        for entry in reversed(self.entries[:end]):
            if entry.is_given:
                entry.is_compacted |= entry.record.key in seen
                seen.add(entry.record.key)
        self.compacted = max(self.compacted, end)

    def delete_records(self, now_s: float, share: float) -> None:
        """The first part of what is there goes."""
        self._changes(now_s)
        self.first += int((self.stable_end(now_s) - self.first) * share)
        self.firsts.append(self.first)

    def cut(self, now_s: float, keeps: int) -> None:
        """All from that offset on goes, and what comes takes its place."""
        self._changes(now_s)
        end = self.high_watermark(now_s)
        keeps = max(min(keeps, end), min(self.first, end))
        self.cuts.append(Cut(keeps, now_s))
        later = enumerate(self.entries[end:], keeps)
        self.entries = self.entries[:keeps] + [replace(it, record=it.record._replace(offset=at)) for at, it in later]
        self.transactions = [
            it if it.first < keeps else it._replace(first=it.first - (end - keeps))
            for it in self.transactions
            if it.first < keeps or it.first >= end
        ]
        self.compacted = min(self.compacted, keeps)
        self.__post_init__()

    @property
    def end(self) -> int:
        """Behind all that is ever appended."""
        return len(self.entries)

    def high_watermark(self, now_s: float) -> int:
        """Behind the last offset."""
        return bisect_right(self._times, now_s)

    def stable_end(self, now_s: float) -> int:
        """Behind the last offset that a read_committed consumer may get."""
        end = self.high_watermark(now_s)
        for it in self.transactions:
            if it.begin_s <= now_s < it.end_s:
                end = min(end, it.first)
        return end

    def changes_at(self, now_s: float) -> float:
        """When more of it is there than now."""
        end = self.high_watermark(now_s)
        ends = [it.end_s for it in self.transactions if it.begin_s <= now_s < it.end_s]
        return min([self._times[end] if end < len(self._times) else float("inf"), *ends])

    def given(self, begin: int, end: int, *, with_hidden: bool = False) -> Iterator[RawRecord]:
        """The committed records of a range; `with_hidden`: those of aborted transactions too."""
        for entry in self.entries[begin:end]:
            if (entry.is_given or (with_hidden and not entry.record.control)) and not entry.is_compacted:
                yield entry.record

    def messages(self, begin: int, end: int, most: int, *, with_hidden: bool) -> tuple[list[Message], int]:
        """What a fetch gets of a range, and where the next one goes on."""
        rows = list(islice(self.given(begin, end, with_hidden=with_hidden), most))
        return list(map(_message, rows)), rows[-1].offset + 1 if len(rows) == most else end

    def given_before(self, end: int) -> Iterator[RawRecord]:
        """The committed records before an offset, backwards."""
        return (it.record for it in reversed(self.entries[:end]) if it.is_given and not it.is_compacted)


class Cluster:
    """The brokers. `silences` are of all or of one partition's leader; `refusals` give errors at once."""

    def __init__(self, scheduler: Scheduler, logs: Mapping[int, PartitionLog]) -> None:
        self.scheduler, self.logs = scheduler, dict(logs)
        self.cluster_id, self.topic_id = "simulated", "topic-1"
        self.silences: list[Span] = []
        self.lost_offsets: list[tuple[float, int]] = []
        """When a leader says once of a partition that the offset to read from does not exist."""
        self.stalls: list[Span] = []
        """When fetches of a partition get nothing, though its end is told."""
        self.slow_s = 0.0
        """How long an answer takes."""
        self.resets = 0
        """How often a consumer was told that an offset is not there."""
        self.moves: list[Move] = []
        """Partitions that others of a group have, or had."""

    def is_silent(self, partition: int | None = None) -> bool:
        """Whether nobody answers: of all, or of a partition."""
        if not self.silences:
            return False
        now_s = self.scheduler.now_s
        return any(it.begin_s <= now_s < it.end_s and it.partition in (None, partition) for it in self.silences)

    def answers(self, timeout_s: float, partitions: Sequence[int] = ()) -> None:
        """Wait for an answer. Raises `KafkaException` where there is none within the time."""
        scheduler = self.scheduler
        scheduler.let_others("request")
        if self.is_silent() or any(map(self.is_silent, partitions)):
            scheduler.sleep(timeout_s)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "Local: Timed out"))
        if self.slow_s:
            scheduler.sleep(min(self.slow_s * scheduler.random.random(), timeout_s))

    def changes_at(self) -> float:
        """When brokers fall silent or answer again next."""
        now_s = self.scheduler.now_s
        times = [time for it in (*self.silences, *self.stalls) for time in (it.begin_s, it.end_s) if time > now_s]
        times += [at_s for at_s, _ in self.lost_offsets if at_s > now_s]
        times += [time for it in self.moves for time in (it.span.begin_s, it.span.end_s) if time > now_s]
        return min(times, default=float("inf"))


@dataclass(frozen=True, slots=True)
class Move:
    """A partition is another's for a time. `is_lost`: who had it is told only when the other has it."""

    span: Span
    is_lost: bool


class Consumer:
    """As `confluent_kafka.Consumer`, of one topic; if in a group, then with others that take partitions at times."""

    def __init__(self, cluster: Cluster, conf: Mapping[str, Any]) -> None:
        self._cluster, self._scheduler = cluster, cluster.scheduler
        self._on_error: Callable[[KafkaError], None] = conf.get("error_cb", lambda error: None)
        self._is_committed = conf["isolation.level"] == "read_committed"
        self._positions: dict[int, int] = {}
        self._told_end: dict[int, int] = {}
        self._cuts_seen: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._paused: set[int] = set()
        self._callbacks: dict[str, Callable[[Consumer, list[TopicPartition]], None]] = {}
        """Of who is in a group, by what has happened."""
        self._was_given = False
        self._high: dict[int, int] = {}
        self._lost_seen = 0
        self._was_silent = False
        self._nothing_until_s = 0.0
        """Until when there is nothing more to fetch."""
        self._waiting: list[Message] = []
        """What was fetched and not taken yet."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        """The topic and its leaders."""
        self._cluster.answers(timeout)
        leads = {it: SimpleNamespace(leader=-1 if self._cluster.is_silent(it) else 1) for it in self._cluster.logs}
        return SimpleNamespace(
            topics={
                TOPIC: SimpleNamespace(error=None, partitions=leads),
                # No transaction has been written there: who wrote those of the log is not known.
                STATE_TOPIC: SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={}),
            },
            cluster_id=self._cluster.cluster_id,
        )

    def offsets_for_times(self, asked: Sequence[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """ListOffsets, of which the agent knows only the first and the last stable offset."""
        self._cluster.answers(timeout, [it.partition for it in asked])
        now_s = self._scheduler.now_s
        out = []
        for it in asked:
            log = self._cluster.logs[it.partition]
            offset = log.first if it.offset == _EARLIEST else log.stable_end(now_s)
            out.append(TopicPartition(it.topic, it.partition, offset))
        return out

    def get_watermark_offsets(self, of: TopicPartition, timeout: float = -1, cached: bool = False) -> tuple[int, int]:
        """As the latest fetch had them."""
        assert cached, "the agent asks no broker for them"
        return (-1001, self._high.get(of.partition, -1001))

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these, and no others."""
        self._positions.clear()
        self._assigned.clear()
        self.incremental_assign(partitions)

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[[Consumer, list[TopicPartition]], None]) -> None:
        """Be given partitions, and told when they are taken."""
        self._callbacks = callbacks

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are this one's."""
        return [TopicPartition(TOPIC, it) for it in sorted(self._assigned)]

    def _rebalance(self) -> None:
        """Have partitions taken or given, as a poll does."""
        cluster, now_s = self._cluster, self._scheduler.now_s
        if not self._callbacks or cluster.is_silent():
            return
        moved = {it.span.partition: it for it in cluster.moves if it.span.begin_s <= now_s < it.span.end_s}
        taken = [TopicPartition(TOPIC, it) for it in sorted(self._assigned & moved.keys())]
        for it in taken:
            self._callbacks["on_lost" if moved[it.partition].is_lost else "on_revoke"](self, [it])
            self.incremental_unassign([it])
        given = [it for it in cluster.logs if it not in moved and it not in self._assigned]
        if given or not self._was_given:
            self._was_given = True
            self._callbacks["on_assign"](self, [TopicPartition(TOPIC, it) for it in given])

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these no more, for now."""
        self._paused.update(it.partition for it in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these again."""
        self._paused.difference_update(it.partition for it in partitions)
        self._nothing_until_s = 0.0

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these as well."""
        self._nothing_until_s = 0.0
        for it in partitions:
            log = self._cluster.logs[it.partition]
            self._positions[it.partition] = log.first if it.offset == OFFSET_BEGINNING else it.offset
            self._assigned.add(it.partition)
            self._cuts_seen[it.partition] = len(log.cuts)
            self._told_end.pop(it.partition, None)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these no more."""
        for it in partitions:
            self._positions.pop(it.partition, None)
            self._assigned.discard(it.partition)
            self._paused.discard(it.partition)
            self._forget_waiting(it.partition)

    def seek(self, to: TopicPartition) -> None:
        """Go on from there."""
        self._nothing_until_s = 0.0
        is_first = to.offset == OFFSET_BEGINNING
        self._positions[to.partition] = self._cluster.logs[to.partition].first if is_first else to.offset
        self._told_end.pop(to.partition, None)
        self._forget_waiting(to.partition)

    def _forget_waiting(self, partition: int) -> None:
        self._waiting = [it for it in self._waiting if it.partition() != partition]

    def poll(self, timeout: float = -1) -> Message | None:
        """One message."""
        if not self._waiting:
            self._waiting = self._take(1, timeout, fill=False)
        return self._waiting.pop(0) if self._waiting else None

    def consume(self, count: int = 1, timeout: float = -1) -> list[Message]:
        """So many, or what there is after the time."""
        waiting, self._waiting = self._waiting, []
        return waiting or self._take(count, timeout, fill=True)

    def close(self) -> None:
        """Nothing is fetched any more."""
        self._positions.clear()

    def _take(self, count: int, timeout_s: float, *, fill: bool) -> list[Message]:
        scheduler = self._scheduler
        scheduler.let_others("poll")
        deadline = scheduler.now_s + timeout_s
        out: list[Message] = []
        while True:
            self._tell_silence()
            self._rebalance()
            found = self._fetched(count - len(out)) if scheduler.now_s >= self._nothing_until_s else []
            out += found
            if len(out) >= count or (out and not fill) or scheduler.now_s >= deadline:
                return out
            if found:
                scheduler.sleep(min(0.01, deadline - scheduler.now_s))
                continue
            if scheduler.now_s >= self._nothing_until_s:
                now_s, logs = scheduler.now_s, self._cluster.logs
                soon = min((logs[it].changes_at(now_s) for it in self._positions), default=float("inf"))
                self._nothing_until_s = max(now_s + 0.001, min(soon, self._cluster.changes_at()))
            scheduler.sleep(min(deadline, self._nothing_until_s) - scheduler.now_s)

    def _tell_silence(self) -> None:
        is_silent = self._cluster.is_silent()
        if is_silent and not self._was_silent:
            self._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        self._was_silent = is_silent

    def _fetched(self, most: int) -> list[Message]:
        """What there is for us now: some of each partition, in a random order of partitions."""
        scheduler, cluster, now_s = self._scheduler, self._cluster, self._scheduler.now_s
        out: list[Message] = []
        if cluster.is_silent():
            return out
        out += self._lost(now_s)
        cluster.resets += len(out)
        partitions = [it for it in self._positions if it not in self._paused]
        scheduler.random.shuffle(partitions)
        for partition in partitions:
            if len(out) >= most:
                break
            if cluster.is_silent(partition) or (
                cluster.stalls and any(it.holds(now_s, partition) for it in cluster.stalls)
            ):
                continue
            log, position = cluster.logs[partition], self._positions[partition]
            self._high[partition] = high = log.high_watermark(now_s)
            # By leaders' epochs librdkafka sees that the log was cut, though it may be longer again by now.
            seen, self._cuts_seen[partition] = self._cuts_seen[partition], len(log.cuts)
            is_cut = any(it.keeps < position for it in log.cuts[seen:])
            for it in log.cuts[seen:]:
                it.is_noticed = True
            if is_cut or not log.first <= position <= high:
                out.append(_event(partition, position, KafkaError._AUTO_OFFSET_RESET))
                cluster.resets += 1
                del self._positions[partition]
                continue
            end = log.stable_end(now_s) if self._is_committed else high
            if position < end:
                # A response holds a part of what there is.
                count = 1 + int(scheduler.random.random() * (most - len(out)))
                found, position = log.messages(position, end, count, with_hidden=not self._is_committed)
                out += found
                self._positions[partition] = position
            if position >= end and self._told_end.get(partition) != position:
                self._told_end[partition] = position
                out.append(_event(partition, position, KafkaError._PARTITION_EOF))
        return out

    def _lost(self, now_s: float) -> list[Message]:
        """What leaders said meanwhile of offsets that they do not have."""
        out: list[Message] = []
        told = self._cluster.lost_offsets
        while self._lost_seen < len(told) and told[self._lost_seen][0] <= now_s:
            at_s, partition = told[self._lost_seen]
            self._lost_seen += 1
            if partition in self._positions and now_s - at_s < 5:
                out.append(_event(partition, self._positions.pop(partition), KafkaError._AUTO_OFFSET_RESET))
        return out


class AdminClient:
    """As `confluent_kafka.admin.AdminClient`, asked for the topic's id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It has no connections."""

    def describe_topics(self, topics: object, request_timeout: float) -> dict[str, Future[SimpleNamespace]]:
        """The topic."""
        answer: Future[SimpleNamespace] = Future()
        try:
            self._cluster.answers(request_timeout)
            partition = SimpleNamespace(isr=[SimpleNamespace(id=1)])
            answer.set_result(SimpleNamespace(topic_id=self._cluster.topic_id, partitions=[partition]))
        except KafkaException as error:
            answer.set_exception(error)
        return {TOPIC: answer}

    def describe_configs(
        self, resources: Iterable[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[dict[str, SimpleNamespace]]]:
        """It says nothing of sessions, so that its defaults are assumed, as by whoever replays the log."""
        answers: dict[ConfigResource, Future[dict[str, SimpleNamespace]]] = {it: Future() for it in resources}
        for answer in answers.values():
            try:
                self._cluster.answers(request_timeout)
                answer.set_result({})
            except KafkaException as error:
                answer.set_exception(error)
        return answers


def _message(it: RawRecord) -> Message:
    return Message(TOPIC, it.partition, it.offset, it.key, it.value, timestamp=(1, it.timestamp_ms))


def _event(partition: int, offset: int, code: int) -> Message:
    return Message(TOPIC, partition, offset, error=KafkaError(code))
