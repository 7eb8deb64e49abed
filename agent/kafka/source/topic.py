"""The live topic: runs of committed records, how far the reading is, and whether it still works.

Owns the consumer, positions and health. Refuses to know what is in a record and what is done with a run.

The partitions are assigned explicitly: no group is joined, no offset committed. Caught up, for a partition, is
when its end as of the start was reached: the target is its last stable offset then (ListOffsets under
read_committed), and it counts as reached when a record behind it came *or* librdkafka said PARTITION_EOF. Both,
since the last offsets may hold no record to come (markers, aborted transactions, what compaction took), and
since a partition written to without pause may never give an EOF. An empty partition gives EOF at once. What lies
behind a transaction that is open at the start is not waited for, but shows in `behind_records`.

Healthy is not "no error came" but "was seen to work": every `probe_interval_s`, and soon after any error, the
reader asks for metadata and for the end of every partition. It is unhealthy when no broker answers, when a
partition has no leader, and when a partition's end moved on without a record coming from it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import TracebackType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from agent.common.logs import LIBRDKAFKA
from agent.core.records import LogId, RecordBatch
from agent.kafka.source.client import classify, consumer_properties, is_lost_offset
from agent.kafka.source.cluster import EARLIEST, LATEST, leaders, offsets_at
from agent.kafka.source.columns import record_batches_of
from agent.kafka.source.errors import SourceDenied, SourceError, SourceMisconfigured, SourceUnreachable, TopicMissing
from agent.kafka.source.identity import IdentityClient
from agent.kafka.source.progress import (
    LogBounds,
    OffsetReset,
    PartitionCountChanged,
    PartitionProgress,
    ReaderNotice,
    TopicRecreated,
)

BATCH_RECORDS = 2_500
"""Asked for at once. The messages of one batch are dropped as those of the next are made: so few of them still find
each other's memory in the processor's cache, and making and reading them takes a third less CPU than 10,000 do."""

_FILL_S = 0.05  # how long a batch may take to fill; then what is there is handed on
_PROBE_TIMEOUT_S = 2.0
_PAUSE_S = 0.2
_FIRST_FETCH_S = 2.0  # for a first fetch; with nothing to read a broker answers after half a second
_WATERMARK_S = 0.1  # from look to look at the high watermarks
_RETRY_S = 1.0  # from probe to probe while unhealthy
_CONFIRM_S = 1.0  # from look to look whether there is anything left to read
_IDENTIFY_S = 5.0  # from look to look whether the topic is still the one that it was

ChooseStarts = Callable[[LogId, Mapping[int, LogBounds]], Mapping[int, int]]
"""Asked for partitions as they are taken in, with the bounds of their logs: where to begin. Absent: the beginning."""


class TopicReader:
    """Reads partitions of the topic, all unless told, from where `start` says or else the beginning.

    `partitions` are numbers, or a rule that holds for those that the topic gets later as well. `start` is a mapping,
    or asked each time that partitions are taken in.

    One thread calls `poll`; the properties may be read from others. Making one raises `SourceMisconfigured`,
    and connects to nothing yet: `connect` does, or the first `poll`.
    """

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        topic: str = "__consumer_offsets",
        partitions: Collection[int] | Callable[[int], bool] | None = None,
        start: Mapping[int, int] | ChooseStarts | None = None,
        batch_records: int = BATCH_RECORDS,
        probe_interval_s: float = 30.0,
    ) -> None:
        self.topic = topic
        self.partition_count = 0
        """Of the topic as last seen; 0 before `connect`."""
        self.log_id: LogId | None = None
        """Which log is read; None before `connect`."""
        self._rule = partitions if callable(partitions) else None
        self._wanted = None if partitions is None or callable(partitions) else frozenset(partitions)
        self._start: ChooseStarts = start if callable(start) else _fixed(start or {})
        self._batch_records, self._probe_interval_s = batch_records, probe_interval_s
        self._partitions: dict[int, PartitionProgress] = {}
        self._error: SourceError | None = None
        self._client_error: SourceError | None = None
        self._notices: list[ReaderNotice] = []
        self._high_watermarks: dict[int, int] = {}
        self._look_at = 0.0
        self._probe_at = 0.0
        self._identify_at = self._confirm_at = 0.0
        self._is_assigned = False
        self.read_until_s: Mapping[int, float] = {}
        """For each partition up to when (`time.monotonic`) all that was written is known to be read: asked for about
        each second. Absent where there is more to read, or where nobody answers."""
        self._closed = False
        self._first_messages: list[Message] = []
        properties: dict[str, object] = {
            **consumer_properties(conf),
            **self._more_properties(),
            "error_cb": self._on_error,
        }
        try:
            # Fatal errors librdkafka prints at any `log_level`; and who turns its log up wants it among ours.
            self._consumer = Consumer(properties, logger=logging.getLogger(LIBRDKAFKA))
        except KafkaException as error:
            raise SourceMisconfigured(f"librdkafka does not take the properties: {error.args[0].str()}") from error
        self._identity = IdentityClient(properties)

    def _more_properties(self) -> Mapping[str, object]:
        """Of the consumer, over the caller's."""
        return {}

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def caught_up(self) -> bool:
        """Whether every partition was read to where it ended at the start."""
        partitions = self._partitions
        return bool(partitions) and all(state.reached for state in partitions.values())

    @property
    def caught_up_partitions(self) -> dict[int, bool]:
        """For each partition whether it was read to where it ended at the start."""
        return {partition: state.reached for partition, state in self._partitions.items()}

    @property
    def positions(self) -> dict[int, int]:
        """For each partition the offset of the next record to come: `start` of a reader that goes on from here."""
        return {partition: state.position for partition, state in self._partitions.items()}

    @property
    def behind_records(self) -> dict[int, int]:
        """For each partition how many offsets its end lies ahead, by what is known without asking a broker."""
        return {
            partition: progress.behind_records(self._high_watermarks.get(partition, -1))
            for partition, progress in self._partitions.items()
        }

    @property
    def healthy(self) -> bool:
        """Whether reading is known to work."""
        return bool(self._partitions) and not self._closed and self.last_error is None

    @property
    def last_error(self) -> SourceError | None:
        """Why reading does not work; None when it does, or was not tried."""
        if self._error is not None:
            return self._error
        return next((state.error for state in self._partitions.values() if state.error is not None), None)

    def take_notices(self) -> list[ReaderNotice]:
        """What happened since the last call that a caller must act upon, in order."""
        notices, self._notices = self._notices, []
        return notices

    def connect(self, timeout_s: float = 10.0) -> None:
        """Find the topic and its ends, assign the partitions.

        Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`; `SourceMisconfigured` for a partition that
        the topic does not have.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                self.partition_count = self._find(left_s)
                break
            except SourceUnreachable as error:
                self._consumer.poll(0)  # serves `_on_error`, which knows more than that there was no answer
                reason = self._reason(error)
                # A topic just made has no leader for a moment, or one that does not know of it yet.
                if isinstance(reason, SourceDenied | TopicMissing) or time.monotonic() + _PAUSE_S > deadline:
                    raise reason from error
                time.sleep(_PAUSE_S)
        self._mark_healthy()
        self._await_answer(min(_FIRST_FETCH_S, max(0.1, deadline - time.monotonic())))

    def _await_answer(self, timeout_s: float) -> None:
        """See one fetch answered: only that shows that Read is granted, and who starts should be told at once. What
        comes is kept for `poll`; that nothing does is for `poll` to find, too."""
        deadline = time.monotonic() + timeout_s
        while (message := self._consumer.poll(max(0.0, deadline - time.monotonic()))) is not None:
            self._first_messages.append(message)
            error = message.error()
            if message.topic() == self.topic:
                if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise classify(error, doing=f"reading {self.topic}", topic=self.topic, operation="Read")
                return

    def _find(self, timeout_s: float) -> int:
        count = len(leaders(self._consumer, self.topic, timeout_s))
        absent = [partition for partition in sorted(self._wanted or ()) if not 0 <= partition < count]
        if absent:
            raise SourceMisconfigured(f"{self.topic}: expected partitions below {count}, came {absent}")
        self.log_id = self._identity.ask(self.topic, timeout_s)
        self._identify_at = time.monotonic() + _IDENTIFY_S
        self._begin(count, timeout_s)
        self._is_assigned = True
        return count

    def _begin(self, count: int, timeout_s: float) -> None:
        """Take in what is to be read of so many partitions."""
        self._assign([number for number in range(count) if self._is_wanted(number)], timeout_s)

    def _is_wanted(self, partition: int) -> bool:
        if self._rule is not None:
            return self._rule(partition)
        return self._wanted is None or partition in self._wanted

    def _reason(self, error: SourceError) -> SourceError:
        """What the connections said, if the error is only that nothing answered."""
        if isinstance(error, SourceDenied | TopicMissing) or self._client_error is None:
            return error
        return self._client_error

    def poll(self, timeout_s: float = 1.0) -> list[RecordBatch]:
        """The next runs, in the order of each partition; empty after `timeout_s` without any.

        Does not raise for what the world does: while no broker answers or a right is missing it goes on
        trying, and `healthy` and `last_error` tell.
        """
        deadline = time.monotonic() + timeout_s
        if not self._is_assigned:
            try:
                self.connect(max(timeout_s, _PROBE_TIMEOUT_S))
            except (SourceUnreachable, SourceDenied) as error:
                self._error = error
                self._consumer.poll(max(0.0, deadline - time.monotonic()))
                return []
        runs = self._accept(self._consume(deadline))
        if time.monotonic() >= self._identify_at and self._error is None and self._identify():
            runs = []
        self._high_watermarks = self._look_at_high_watermarks()
        if time.monotonic() >= self._confirm_at:
            self.read_until_s = {} if self.last_error is not None else self._confirm_read()
        if time.monotonic() >= self._probe_at:
            # During catch-up some partitions wait until the queue has room for them: that is no stall.
            self._probe(may_wait=bool(runs) and not self.caught_up)
        return runs

    def close(self) -> None:
        """Let go of the connections; positions can still be asked for."""
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _consume(self, deadline: float) -> list[Message]:
        """`consume` waits until its batch is full: give it a moment, then wait for a first message only."""
        if self._first_messages:
            early, self._first_messages = self._first_messages, []
            return early
        fill_s = min(_FILL_S, max(0.0, deadline - time.monotonic()))
        messages = self._consumer.consume(self._batch_records, fill_s)
        if not messages:
            first = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if first is not None:
                messages = [first, *self._consumer.consume(self._batch_records - 1, 0)]
        return messages

    def _accept(self, messages: list[Message]) -> list[RecordBatch]:
        events: list[Message] = []
        if any(map(Message.error, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            if any(is_lost_offset(error) for message in events if (error := message.error())) and self._identify():
                # Nothing says which of the two logs these records are from; they come again if it is the new one.
                return []
        runs = [run for run in record_batches_of(messages) if self._is_ours(run.partition)]
        for run in runs:
            self._partitions[run.partition].advance(run.offsets[-1] + 1)
        for message in events:
            self._on_event(message)
        return runs

    def _is_ours(self, partition: int) -> bool:
        """Whether records of it are to be taken: none of a partition that was given up since they were fetched."""
        return partition in self._partitions

    def _on_event(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        progress = None if partition is None else self._partitions.get(partition)
        if error is None or partition is None or progress is None or message.topic() != self.topic:
            # Of the group that is never joined (no right to it, its coordinator away): of no account.
            return
        if error.code() == KafkaError._PARTITION_EOF:
            progress.advance(0 if offset is None else offset, at_end=True)
        elif is_lost_offset(error):
            self._notices.append(OffsetReset(partition, progress.position, error.str()))
            self._partitions[partition] = PartitionProgress(0, progress.end, progress.end)
            self._detach([partition])
            self._attach([TopicPartition(self.topic, partition, OFFSET_BEGINNING)])
        else:
            doing = f"reading partition {partition} of {self.topic}"
            progress.error = classify(error, doing=doing, topic=self.topic, operation="Read")
            self._probe_soon()

    def _identify(self) -> bool:
        """Look whether the topic is still the one that it was; whether it is not: then it is read anew."""
        self._identify_at = time.monotonic() + _IDENTIFY_S
        try:
            found = self._identity.ask(self.topic, _PROBE_TIMEOUT_S)
        except SourceError:
            # Deleted, or nobody answers: a probe says so, and looks again.
            self._probe_soon()
            self._identify_at = 0.0
            return False
        if self.log_id is None or found == self.log_id:
            return False
        self._notices.append(TopicRecreated(self.log_id, found))
        self.log_id = found
        self._restart()
        return True

    def _restart(self) -> None:
        """Read all partitions of what is another log now."""
        numbers, self._partitions = list(self._partitions), {}
        self._detach(numbers)
        self._is_assigned = False

    def _on_error(self, error: KafkaError) -> None:
        """librdkafka's word on a connection: a reason to look, and the reason to give if nothing works."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._client_error is None:
            self._client_error = classify(error, doing="connecting to the brokers", topic=self.topic)
        self._probe_soon()

    def _probe_soon(self) -> None:
        self._probe_at = min(self._probe_at, time.monotonic() + _RETRY_S)

    def _mark_healthy(self) -> None:
        self._error = self._client_error = None
        self._probe_at = time.monotonic() + self._probe_interval_s

    def _assign(self, partitions: Collection[int], timeout_s: float) -> None:
        """Take partitions in, with their ends as of now as the targets."""
        first = offsets_at(self._consumer, self.topic, partitions, EARLIEST, timeout_s)
        last = offsets_at(self._consumer, self.topic, partitions, LATEST, timeout_s)
        assert self.log_id is not None, "partitions are taken in once it is known of which log"
        starts = self._start(self.log_id, {number: LogBounds(first[number], last[number]) for number in partitions})
        added, progress = [], {}
        for partition in partitions:
            begin = starts.get(partition)
            added.append(TopicPartition(self.topic, partition, OFFSET_BEGINNING if begin is None else begin))
            position, end = first[partition] if begin is None else begin, last[partition]
            progress[partition] = PartitionProgress(position, end, end)
        self._attach(added)
        self._partitions = {**self._partitions, **progress}  # anew: other threads may be reading the old one

    def _attach(self, partitions: list[TopicPartition]) -> None:
        """Fetch these from the offsets they carry."""
        self._consumer.incremental_assign(partitions)

    def _detach(self, partitions: Collection[int]) -> None:
        """Fetch these no more; what of them waits to be read is thrown away."""
        self._consumer.incremental_unassign([TopicPartition(self.topic, number) for number in partitions])

    def _probe(self, *, may_wait: bool) -> None:
        """See whether the partitions have leaders that answer, and whether what they have comes here."""
        try:
            led = leaders(self._consumer, self.topic, _PROBE_TIMEOUT_S)
            leaderless = [partition for partition in self._partitions if led.get(partition, -1) < 0]
            if leaderless:
                raise SourceUnreachable(f"{self.topic}: expected leaders, none for partitions {leaderless}")
            ends = offsets_at(self._consumer, self.topic, self._partitions, LATEST, _PROBE_TIMEOUT_S)
            for partition, progress in self._partitions.items():
                if progress.check_stalled(ends[partition]) and not may_wait and progress.error is None:
                    message = f"partition {partition}: expected records from {progress.position} on, none come"
                    progress.error = SourceUnreachable(f"{message}, its end was {progress.end}")
            self._grow(len(led))
        except SourceError as error:
            self._error = self._reason(error)
            self._probe_at = time.monotonic() + _RETRY_S
            return
        self._mark_healthy()
        self._seek_failed()

    def _confirm_read(self) -> dict[int, float]:
        """The partitions of which nothing is left to read as of now, open transactions neither."""
        now_s = time.monotonic()
        self._confirm_at = now_s + _CONFIRM_S
        try:
            ends = offsets_at(self._consumer, self.topic, self._partitions, LATEST, _PROBE_TIMEOUT_S)
        except SourceError:
            self._probe_soon()
            return {}
        for partition, end in ends.items():
            self._partitions[partition].end = end
        return {partition: now_s for partition, behind in self.behind_records.items() if not behind}

    def _grow(self, count: int) -> None:
        if count == self.partition_count:
            return
        new = [number for number in range(self.partition_count, count) if self._is_wanted(number)]
        if new:
            self._assign(new, _PROBE_TIMEOUT_S)
        self._notices.append(PartitionCountChanged(self.partition_count, count))
        self.partition_count = count

    def _seek_failed(self) -> None:
        """Begin again where a partition failed. A record or an EOF clears its error: librdkafka gives an EOF
        for each offset once, and anew after a seek, so it comes even if there is nothing new to read."""
        for partition, progress in self._partitions.items():
            if progress.error is not None:
                self._probe_soon()
                with suppress(KafkaException):  # not being fetched yet: then it is tried again
                    self._consumer.seek(TopicPartition(self.topic, partition, progress.position))

    def _look_at_high_watermarks(self) -> dict[int, int]:
        """As librdkafka has them from its fetches. Only where `poll` runs: while one thread is in `consume`, the same
        call from another waits for it, and gets its turn never (confluent-kafka 2.16)."""
        if time.monotonic() < self._look_at:
            return self._high_watermarks
        self._look_at = time.monotonic() + _WATERMARK_S
        ask = self._consumer.get_watermark_offsets
        return {number: ask(TopicPartition(self.topic, number), cached=True)[1] for number in self._partitions}


def _fixed(start: Mapping[int, int]) -> ChooseStarts:
    return lambda log_id, bounds: start
