"""The process that asks: librdkafka's Admin client, questions on standard input, answers on standard output.

A process of its own because its client may end it: where a coordinator is found only after the time for a question
is over, as when a broker comes back, librdkafka fails an assertion of its own and aborts
(confluentinc/librdkafka#4605, seen with 2.16). The agent then starts another, and has lost nothing. Nor does it spend
time on the answers' reading.

What a question costs the brokers, by librdkafka's own log of its requests: a list is one ListGroups to each broker. A
description is for each group by itself one ConsumerGroupDescribe to its coordinator, one DescribeGroups more for a
classic group (GROUP_ID_NOT_FOUND is the answer to the first), and one FindCoordinator before where that is not in the
client's short memory.

Lines are JSON. First comes the client's configuration; each further one is a question, `{"id": 1, "ask": "list"}`,
"list_rebalancing", "leaders", "cluster", or "describe", "offsets" or "look" (both of them) with "groups"; each answer
is an `AdminAnswer`. The process ends with its standard input.

Brokers leave out of lists the groups, and of a group's offsets the topics, that this client has no right to see, and
do not say so. Asked for by name they do: so topics that were there before (`topics` of a question) are asked for.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

import msgspec
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]
from msgspec.structs import replace

from agent.kafka.admin_api.answers import (
    AdminAnswer,
    AdminOutcome,
    DescribedGroup,
    FetchedOffset,
    FetchedOffsets,
    ListedGroup,
    MemberClient,
    Refusal,
    can_be_asked,
)
from agent.kafka.client import error_text, is_login_failure, new_admin_client, quiet

TOPIC = "__consumer_offsets"
TIMEOUT_S = 5.0
"""How long brokers may take to answer."""
SERVE_S = 0.5
"""How long the client's events are waited for at a time."""
STATISTICS_MS = 2_000
"""How often the client's own count of its requests is taken."""
REBALANCING = frozenset({ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING})

Reply = Callable[..., None]
"""Writes the answer to one question: takes the fields of `AdminAnswer` that it has."""

_OUTCOMES = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: AdminOutcome.DENIED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: AdminOutcome.DENIED,
    # Of a KIP-848 group that subscribes to one.
    KafkaError.TOPIC_AUTHORIZATION_FAILED: AdminOutcome.DENIED,
    KafkaError.UNSUPPORTED_VERSION: AdminOutcome.UNSUPPORTED,
    KafkaError._UNSUPPORTED_FEATURE: AdminOutcome.UNSUPPORTED,
    KafkaError._NOT_IMPLEMENTED: AdminOutcome.UNSUPPORTED,
    KafkaError.INVALID_GROUP_ID: AdminOutcome.UNSUPPORTED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: AdminOutcome.UNSUPPORTED,
    KafkaError._TIMED_OUT: AdminOutcome.TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE: AdminOutcome.TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT: AdminOutcome.TIMED_OUT,
}


_said: deque[KafkaError] = deque(maxlen=1)
"""What a connection said last, since the last answer. Of a question that nobody answers, as where the login fails,
the client says no more than that time ran out."""


def main() -> None:
    """Answer until standard input ends."""
    # An abort is expected here; what it leaves is of no use to anybody.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Answers say what is wrong. What is logged here, as by a login without a token, would come out without its form.
    logging.basicConfig(handlers=[logging.NullHandler()])
    lock = threading.Lock()
    sent = 0

    def count_requests(statistics: str) -> None:
        nonlocal sent
        sent = sum(it["tx"] for it in json.loads(statistics)["brokers"].values())

    def reply(number: int, asked_ms: int, **parts: Any) -> None:
        answer = AdminAnswer(number, asked_ms, monotonic_ms(), sent=sent, **parts)
        if _is_answered(answer):
            _said.clear()
        line = json.dumps(msgspec.to_builtins(answer, str_keys=True)) + "\n"
        with lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    if not (first := sys.stdin.readline()):
        return  # the agent was killed as it started this
    properties = json.loads(first)
    conf: dict[str, Any] = {"client.id": "kshadow", **quiet(properties), "error_cb": _hear}
    conf |= {"statistics.interval.ms": STATISTICS_MS, "stats_cb": count_requests}
    admin = _admin_client(conf)

    def serve() -> None:
        """Hear what connections say while no question comes."""
        while True:
            if isinstance(admin, AdminClient):
                admin.poll(SERVE_S)
            else:
                time.sleep(SERVE_S)

    threading.Thread(target=serve, name="connections", daemon=True).start()
    for line in sys.stdin:
        question = json.loads(line)
        reply_to = partial(reply, question["id"], monotonic_ms())
        if isinstance(admin, KafkaException):
            admin = _admin_client(conf)
        if isinstance(admin, KafkaException):
            reply_to(refusals=(_refusal(admin),))
            continue
        match question["ask"]:
            case "list":
                _list(admin, {}, reply_to)
            case "list_rebalancing":
                _list(admin, {"states": set(REBALANCING)}, reply_to)
            case "leaders":
                _leaders(admin, reply_to)
            case "cluster":
                _cluster(admin, question["groups"], reply_to)
            case "describe":
                _describe(admin, question["groups"], reply_to)
            case "look":
                _look(admin, question["groups"], question["topics"], reply_to)
            case "offsets":
                _offsets(admin, question["groups"], question["topics"], reply_to)
    # No farewell: the client's destructor may wait for brokers that do not answer.
    os._exit(0)


