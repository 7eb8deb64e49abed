"""The live topic: runs of committed records, how far the reading is, and whether it still works.

Owns the consumer, positions and health. Refuses to know what is in a record and what is done with a run.

Caught up, for a partition, is
when its end as of the start was reached: the target is its last stable offset then (ListOffsets under
read_committed), and it counts as reached when a record behind it came *or* librdkafka said PARTITION_EOF. Both,
since the last offsets may hold no record to come (markers, aborted transactions, what compaction took), and
since a partition written to without pause may never give an EOF. An empty partition gives EOF at once. What lies
behind a transaction that is open at the start is not waited for, but shows in `behind_records`. What the client
cannot take apart is passed over (`agent.kafka.source.quarantine`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, Message

from agent.common.logs import LIBRDKAFKA
from agent.common.pacing import StandstillDetector
from agent.core.records import LogId, RecordBatch
from agent.kafka.client import CertificateFiles, kafka_errors, new_consumer
from agent.kafka.source.assignment import Assignment, ChooseStarts, PartitionRule
from agent.kafka.source.client import classify, consumer_properties, is_lost_offset, misconfigured
from agent.kafka.source.cluster import leaders
from agent.kafka.source.columns import record_batches_of
from agent.kafka.source.errors import (
    PartitionsMissing,
    SourceDenied,
    SourceError,
    SourceUnreachable,
    TopicMissing,
)
from agent.kafka.source.health import PROBE_TIMEOUT_S, ReaderHealth
from agent.kafka.source.identity import IdentityClient
from agent.kafka.source.progress import (
    LogBounds,
    OffsetReset,
    PartitionCountChanged,
    PartitionProgress,
    ReaderNotice,
    TopicRecreated,
)
from agent.kafka.source.quarantine import Quarantine, WayPast, quarantine_reason

log = logging.getLogger("kshadow")

BATCH_RECORDS = 2_500
"""Asked for at once. The messages of one batch are dropped as those of the next are made: so few of them still find
each other's memory in the processor's cache, and making and reading them takes a third less CPU than 10,000 do."""

PROBE_S = 30.0
_FILL_S = 0.05  # how long a batch may take to fill; then what is there is handed on
_PAUSE_S = 0.2
_FIRST_FETCH_S = 2.0  # for a first fetch; with nothing to read a broker answers after `fetch.wait.max.ms`
_IDENTIFY_S = 5.0  # from look to look whether the topic is still the one that it was


class TopicReader:
    """Reads partitions of the topic, all unless told, from where `start` says or else the beginning.

    `start` is a mapping, or asked each time that partitions are taken in.

    One thread calls `poll`; the properties may be read from others. Making one raises `SourceMisconfigured`,
    and connects to nothing yet: `connect` does, or the first `poll`.
    """

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        topic: str = "__consumer_offsets",
        partitions: PartitionRule = None,
        start: Mapping[int, int] | ChooseStarts | None = None,
        probe_interval_s: float = PROBE_S,
    ) -> None:
        self.topic = topic
        self.partition_count = 0
        """Of the topic as last seen; 0 before `connect`."""
        self._notices: list[ReaderNotice] = []
        self._identify_at = 0.0
        self._is_connected = self._closed = self._was_caught_up = False
        self._first_messages: list[Message] = []
        self._health = ReaderHealth(topic, probe_interval_s)
        self._standstill = StandstillDetector()
        self._properties: dict[str, object] = {**consumer_properties(conf), "error_cb": self._health.on_client_error}
        self._files = CertificateFiles(conf)
        self._consumer, self._identity = self._new_clients()
        self.quarantine = Quarantine()
        """What was passed over."""
        self._way_past = WayPast(self._properties, topic)
        self._moved: set[int] = set()
        """Partitions that were moved past something, and have not come to their ends since. librdkafka (2.16) goes
        on within a batch whose checksum is wrong, and asks for offsets that it finds there: those were never lost,
        and that they are may be told when records from behind the batch have come."""
        choose_starts = start if callable(start) else _fixed(start or {})
        self._assignment = Assignment(self._consumer, topic, partitions, choose_starts, is_start_slow=callable(start))

    def _new_clients(self) -> tuple[Consumer, IdentityClient]:
        with kafka_errors(misconfigured):
            # Fatal errors librdkafka prints at any `log_level`; and who turns its log up wants it among ours.
            consumer = new_consumer(self._properties, logger=logging.getLogger(LIBRDKAFKA))
        return consumer, IdentityClient(consumer, self._properties)

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def log_id(self) -> LogId | None:
        """Which log is read; None before `connect`."""
        return self._assignment.log_id

    @property
    def caught_up(self) -> bool:
        """Whether every partition was read to where it ended at the start; a shard may have none."""
        return self._is_connected and all(it.reached for it in self._assignment.progress.values())

    @property
    def caught_up_partitions(self) -> dict[int, bool]:
        """For each partition whether it was read to where it ended at the start."""
        return {partition: it.reached for partition, it in self._assignment.progress.items()}

    @property
    def current_partitions(self) -> dict[int, bool]:
        """The same, and after an outage whether it was read to where it ended when brokers answered again."""
        return {partition: it.is_current for partition, it in self._assignment.progress.items()}

    @property
    def positions(self) -> dict[int, int]:
        """For each partition the offset of the next record to come: `start` of a reader that goes on from here."""
        return {partition: it.position for partition, it in self._assignment.progress.items()}

    @property
    def behind_records(self) -> dict[int, int]:
        """For each partition how many offsets its end lies ahead, by what is known without asking a broker. Absent
        where reading has stopped: where the end is by now is not known."""
        if self._health.error is not None:
            return {}
        return self._health.behind_records(
            {partition: it for partition, it in self._assignment.progress.items() if it.error is None}
        )

    @property
    def read_until_s(self) -> Mapping[int, float]:
        """For each partition up to when (`time.monotonic`) all that was written is known to be read: asked for about
        each second. Absent where there is more to read, or where nobody answers."""
        # What was known of a partition that is read anew since is not of this reading.
        current = self.current_partitions
        return {it: at_s for it, at_s in self._health.read_until_s.items() if current.get(it)}

    @property
    def held_back(self) -> Mapping[int, int]:
        """The partitions in which a transaction is open, each with its last stable offset: nothing from there on can
        be read until it has ended. Asked for about each second."""
        return self._health.held_back

    @property
    def healthy(self) -> bool:
        """Whether reading is known to work; so it is where there is nothing to read."""
        return self._is_connected and not self._closed and self.last_error is None

    @property
    def last_error(self) -> SourceError | None:
        """Why reading does not work; None when it does, or was not tried."""
        if self._health.error is not None:
            return self._health.error
        return next((it.error for it in self._assignment.progress.values() if it.error is not None), None)

    def is_stopped(self, partition: int) -> bool:
        """Whether reading a partition is known not to work, or has not gone on for long, as right after this process
        was stopped: so that it is not known what is written there."""
        if self._health.error is not None or self._standstill.idle_s(time.monotonic()):
            return True
        state = self._assignment.progress.get(partition)
        return state is not None and state.error is not None

    @property
    def unread(self) -> dict[int, LogBounds]:
        """For each partition that nobody else reads, the offset of the next record to come, and where it ended at the
        start."""
        it = self._assignment
        return {
            number: LogBounds(of.position, of.target) for number, of in it.progress.items() if number not in it.left
        }

    def leave(self, partitions: Collection[int]) -> None:
        """Somebody else reads these, until `take_back`."""
        self._first_messages = [it for it in self._first_messages if it.partition() not in partitions]
        self._assignment.leave(partitions)

    def read_elsewhere(self, partition: int, next_offset: int) -> None:
        """One that was left was read up to there."""
        self._assignment.read_elsewhere(partition, next_offset)

    def take_back(self, partitions: Collection[int]) -> None:
        """Read those of them that were left, if they still are, from where others have come to."""
        self._assignment.take_back(partitions)

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
                self._consumer.poll(0)  # serves `on_client_error`, which knows more than that there was no answer
                reason = self._health.reason(error)
                # A topic just made has no leader for a moment, or one that does not know of it yet.
                if isinstance(reason, SourceDenied | TopicMissing) or time.monotonic() + _PAUSE_S > deadline:
                    raise reason from error
                time.sleep(_PAUSE_S)
        self._health.works()
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
        self._assignment.log_id = self._identity.ask(self.topic, timeout_s)
        self._identify_at = time.monotonic() + _IDENTIFY_S
        self._assignment.begin(count, timeout_s)
        self._is_connected = True
        return count

    def poll(self, timeout_s: float = 1.0) -> list[RecordBatch]:
        """The next runs, in the order of each partition; empty after `timeout_s` without any.

        Does not raise for what the world does: while no broker answers or a right is missing it goes on
        trying, and `healthy` and `last_error` tell. But for `SourceMisconfigured`, where the topic was made anew
        without a partition that is to be read.
        """
        deadline = time.monotonic() + timeout_s
        if not self._is_connected:
            try:
                self.connect(max(timeout_s, PROBE_TIMEOUT_S))
            except (SourceUnreachable, SourceDenied) as error:
                self._health.error = error
                self._heed_certificates()
                self._consumer.poll(max(0.0, deadline - time.monotonic()))
                return []
        messages = self._consume(deadline)
        if (lasted_s := self._standstill.lasted_s(time.monotonic())) and self._was_caught_up:
            self._health.stood_still(lasted_s)
        runs = self._accept(messages)
        if time.monotonic() >= self._identify_at and self._health.error is None and self._identify():
            runs = []
        if not self._was_caught_up and self.caught_up:
            # Who asks now is to be told what is held back.
            self._was_caught_up = True
            self._health.confirm_now()
        self._health.look(self._consumer, self._assignment.progress)
        if self._health.is_probe_due:
            # During catch-up some partitions wait until the queue has room for them: that is no stall.
            self._probe(may_wait=bool(self._assignment.left) or (bool(runs) and not self.caught_up))
        return runs

    def close(self) -> None:
        """Let go of the connections; positions can still be asked for."""
        if not self._closed:
            self._closed = True
            self._way_past.close()
            self._identity.close()
            self._consumer.close()

    def _consume(self, deadline: float) -> list[Message]:
        """`consume` waits until its batch is full: give it a moment, then wait for a first message only."""
        if self._first_messages:
            early, self._first_messages = self._first_messages, []
            return early
        fill_s = min(_FILL_S, max(0.0, deadline - time.monotonic()))
        messages = self._consumer.consume(BATCH_RECORDS, fill_s)
        if not messages:
            first = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if first is not None:
                messages = [first, *self._consumer.consume(BATCH_RECORDS - 1, 0)]
        return messages

    def _accept(self, messages: list[Message]) -> list[RecordBatch]:
        events: list[Message] = []
        if any(map(Message.error, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            if any(is_lost_offset(error) for message in events if (error := message.error())) and self._identify():
                # Nothing says which of the two logs these records are from; they come again if it is the new one.
                return []
        runs = [run for run in record_batches_of(messages) if self._assignment.accepts(run.partition)]
        for run in runs:
            self._assignment.progress[run.partition].advance(run.offsets[-1] + 1)
        for message in events:
            self._on_event(message)
        return runs

    def _on_event(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        progress = None if partition is None else self._assignment.progress.get(partition)
        if error is None or partition is None or progress is None or message.topic() != self.topic:
            # Of the group that is never joined (no right to it, its coordinator away): of no account.
            return
        if partition in self._assignment.left:
            # From before it was left; it is told again where it still holds.
            return
        if error.code() == KafkaError._PARTITION_EOF:
            progress.advance(0 if offset is None else offset, at_end=True)
            self._moved.discard(partition)
        elif is_lost_offset(error) and partition in self._moved and offset != progress.position:
            self._assignment.move(partition)
        elif is_lost_offset(error):
            self._notices.append(OffsetReset(partition, progress.position, error.str()))
            self._assignment.read_anew(partition)
            self.quarantine.forget(partition)
        elif quarantine_reason(error) is None or not self._pass_over(partition, progress):
            doing = f"reading partition {partition} of {self.topic}"
            progress.error = classify(error, doing=doing, topic=self.topic, operation="Read")
            self._health.probe_soon()

    def _pass_over(self, partition: int, progress: PartitionProgress) -> bool:
        """Go on behind what cannot be read, if anything is still in the way; whether reading goes on."""
        pieces = self._way_past.search(partition, progress.position)
        if pieces is None:
            return False
        for piece in pieces:
            self.quarantine.add(piece)
            self._notices.append(piece)
            progress.advance(piece.end)
        self._moved.add(partition)
        self._assignment.move(partition)
        return True

    def _identify(self) -> bool:
        """Look whether the topic is still the one that it was; whether it is not: then it is read anew."""
        self._identify_at = time.monotonic() + _IDENTIFY_S
        try:
            found = self._identity.ask(self.topic, PROBE_TIMEOUT_S)
        except SourceError:
            # Deleted, or nobody answers: a probe says so, and looks again. By connections that last a probe may still
            # work, after brokers got certificates that new ones need other files for.
            self._heed_certificates()
            self._health.probe_soon()
            self._identify_at = 0.0
            return False
        if self.log_id is None or found == self.log_id:
            return False
        self._notices.append(TopicRecreated(self.log_id, found))
        self._assignment.log_id = found
        self._assignment.clear()
        self.quarantine.forget()
        self._is_connected = False
        return True

    def _probe(self, *, may_wait: bool) -> None:
        try:
            count = self._health.probe(self._consumer, self._assignment.progress, may_wait=may_wait)
            if count != self.partition_count:
                self._assignment.take_in(range(self.partition_count, count), PROBE_TIMEOUT_S)
                self._notices.append(PartitionCountChanged(self.partition_count, count))
                self.partition_count = count
        except SourceError as error:
            if isinstance(error, PartitionsMissing) and self._identify():
                return
            self._health.probe_failed(error)
            self._heed_certificates()
            return
        self._health.works()
        if self._assignment.seek_failed():
            self._health.probe_soon()

    def _heed_certificates(self) -> None:
        """Nothing is answered: if files of certificates were renewed since the clients were made, go on with new
        ones."""
        if not self._files.are_renewed():
            return
        try:
            consumer, identity = self._new_clients()
        except SourceError as error:
            log.warning("%s: the files of certificates or keys were renewed, and do not do: %s", self.topic, error)
            return
        log.info("%s: the files of certificates or keys were renewed: connecting with these", self.topic)
        self._way_past.close()
        self._identity.close()
        self._consumer.close()
        self._consumer, self._identity, self._first_messages = consumer, identity, []
        self._assignment.go_on_with(consumer)


def _fixed(start: Mapping[int, int]) -> ChooseStarts:
    return lambda log_id, bounds: start
