"""The live topic, its partitions shared out among replicas by Kafka's own group protocol.

Owns membership: which partitions are this replica's now, and whether that is still sure. Replicas are members of one
consumer group that subscribes to the topic (cooperative-sticky, static ids where given); nothing is committed there,
where to begin is for the owner to say.

A replica that the group's coordinator no longer hears of is thrown out after its session timeout, and another takes
its partitions, which it may not learn of for as long as it is cut off (or stopped, as by SIGSTOP). So it must not
count as the owner any more once it has had no sign from the brokers for about that time: see `is_sure`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from agent.core.records import RecordBatch
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.kafka.source.progress import PartitionProgress
from agent.kafka.source.topic import ChooseStarts, TopicReader

SESSION_S = 15.0
"""After so long without a heartbeat a replica's partitions go to others."""

_HEARTBEAT_S = 3.0
_SURE_S = SESSION_S - 2 * _HEARTBEAT_S
"""For so long after the last sign from the brokers nobody else can have got the partitions."""
_NO_END = 2**62
"""A target that only the word of the end (EOF) can reach."""


class PartitionOwner(Protocol):
    """Who is told of partitions before they go."""

    def partitions_revoked(self, partitions: Collection[int], *, lost: bool) -> None:
        """They are another's as soon as this returns; `lost`: they are already."""


class SharedTopicReader(TopicReader):
    """A `TopicReader` whose partitions come and go. `poll` calls `start` and `owner` as they do."""

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        group: str,
        owner: PartitionOwner,
        instance_id: str | None = None,
        topic: str = "__consumer_offsets",
        start: ChooseStarts | None = None,
    ) -> None:
        """`instance_id` makes this replica a static member: after a restart within the session it has what it had."""
        self._group, self._instance_id = group, instance_id
        self._owner = owner
        self._joined = self._subscribed = False
        self._fresh: set[int] = set()
        self._fenced: str | None = None
        self._seeks: dict[int, TopicPartition] = {}
        self._sign_s = 0.0
        self._unsure_until_s = 0.0
        # So often it is seen to that the brokers answer: more often than they may throw this replica out.
        super().__init__(conf, topic=topic, start=start, probe_interval_s=_HEARTBEAT_S)

    def _more_properties(self) -> Mapping[str, object]:
        more: dict[str, object] = {
            "group.id": self._group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": str(round(SESSION_S * 1000)),
            "heartbeat.interval.ms": str(round(_HEARTBEAT_S * 1000)),
        }
        return more if self._instance_id is None else {**more, "group.instance.id": self._instance_id}

    @property
    def caught_up(self) -> bool:
        """Whether every partition that this replica has was read to its end; it may have none."""
        return self._joined and all(state.reached for state in self._partitions.values())

    @property
    def healthy(self) -> bool:
        """Whether reading is known to work; so it is where there is nothing to read."""
        return self._joined and not self._closed and self.last_error is None

    @property
    def is_sole_owner(self) -> bool:
        """Whether no other replica can have the partitions by now."""
        now = time.monotonic()
        return self._fenced is None and now - self._sign_s < _SURE_S and now >= self._unsure_until_s

    def poll(self, timeout_s: float = 1.0) -> list[RecordBatch]:
        """As `TopicReader.poll`; raises `SourceDenied` once another has joined under this one's instance id."""
        if self._fenced is not None:
            right = f"an instance id that nobody else has, not {self._instance_id}"
            raise SourceDenied(f"group {self._group}: {self._fenced}", right=right)
        self._seek()
        runs = super().poll(timeout_s)
        if self._fresh:
            self._consumer.resume([TopicPartition(self.topic, number) for number in self._fresh])
            self._fresh.clear()
        now = time.monotonic()
        if self._sign_s and now - self._sign_s >= _SURE_S:
            # Cut off, or stopped: until a heartbeat was answered it is not known who has what.
            self._unsure_until_s = now + 2 * _HEARTBEAT_S
        if self.last_error is None:
            self._sign_s = now
        return runs

    def _on_event(self, message: Message) -> None:
        error = message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            # Of a member that was fenced librdkafka says so once, and is silent from then on.
            self._fenced = error.str()
            self._partitions = {}
        super()._on_event(message)

    def _begin(self, count: int, timeout_s: float) -> None:
        """Join the group; what there is to read comes with its assignments."""
        if not self._subscribed:
            self._consumer.subscribe(
                [self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            self._subscribed = True
        elif owned := [it.partition for it in self._consumer.assignment()]:
            # Another log under the same name: the group goes on, its partitions begin anew.
            self._assign([number for number in owned if number < count], timeout_s)

    def _attach(self, partitions: list[TopicPartition]) -> None:
        # What the group gave is only moved within: to take it away is for the group alone.
        has = {it.partition for it in self._consumer.assignment()}
        new = [it for it in partitions if it.partition not in has]
        if new:
            self._consumer.incremental_assign(new)
        self._seeks |= {it.partition: it for it in partitions if it.partition in has}
        self._seek()

    def _seek(self) -> None:
        for number, it in list(self._seeks.items()):
            with suppress(KafkaException):  # not being fetched yet: then it is tried again
                self._consumer.seek(it)
                del self._seeks[number]

    def _detach(self, partitions: Collection[int]) -> None:
        """Nothing: see `_attach`."""

    def _is_wanted(self, partition: int) -> bool:
        # Nor does a partition that is new: it comes with an assignment.
        return False

    def _is_ours(self, partition: int) -> bool:
        # Of a partition that came during this poll the messages at hand may be from when it was here before.
        return super()._is_ours(partition) and partition not in self._fresh and partition not in self._seeks

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [it.partition for it in partitions]
        self._joined = True
        self._fresh.update(numbers)
        if not numbers:
            return
        try:
            self._assign(numbers, 5.0)
        except SourceError:
            # Their bounds are not known, but the beginning is always right, if slow.
            self._partitions = {
                **self._partitions,
                **{number: PartitionProgress(0, _NO_END, 0) for number in numbers},
            }
            self._attach([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in numbers])
            self._probe_soon()
        consumer.pause([TopicPartition(self.topic, number) for number in numbers])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, lost=False)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(partitions, lost=True)

    def _give_up(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        numbers = [it.partition for it in partitions if it.partition in self._partitions]
        self._partitions = {number: state for number, state in self._partitions.items() if number not in numbers}
        for number in numbers:
            self._seeks.pop(number, None)
        self._owner.partitions_revoked(numbers, lost=lost)
