"""Whether reading works: not "no error came" but "was seen to work".

Every so often, and soon after any error, leaders and the end of every partition are asked for. Reading does not work
when no broker answers; reading a partition, when it has no leader, and when its end moved on without a record coming
from it. Owns when what is asked, and which error is told. Refuses to know records.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from agent.kafka.source.client import classify
from agent.kafka.source.cluster import LATEST, leaders, offsets_at
from agent.kafka.source.errors import (
    PartitionsMissing,
    SourceDenied,
    SourceError,
    SourceUnreachable,
    TopicMissing,
)
from agent.kafka.source.progress import PartitionProgress

PROBE_TIMEOUT_S = 2.0
_WATERMARK_S = 0.1  # from look to look at the high watermarks
_RETRY_S = 1.0  # from probe to probe while reading does not work
_CONFIRM_S = 1.0  # from look to look whether there is anything left to read


class ReaderHealth:
    """Of one reader. Its consumer and the progress of its partitions are arguments; `time.monotonic` is the clock."""

    def __init__(self, topic: str, probe_interval_s: float) -> None:
        self._topic, self._probe_interval_s = topic, probe_interval_s
        self.error: SourceError | None = None
        """Why nothing works; None if it does, or was not tried. Single partitions have errors of their own."""
        self._client_error: SourceError | None = None
        self._probe_at = self._look_at = self._confirm_at = 0.0
        self.high_watermarks: dict[int, int] = {}
        """As librdkafka has them from its fetches."""
        self.read_until_s: Mapping[int, float] = {}
        """For each partition up to when all that was written is known to be read. Absent where there is more to read,
        or where nobody answers."""
        self.held_back: Mapping[int, int] = {}
        """Of partitions in which a transaction is open: the last stable offset, as of when it was last asked for."""

    def works(self) -> None:
        """The brokers answered all that was asked."""
        self.error = self._client_error = None
        self._probe_at = time.monotonic() + self._probe_interval_s

    def on_client_error(self, error: KafkaError) -> None:
        """librdkafka's word on a connection: a reason to look, and the reason to give if nothing works."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self._client_error is None:
            self._client_error = classify(error, doing="connecting to the brokers", topic=self._topic)
        if self.error is not None:
            # The next probe may wait for long.
            self.error = self.reason(self.error)
        self.probe_soon()

    def reason(self, error: SourceError) -> SourceError:
        """What the connections said, if the error is only that nothing answered."""
        if isinstance(error, SourceDenied | TopicMissing) or self._client_error is None:
            return error
        return self._client_error

    def stood_still(self, lasted_s: float) -> None:
        """This process did not run for so long: what was written meanwhile has yet to be read, as after an outage."""
        self.error = self.error or SourceUnreachable(f"this process stood still for {lasted_s:.0f} s")
        self._probe_at = 0.0

    def probe_soon(self) -> None:
        """Something is wrong, perhaps: look within a second."""
        self._probe_at = min(self._probe_at, time.monotonic() + _RETRY_S)

    def confirm_now(self) -> None:
        """Ask for the ends with the next look."""
        self._look_at = self._confirm_at = 0.0

    @property
    def is_probe_due(self) -> bool:
        """Whether it is time for `probe`."""
        return time.monotonic() >= self._probe_at

    def probe(self, consumer: Consumer, progress: Mapping[int, PartitionProgress], *, may_wait: bool) -> int:
        """How many partitions the topic has. Raises `SourceError`, which is to be given to `probe_failed`, where a
        leader does not answer, or partitions are not there. Those that have no leader are marked; likewise those of
        which nothing comes here, unless they `may_wait`."""
        led = leaders(consumer, self._topic, PROBE_TIMEOUT_S)
        if missing := [partition for partition in progress if partition not in led]:
            raise PartitionsMissing(f"{self._topic}: expected partitions {missing}, it has {len(led)}")
        leaderless = [partition for partition in progress if led[partition] < 0]
        has_none = SourceUnreachable(f"{self._topic}: expected leaders, none for partitions {leaderless}")
        if leaderless and len(leaderless) == len(progress):
            raise has_none
        ends = offsets_at(consumer, self._topic, progress.keys() - leaderless, LATEST, PROBE_TIMEOUT_S)
        for partition, it in progress.items():
            if partition not in ends:
                it.error = has_none
                continue
            if self.error is not None or it.error is not None:
                it.catch_up(ends[partition])
            if it.check_stalled(ends[partition]) and not may_wait and it.error is None:
                message = f"partition {partition}: expected records from {it.position} on, none come"
                it.error = SourceUnreachable(f"{message}, its end was {it.end}")
        return len(led)

    def probe_failed(self, error: SourceError) -> None:
        """A probe did not get its answers."""
        self.error = self.reason(error)
        self._probe_at = time.monotonic() + _RETRY_S

    def look(self, consumer: Consumer, progress: Mapping[int, PartitionProgress]) -> None:
        """Bring `high_watermarks` and `read_until_s` up to date where it is time for that.

        Only where records are polled: while one thread is in `consume`, another's call waits for it, and gets its
        turn never (confluent-kafka 2.16)."""
        now_s = time.monotonic()
        if now_s >= self._look_at:
            self._look_at = now_s + _WATERMARK_S
            ask = consumer.get_watermark_offsets
            self.high_watermarks = {it: ask(TopicPartition(self._topic, it), cached=True)[1] for it in progress}
        if now_s >= self._confirm_at:
            known = {it: state for it, state in progress.items() if state.error is None}
            self.read_until_s = {} if self.error is not None else self._confirm_read(consumer, known, now_s)

    def _confirm_read(
        self, consumer: Consumer, progress: Mapping[int, PartitionProgress], now_s: float
    ) -> dict[int, float]:
        """The partitions of which nothing is left to read as of now, open transactions neither.

        A high watermark never goes back, and without an open transaction the last stable offset is there: so an
        answer below a watermark that was known before the question says that one is open, however far the reading
        is."""
        self._confirm_at = now_s + _CONFIRM_S
        known = self.high_watermarks
        try:
            ends = offsets_at(consumer, self._topic, progress, LATEST, PROBE_TIMEOUT_S)
        except SourceError:
            self.probe_soon()
            return {}
        for partition, end in ends.items():
            progress[partition].end = end
        # Of one that is not asked for nobody knows whether the transaction has ended.
        self.held_back = {it: end for it, end in {**self.held_back, **ends}.items() if end < known.get(it, -1)}
        # Of a partition that no fetch was answered for yet there is no watermark: a transaction may be open there.
        return {
            it: now_s for it, behind in self.behind_records(progress).items() if not behind and known.get(it, -1) >= 0
        }

    def behind_records(self, progress: Mapping[int, PartitionProgress]) -> dict[int, int]:
        """For each partition how many offsets its end lies ahead, by what is known without asking a broker."""
        return {it: state.behind_records(self.high_watermarks.get(it, -1)) for it, state in progress.items()}
