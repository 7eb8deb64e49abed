"""Which partitions of the topic are read, and from where.

Owns what the consumer fetches and how far each partition is. Here they are assigned explicitly: no group is joined,
no offset committed. `agent.kafka.source.shared` has those that a group gives and takes. Refuses to know records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from agent.core.records import LogId
from agent.kafka.source.cluster import EARLIEST, LATEST, offsets_at
from agent.kafka.source.errors import SourceMisconfigured
from agent.kafka.source.progress import LogBounds, PartitionProgress

ChooseStarts = Callable[[LogId, Mapping[int, LogBounds]], Mapping[int, int]]
"""Asked for partitions as they are taken in, with the bounds of their logs: where to begin. Absent: the beginning."""

PartitionRule = Collection[int] | Callable[[int], bool] | None
"""Numbers of partitions, a rule that holds for those that the topic gets later as well, or None for all."""


class Assignment:
    """The partitions that a rule names, each from where `start` says or else the beginning."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        partitions: PartitionRule,
        start: ChooseStarts,
        *,
        is_start_slow: bool = False,
    ) -> None:
        """`is_start_slow`: `start` takes its time, in which partitions are fetched from their ends."""
        self._consumer, self._topic, self._start = consumer, topic, start
        self._is_start_slow = is_start_slow
        self._rule = partitions if callable(partitions) else None
        self._numbers = None if partitions is None or callable(partitions) else frozenset(partitions)
        self.log_id: LogId | None = None
        """Which log the partitions are of; None before that was asked."""
        self.progress: dict[int, PartitionProgress] = {}
        """Of each partition that is read. Its keys do not change: other threads read it, so it is made anew."""
        self.left: dict[int, int] = {}
        """Of these, the ones that somebody else reads by now, and at which offset reading goes on here."""

    def begin(self, count: int, timeout_s: float) -> None:
        """Take in what is wanted of `count` partitions. Raises `SourceMisconfigured` where others are wanted, and
        what `offsets_at` raises."""
        if absent := [partition for partition in sorted(self._numbers or ()) if not 0 <= partition < count]:
            raise SourceMisconfigured(f"{self._topic}: expected partitions below {count}, got {absent}")
        self._assign([number for number in range(count) if self._is_wanted(number)], timeout_s)

    def take_in(self, partitions: Collection[int], timeout_s: float) -> None:
        """Take in those of them that are wanted."""
        if wanted := [number for number in partitions if self._is_wanted(number)]:
            self._assign(wanted, timeout_s)

    def _is_wanted(self, partition: int) -> bool:
        if self._rule is not None:
            return self._rule(partition)
        return self._numbers is None or partition in self._numbers

    def _assign(self, partitions: Collection[int], timeout_s: float) -> None:
        """Take partitions in, with their ends as of now as the targets."""
        first = offsets_at(self._consumer, self._topic, partitions, EARLIEST, timeout_s)
        last = offsets_at(self._consumer, self._topic, partitions, LATEST, timeout_s)
        bounds = {number: LogBounds(first[number], last[number]) for number in partitions}
        if not self._is_start_slow:
            self._begin(bounds, last)
            return
        # Most likely there is little to read beyond what was kept, and brokers take their time to say so.
        self._attach(last)
        try:
            self._begin(bounds, last, last)
        except Exception:
            self._detach(partitions)
            raise

    def _begin(
        self, bounds: Mapping[int, LogBounds], ends: Mapping[int, int], fetched: Mapping[int, int] | None = None
    ) -> None:
        """Take partitions in of which this is known; `ends`: where they ended when that was asked last; `fetched`:
        from where they are being fetched already."""
        assert self.log_id is not None, "partitions are taken in once it is known of which log"
        starts, fetched = self._start(self.log_id, bounds), fetched or {}
        wanted = {number: starts.get(number, OFFSET_BEGINNING) for number in bounds}
        other = {number: offset for number, offset in wanted.items() if fetched.get(number) != offset}
        self._detach([number for number in other if number in fetched])
        self._attach(other)
        added = {
            number: PartitionProgress(starts.get(number, it.first), it.end, ends[number])
            for number, it in bounds.items()
        }
        self.progress = {**self.progress, **added}

    def accepts(self, partition: int) -> bool:
        """Whether records of it are to be taken: none of a partition that was given up, or left, since they were
        fetched."""
        return partition in self.progress and partition not in self.left

    def read_anew(self, partition: int) -> None:
        """Read one from its beginning: the offset to read from does not exist."""
        end = self.progress[partition].end
        self.progress[partition] = PartitionProgress(0, end, end)
        self._detach([partition])
        self._attach({partition: OFFSET_BEGINNING})

    def move(self, partition: int) -> None:
        """Go on from where its progress is, whatever the client has of it."""
        self._detach([partition])
        self._attach({partition: self.progress[partition].position or OFFSET_BEGINNING})

    def leave(self, partitions: Collection[int]) -> None:
        """Somebody else reads these, until `take_back`."""
        self.left |= dict.fromkeys(partitions, OFFSET_BEGINNING)
        self._detach(partitions)

    def read_elsewhere(self, partition: int, next_offset: int) -> None:
        """One that was left was read up to there."""
        self.left[partition] = next_offset
        self.progress[partition].advance(next_offset)

    def take_back(self, partitions: Collection[int]) -> None:
        """Read those of them that were left from where others have come to."""
        if starts := {it: self.left.pop(it) for it in partitions if it in self.left}:
            self._attach(starts)

    def clear(self) -> None:
        """Read none any more."""
        numbers = [it for it in self.progress if it not in self.left]
        self.progress, self.left = {}, {}
        self._detach(numbers)

    def go_on_with(self, consumer: Consumer) -> None:
        """Read by another consumer, since the one before it was closed."""
        self._consumer = consumer
        self._attach({it: of.position or OFFSET_BEGINNING for it, of in self.progress.items() if it not in self.left})

    def seek_failed(self) -> bool:
        """Begin again where partitions failed; whether any did. A record or an EOF clears the error: librdkafka gives
        an EOF for each offset once, and anew after a seek, so it comes even if there is nothing new to read."""
        failed = {partition: it.position for partition, it in self.progress.items() if it.error is not None}
        for partition, position in failed.items():
            with suppress(KafkaException):  # not being fetched yet: then it is tried again
                self._consumer.seek(TopicPartition(self._topic, partition, position))
        return bool(failed)

    def _attach(self, starts: Mapping[int, int]) -> None:
        """Fetch these from these offsets."""
        self._consumer.incremental_assign([TopicPartition(self._topic, *it) for it in starts.items()])

    def _detach(self, partitions: Collection[int]) -> None:
        """Fetch these no more; what of them waits to be read is thrown away."""
        self._consumer.incremental_unassign([TopicPartition(self._topic, number) for number in partitions])