def _is_answered(answer: AdminAnswer) -> bool:
    """Whether brokers answered: a question about all groups whole, or one about some for at least one."""
    groups = [*answer.descriptions.values(), *answer.offsets.values()]
    return not answer.refusals and (not groups or any(not isinstance(it, Refusal) for it in groups))


def _hear(error: KafkaError) -> None:
    if error.code() != KafkaError._ALL_BROKERS_DOWN or not _said:
        _said.append(error)


def _admin_client(conf: dict[str, Any]) -> AdminClient | KafkaException:
    """The client, or why there is no token for its login: the next question tries again."""
    try:
        return new_admin_client(conf)
    except KafkaException as error:
        if not is_login_failure(error.args[0]):
            raise
        return error


def monotonic_ms() -> int:
    """The observer's clock: runs evenly, is the same in all processes, and says nothing of the time of day."""
    return time.monotonic_ns() // 1_000_000


def _list(admin: AdminClient, narrowed: dict[str, Any], reply: Reply) -> None:
    def landed(future: Future[Any]) -> None:
        try:
            answer = future.result()
        except KafkaException as error:
            reply(refusals=(_refusal(error),))
            return
        groups = {it.group_id: ListedGroup(it.type.name.lower(), _state(it.state)) for it in answer.valid}
        reply(groups=groups, refusals=tuple(map(_refusal, answer.errors)))

    admin.list_consumer_groups(request_timeout=TIMEOUT_S, **narrowed).add_done_callback(landed)


def _leaders(admin: AdminClient, reply: Reply) -> None:
    """Without the topic a question for a coordinator is never answered."""

    def landed(future: Future[Any]) -> None:
        try:
            partitions = future.result().partitions
        except KafkaException as error:
            reply(refusals=(_refusal(error),))
        else:
            reply(leaders={it.id: -1 if it.leader is None else it.leader.id for it in partitions})

    # An Admin client's `list_topics` would create the topic, where brokers create topics by themselves.
    described = admin.describe_topics(TopicCollection([TOPIC]), request_timeout=TIMEOUT_S)
    described[TOPIC].add_done_callback(landed)


def _cluster(admin: AdminClient, made_up: list[str], reply: Reply) -> None:
    """`made_up`: names that no group has. Who may see all groups is told that there is none.

    Where a broker without a lease answers, which names no brokers, librdkafka (2.16) ends this process, as it does
    for coordinators (see above); elsewhere nobody asks so. Here it is the only question that tells whether all groups
    may be listed where there are none yet, or where Describe is granted on the cluster.
    """

    def landed(future: Future[Any]) -> None:
        try:
            found = future.result()
        except KafkaException as error:
            reply(refusals=(_refusal(error),))
            return
        reply_so = partial(reply, cluster_id=found.cluster_id or "", brokers=len(found.nodes))
        if AclOperation.DESCRIBE in (found.authorized_operations or ()):
            reply_so(sees_all_groups=True)
        elif made_up:
            _describe(admin, made_up, lambda descriptions: reply_so(sees_all_groups=_are_seen(descriptions)))
        else:
            reply_so()

    described = admin.describe_cluster(request_timeout=TIMEOUT_S, include_authorized_operations=True)
    described.add_done_callback(landed)


def _are_seen(descriptions: dict[str, DescribedGroup | Refusal]) -> bool:
    return not any(isinstance(it, Refusal) for it in descriptions.values())


def _look(admin: AdminClient, groups: list[str], topics: Mapping[str, list[str]], reply: Reply) -> None:
    """Members and committed offsets as of one time, as near as two requests are."""
    parts: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()

    def landed(**part: dict[str, Any]) -> None:
        with lock:
            parts.update(part)
            is_whole = len(parts) == 2
        if is_whole:
            reply(**parts)

    _describe(admin, groups, landed)
    _offsets(admin, groups, topics, landed)


def _describe(admin: AdminClient, groups: list[str], reply: Reply) -> None:
    def ask(askable: list[str]) -> dict[str, Future[Any]]:
        return admin.describe_consumer_groups(askable, request_timeout=TIMEOUT_S)

    _ask_each(groups, ask, _description, lambda answers: reply(descriptions=answers))


