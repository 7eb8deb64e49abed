"""The questions themselves: librdkafka's Admin client, asked without waiting, and its answers as plain values.

Owns the client and what each error means for whoever asks. Refuses to know why something is asked.

What a question costs the brokers, as seen in librdkafka 2.16's own log of its requests: a list is one ListGroups to
each broker. A description is for each group by itself one ConsumerGroupDescribe to its coordinator, and one
DescribeGroups more for a classic group (GROUP_ID_NOT_FOUND is the answer to the first), and one FindCoordinator
before where that is not in the client's short memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from agent.observer.divergence import Described, Listed
from agent.source.client import classify
from agent.source.errors import SourceMisconfigured

TOPIC = "__consumer_offsets"
TIMEOUT_S = 5.0
"""How long brokers may take to answer."""
BLOCKED_S = 0.8
"""How long the one question that is waited for may take: less than a stop may."""
REBALANCING = frozenset({ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING})


class Outcome(StrEnum):
    """How a question ended; a metric's label."""

    ANSWERED = "answered"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


_OUTCOMES = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: Outcome.DENIED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Outcome.DENIED,
    KafkaError.UNSUPPORTED_VERSION: Outcome.UNSUPPORTED,
    KafkaError._UNSUPPORTED_FEATURE: Outcome.UNSUPPORTED,
    KafkaError._NOT_IMPLEMENTED: Outcome.UNSUPPORTED,
    KafkaError.INVALID_GROUP_ID: Outcome.UNSUPPORTED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: Outcome.UNSUPPORTED,
    KafkaError._TIMED_OUT: Outcome.TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE: Outcome.TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT: Outcome.TIMED_OUT,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """No answer, and why."""

    outcome: Outcome
    reason: str


@dataclass(slots=True)
class Call:
    """Questions under way. Times are milliseconds of `clock_ms`; `answered_ms` is None until all are answered."""

    asked_ms: int
    futures: Mapping[str, Future[Any]]
    answered_ms: int | None = None
    _landed: Iterator[int] = field(default_factory=lambda: count(1))

    def watch(self, wake: Callable[[], None]) -> Call:
        """Have `wake` called when the last answer is there, in the client's thread."""
        for future in self.futures.values():
            future.add_done_callback(partial(self._land, wake))
        return self

    def _land(self, wake: Callable[[], None], _: Future[Any]) -> None:
        if next(self._landed) == len(self.futures):
            self.answered_ms = clock_ms()
            wake()


@dataclass(frozen=True, slots=True)
class Listing:
    """Groups by name. `refusals` are of brokers whose groups are missing."""

    groups: Mapping[str, Listed]
    refusals: tuple[Refusal, ...]


def clock_ms() -> int:
    """The observer's clock: runs evenly, and says nothing of the time of day."""
    return time.monotonic_ns() // 1_000_000


class Asker:
    """One Admin client."""

    def __init__(self, conf: Mapping[str, str], wake: Callable[[], None]) -> None:
        """`wake` is called from another thread whenever a call has ended. Raises `SourceMisconfigured`."""
        self._wake = wake
        properties: dict[str, Any] = {"client.id": "kshadow", "log_level": "2", **conf, "error_cb": _ignore}
        try:
            self._admin = AdminClient(properties)
        except KafkaException as error:
            raise SourceMisconfigured(f"librdkafka does not take the properties: {error.args[0].str()}") from error

    def serve(self) -> None:
        """Let the client do what it does in its caller's thread."""
        self._admin.poll(0)

    def leaders(self) -> dict[int, int]:
        """The broker that leads each partition of the topic; waits `BLOCKED_S`. Raises `SourceError`.

        To be asked before anything that needs a coordinator: without the topic such a question is never answered.
        """
        doing = f"asking for the partitions of {TOPIC}"
        try:
            topic = self._admin.list_topics(TOPIC, timeout=BLOCKED_S).topics[TOPIC]
        except KafkaException as error:
            raise classify(error.args[0], doing=doing, topic=TOPIC) from error
        if topic.error is not None:
            raise classify(topic.error, doing=doing, topic=TOPIC)
        return {number: partition.leader for number, partition in topic.partitions.items() if partition.leader >= 0}

    def list_all(self) -> Call:
        """All groups."""
        return self._list()

    def list_rebalancing(self) -> Call:
        """The groups in PreparingRebalance and CompletingRebalance (KIP-518, brokers from 2.6 on)."""
        return self._list(states=set(REBALANCING))

    def _list(self, **narrowed: Any) -> Call:
        asked_ms = clock_ms()
        future = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S, **narrowed)
        return Call(asked_ms, {"": future}).watch(self._wake)

    def describe(self, groups: Iterable[str]) -> Call:
        """These groups."""
        asked_ms = clock_ms()
        return Call(asked_ms, self._admin.describe_consumer_groups(list(groups), request_timeout=TIMEOUT_S)).watch(
            self._wake
        )


def _ignore(error: KafkaError) -> None:
    """A connection's trouble: the questions that it keeps from being answered tell of it."""


def listing(call: Call) -> Listing | Refusal:
    """The answer to a list."""
    try:
        answer = call.futures[""].result(0)
    except KafkaException as error:
        return _refusal(error.args[0])
    groups = {it.group_id: Listed(it.type.name.lower(), state_name(it.state)) for it in answer.valid}
    return Listing(groups, tuple(_refusal(error.args[0]) for error in answer.errors))


def descriptions(call: Call) -> Iterator[tuple[str, Described | Refusal]]:
    """The answers to a description, group by group."""
    for group, future in call.futures.items():
        try:
            it = future.result(0)
        except KafkaException as error:
            yield group, _refusal(error.args[0])
            continue
        members = {member.member_id: _by_topic(member.assignment) for member in it.members}
        yield group, Described(it.type.name.lower(), state_name(it.state), it.partition_assignor, members)


def _refusal(error: KafkaError) -> Refusal:
    return Refusal(_OUTCOMES.get(error.code(), Outcome.FAILED), error.str())


def state_name(state: ConsumerGroupState) -> str:
    """Kafka's name of a state: librdkafka's own for PreparingRebalance is PREPARING_REBALANCING."""
    return str(state.name).title().replace("_", "").replace("Rebalancing", "Rebalance")


def _by_topic(assignment: Any) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}
    for item in assignment.topic_partitions if assignment is not None else ():
        out[item.topic] = (*out.get(item.topic, ()), item.partition)
    return out
