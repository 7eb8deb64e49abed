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
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agent.core.records import LogId, RecordBatch
from agent.kafka.source.assignment import Assignment, ChooseStarts
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.kafka.source.progress import LogBounds
from agent.kafka.source.topic import TopicReader

SESSION_S = 15.0
"""After so long without a heartbeat a replica's partitions go to others."""

_HEARTBEAT_S = 3.0
_SURE_S = SESSION_S - 2 * _HEARTBEAT_S
"""For so long after the last sign from the brokers nobody else can have got the partitions."""
_NO_END = 2**62
"""A target that only the word of the end (EOF) can reach."""


OnRevoked = Callable[[Collection[int], bool], None]
"""Told of partitions before they go: they are another's as soon as it returns, or, if True, already (lost)."""


class GroupAssignment(Assignment):
    """The partitions that a consumer group gives and takes; its callbacks run while the consumer is polled."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        start: ChooseStarts,
        on_revoked: OnRevoked,
        on_unknown_bounds: Callable[[], None],
    ) -> None:
        """`on_unknown_bounds` is called where partitions came and no broker said where they begin and end."""
        super().__init__(consumer, topic, None, start)
        self._on_revoked, self._on_unknown_bounds = on_revoked, on_unknown_bounds
        self._subscribed = False
        self.joined = False
        """Whether the group has given anything yet, if only that there is nothing."""
        self._fresh: set[int] = set()
        """Partitions that came during this poll."""
        self._seeks: dict[int, TopicPartition] = {}

    def begin(self, count: int, timeout_s: float) -> None:
        """Join the group; what there is to read comes with its assignments."""
        if not self._subscribed:
            self._consumer.subscribe(
                [self._topic],
                on_assign=self._on_assign,
                on_revoke=lambda _, partitions: self._give_up(partitions, lost=False),
                on_lost=lambda _, partitions: self._give_up(partitions, lost=True),
            )
            self._subscribed = True
        elif owned := [it.partition for it in self._consumer.assignment() if it.partition < count]:
            # Another log under the same name: the group goes on, its partitions begin anew.
            self._assign(owned, timeout_s)

    def go_on_with(self, consumer: Consumer) -> None:
        """Join the group anew: what there is to read comes with its assignments."""
        self._consumer, self._subscribed, self.joined = consumer, False, False
        self._fresh.clear()
        self._seeks.clear()
        self.begin(0, 0.0)

    def take_in(self, partitions: Collection[int], timeout_s: float) -> None:
        """Nothing: a partition that is new comes with an assignment."""

    def accepts(self, partition: int) -> bool:
        """Nor are the messages at hand taken of a partition that came during this poll: they may be from when it was
        here before."""
        return super().accepts(partition) and partition not in self._fresh and partition not in self._seeks

    def resume_new(self) -> None:
        """From the next poll on, take what comes of partitions that came during this one."""
        if self._fresh:
            self._consumer.resume([TopicPartition(self._topic, number) for number in self._fresh])
            self._fresh.clear()

    def seek(self) -> None:
        """Move to where partitions are to be read anew."""
        for number, it in list(self._seeks.items()):
            with suppress(KafkaException):  # not being fetched yet: then it is tried again
                self._consumer.seek(it)
                del self._seeks[number]

    def _attach(self, starts: Mapping[int, int]) -> None:
        # What the group gave is only moved within: to take it away is for the group alone.
        has = {it.partition for it in self._consumer.assignment()}
        if new := {number: offset for number, offset in starts.items() if number not in has}:
            super()._attach(new)
        self._seeks |= {it: TopicPartition(self._topic, it, starts[it]) for it in starts.keys() & has}
        self.seek()

    def _detach(self, partitions: Collection[int]) -> None:
        """Nothing: see `_attach`."""

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [it.partition for it in partitions]
        self.joined = True
        self._fresh.update(numbers)
        if not numbers:
            return
        try:
            self._assign(numbers, 5.0)
        except SourceError:
            # One without a leader is enough that no bounds are known: so all go on from what is kept of them. Where
            # the log does not have that offset, its leader says so in answer to the first fetch.
            self._begin(dict.fromkeys(numbers, LogBounds(0, _NO_END)), dict.fromkeys(numbers, 0))
            self._on_unknown_bounds()
        consumer.pause([TopicPartition(self._topic, number) for number in numbers])

    def _give_up(self, partitions: list[TopicPartition], *, lost: bool) -> None:
        numbers = [it.partition for it in partitions if it.partition in self.progress]
        self.progress = {number: it for number, it in self.progress.items() if number not in numbers}
        for number in numbers:
            self._seeks.pop(number, None)
        self._on_revoked(numbers, lost)


class SharedTopicReader(TopicReader):
    """A `TopicReader` whose partitions come and go. `poll` calls `start` and `on_revoked` as they do."""

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        group: str,
        on_revoked: OnRevoked,
        instance_id: str | None = None,
        start: ChooseStarts | None = None,
    ) -> None:
        """`instance_id` makes this replica a static member: after a restart within the session it has what it had."""
        self._group, self._instance_id = group, instance_id
        self._fenced: str | None = None
        self._sign_s = 0.0
        self._unsure_until_s = 0.0
        own = {
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": str(round(SESSION_S * 1000)),
            "heartbeat.interval.ms": str(round(_HEARTBEAT_S * 1000)),
            **({} if instance_id is None else {"group.instance.id": instance_id}),
        }
        # So often it is seen to that the brokers answer: more often than they may throw this replica out.
        super().__init__({**conf, **own}, probe_interval_s=_HEARTBEAT_S)
        self._given = self._assignment = GroupAssignment(
            self._consumer, self.topic, start or _from_the_beginning, on_revoked, self._health.probe_soon
        )

    @property
    def caught_up(self) -> bool:
        """Whether every partition that this replica has was read to its end; it may have none."""
        return self._given.joined and all(it.reached for it in self._given.progress.values())

    @property
    def healthy(self) -> bool:
        """Whether reading is known to work; so it is where there is nothing to read."""
        return self._given.joined and not self._closed and self.last_error is None

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
        self._given.seek()
        runs = super().poll(timeout_s)
        self._given.resume_new()
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
            self._given.progress = {}
        super()._on_event(message)


def _from_the_beginning(log_id: LogId, bounds: Mapping[int, LogBounds]) -> Mapping[int, int]:
    return {}