def _offsets(admin: AdminClient, groups: list[str], topics: Mapping[str, list[str]], reply: Reply) -> None:
    """What groups have committed, transactions that are open left out, as the topic's readers see it."""

    def ask(askable: list[str]) -> dict[str, Future[Any]]:
        futures: dict[str, Future[Any]] = {}
        for group in askable:
            # The client takes one group a call.
            request = [ConsumerGroupTopicPartitions(group)]
            futures |= admin.list_consumer_group_offsets(request, request_timeout=TIMEOUT_S)
        return futures

    def fetched(answers: dict[str, Any]) -> None:
        lacking = {
            group: {*filter(can_be_asked, topics.get(group, ()))} - {at.topic for at in it.positions}
            for group, it in answers.items()
            if isinstance(it, FetchedOffsets)
        }

        def described(seen: dict[str, Any]) -> None:
            for group, names in lacking.items():
                refusals = [it for name in names if isinstance(it := seen[name], Refusal)]
                withheld = tuple(sorted(name for name in names if seen[name] is False))
                answers[group] = refusals[0] if refusals else replace(answers[group], withheld=withheld)
            reply(offsets=answers)

        if names := sorted(set().union(*lacking.values())):
            _ask_each(names, describe, _may_see_topic, described)
        else:
            reply(offsets=answers)

    def describe(names: list[str]) -> dict[str, Future[Any]]:
        return admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)

    _ask_each(groups, ask, _positions, fetched)


def _may_see_topic(described: Future[Any]) -> bool:
    """Raises `KafkaException` where the answer says neither."""
    try:
        described.result()
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise
        return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
    return True


def _ask_each(
    groups: list[str],
    ask: Callable[[list[str]], dict[str, Future[Any]]],
    read: Callable[[Future[Any]], Any],
    done: Callable[[dict[str, Any]], None],
) -> None:
    """Ask for groups (or topics) and `read` what comes for each; `done` takes the answers and refusals of all."""
    askable = [group for group in groups if can_be_asked(group)]
    refusal = Refusal(AdminOutcome.UNSUPPORTED, "not a name that can be asked for")
    answers: dict[str, Any] = dict.fromkeys(groups, refusal)
    if not askable:
        done(answers)
        return
    landed = count(1)

    def land(group: str, future: Future[Any]) -> None:
        try:
            answers[group] = read(future)
        except KafkaException as error:
            answers[group] = _refusal(error)
        except ValueError as error:
            # Texts that are no UTF-8. Without an answer no group of the question would be asked for again.
            answers[group] = Refusal(AdminOutcome.UNSUPPORTED, f"the answer cannot be read: {error!r}")
        if next(landed) == len(askable):
            done(answers)

    for group, future in ask(askable).items():
        future.add_done_callback(partial(land, group))


def _description(described: Future[Any]) -> DescribedGroup:
    it = described.result()
    return DescribedGroup(
        it.type.name.lower(),
        _state(it.state),
        it.partition_assignor,
        {member.member_id: _partitions(member.assignment) for member in it.members},
        {it.member_id: MemberClient(it.client_id, it.host, it.group_instance_id) for it in it.members},
        {it.member_id: _partitions(it.target_assignment) for it in it.members if it.target_assignment is not None},
    )


def _partitions(assignment: Any) -> dict[str, tuple[int, ...]]:
    held: dict[str, list[int]] = {}
    for item in assignment.topic_partitions if assignment is not None else ():
        held.setdefault(item.topic, []).append(item.partition)
    return {topic: tuple(numbers) for topic, numbers in held.items()}


def _positions(fetched: Future[Any]) -> FetchedOffsets:
    """Raises `KafkaException` where one is not answered: left out, it would be told to be deleted."""
    every = fetched.result().topic_partitions
    if (error := next((of.error for of in every if of.error is not None), None)) is not None:
        raise KafkaException(error)
    # A partition that nothing was committed for has an offset below 0.
    positions = (
        FetchedOffset(of.topic, of.partition, of.offset, -1 if of.leader_epoch is None else of.leader_epoch)
        for of in every
        if of.offset >= 0
    )
    return FetchedOffsets(tuple(positions))


def _refusal(said: KafkaError | KafkaException) -> Refusal:
    # A list's errors come as they are, other than confluent-kafka's documentation has it.
    error: KafkaError = said.args[0] if isinstance(said, KafkaException) else said
    outcome = _OUTCOMES.get(error.code(), AdminOutcome.FAILED)
    why = [*_said] if outcome is AdminOutcome.TIMED_OUT else []
    return Refusal(outcome, error_text(why[0] if why else error))


def _state(state: ConsumerGroupState) -> str:
    # Kafka's name of a state; librdkafka's own for PreparingRebalance is PREPARING_REBALANCING.
    return str(state.name).title().replace("_", "").replace("Rebalancing", "Rebalance")


if __name__ == "__main__":
    main()
