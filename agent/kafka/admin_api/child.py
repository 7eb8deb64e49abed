"""The process that asks: librdkafka's Admin client, questions on standard input, answers on standard output.

A process of its own because its client may end it: where a coordinator goes away while a description of groups is
under way, librdkafka fails an assertion of its own and aborts (confluentinc/librdkafka#4605, seen with 2.16 as a
broker was restarted). The agent then starts another, and has lost nothing. Nor does it spend time on the answers'
reading.

What a question costs the brokers, by librdkafka's own log of its requests: a list is one ListGroups to each broker. A
description is for each group by itself one ConsumerGroupDescribe to its coordinator, one DescribeGroups more for a
classic group (GROUP_ID_NOT_FOUND is the answer to the first), and one FindCoordinator before where that is not in the
client's short memory.

Lines are JSON. First comes the client's configuration; each further one is a question, `{"id": 1, "ask": "list"}`,
"list_rebalancing", "leaders", or "describe", "detail" or "offsets" with "groups"; each answer has the question's id
(`_list` and so on say its form). The process ends with its standard input.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from agent.kafka.client import quiet

TOPIC = "__consumer_offsets"
TIMEOUT_S = 5.0
"""How long brokers may take to answer."""
LEADERS_TIMEOUT_S = 2.0
"""How long for the one question that is waited for."""
REBALANCING = frozenset({ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING})

Answer = dict[str, Any]
Reply = Callable[[Answer], None]

_OUTCOMES = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: "denied",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "denied",
    KafkaError.UNSUPPORTED_VERSION: "unsupported",
    KafkaError._UNSUPPORTED_FEATURE: "unsupported",
    KafkaError._NOT_IMPLEMENTED: "unsupported",
    KafkaError.INVALID_GROUP_ID: "unsupported",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "unsupported",
    KafkaError._TIMED_OUT: "timed_out",
    KafkaError._TIMED_OUT_QUEUE: "timed_out",
    KafkaError.REQUEST_TIMED_OUT: "timed_out",
}


def main() -> None:
    """Answer until standard input ends."""
    # An abort is expected here; what it leaves is of no use to anybody.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lock = threading.Lock()

    def write(answer: Answer) -> None:
        with lock:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    properties = json.loads(sys.stdin.readline())
    conf: dict[str, Any] = {"client.id": "kshadow", **quiet(properties), "error_cb": _ignore}
    admin = AdminClient(conf)
    for line in sys.stdin:
        question = json.loads(line)
        admin.poll(0)
        reply = partial(_reply, write, question["id"], monotonic_ms())
        match question["ask"]:
            case "list":
                _list(admin, {}, reply)
            case "list_rebalancing":
                _list(admin, {"states": set(REBALANCING)}, reply)
            case "leaders":
                reply(_leaders(admin))
            case "describe":
                _describe(admin, question["groups"], reply, "described", _description)
            case "detail":
                _describe(admin, question["groups"], reply, "details", _detail)
            case "offsets":
                _offsets(admin, question["groups"], reply)
    # No farewell: the client's destructor may wait for brokers that do not answer.
    os._exit(0)


def monotonic_ms() -> int:
    """The observer's clock: runs evenly, is the same in all processes, and says nothing of the time of day."""
    return time.monotonic_ns() // 1_000_000


def _reply(write: Reply, number: int, asked_ms: int, answer: Answer) -> None:
    write({"id": number, "asked_ms": asked_ms, "answered_ms": monotonic_ms(), **answer})


def _ignore(error: KafkaError) -> None:
    """A connection's trouble: the questions that it keeps from being answered tell of it."""


def _list(admin: AdminClient, narrowed: dict[str, Any], reply: Reply) -> None:
    """Groups with their type and state, and for each broker that did not answer why: `{"groups": {"g": ["classic",
    "Stable"]}, "refusals": [["timed_out", "…"]]}`."""

    def landed(future: Future[Any]) -> None:
        try:
            answer = future.result()
        except KafkaException as error:
            reply({"groups": {}, "refusals": [_refusal(error)]})
            return
        groups = {it.group_id: [it.type.name.lower(), _state(it.state)] for it in answer.valid}
        reply({"groups": groups, "refusals": [_refusal(error) for error in answer.errors]})

    admin.list_consumer_groups(request_timeout=TIMEOUT_S, **narrowed).add_done_callback(landed)


def _leaders(admin: AdminClient) -> Answer:
    """The broker that leads each partition of the topic, -1 if none does: `{"leaders": {"0": 1}}`, or why that is not
    known: `{"refusals": […]}`. Without the topic a question for a coordinator is never answered."""
    try:
        topic = admin.list_topics(TOPIC, timeout=LEADERS_TIMEOUT_S).topics[TOPIC]
    except KafkaException as error:
        return {"refusals": [_refusal(error)]}
    if topic.error is not None:
        return {"refusals": [_refusal(topic.error)]}
    return {"leaders": {number: it.leader for number, it in topic.partitions.items()}}


def _describe(admin: AdminClient, groups: list[str], reply: Reply, name: str, form: Callable[[Any], Answer]) -> None:
    """By the answer's `name` each group's description in a form; for a group that was not described instead
    `[outcome, reason]`."""

    def ask(askable: list[str]) -> dict[str, Future[Any]]:
        return admin.describe_consumer_groups(askable, request_timeout=TIMEOUT_S)

    _ask_each(groups, ask, form, lambda described: reply({name: described}))


def _offsets(admin: AdminClient, groups: list[str], reply: Reply) -> None:
    """`{"offsets": {"g": {"positions": [[topic, partition, offset, leader epoch, metadata]]}}}`, or as `_describe`.

    What a group has committed, transactions that are open left out, as the topic's readers see it."""

    def ask(askable: list[str]) -> dict[str, Future[Any]]:
        futures: dict[str, Future[Any]] = {}
        for group in askable:
            # The client takes one group a call.
            request = [ConsumerGroupTopicPartitions(group)]
            futures |= admin.list_consumer_group_offsets(request, request_timeout=TIMEOUT_S)
        return futures

    _ask_each(groups, ask, _positions, lambda offsets: reply({"offsets": offsets}))


def _ask_each(
    groups: list[str],
    ask: Callable[[list[str]], dict[str, Future[Any]]],
    form: Callable[[Any], Answer],
    done: Callable[[Answer], None],
) -> None:
    askable = [group for group in groups if _can_be_asked(group)]
    answers: Answer = {group: ["unsupported", "not a name that can be asked for"] for group in groups}
    if not askable:
        done(answers)
        return
    landed = count(1)

    def land(group: str, future: Future[Any]) -> None:
        try:
            answers[group] = form(future.result())
        except KafkaException as error:
            answers[group] = _refusal(error)
        if next(landed) == len(askable):
            done(answers)

    for group, future in ask(askable).items():
        future.add_done_callback(partial(land, group))


def _can_be_asked(group: str) -> bool:
    # A name is bytes to the broker, and may be empty; librdkafka takes neither a NUL nor nothing.
    return bool(group) and "\0" not in group and group.encode(errors="ignore").decode() == group


def _description(it: Any) -> Answer:
    """`{"type", "state", "protocol", "members": {id: {topic: [partition]}}}`."""
    members = {member.member_id: _assignment(member) for member in it.members}
    return {**_group(it), "members": members}


def _detail(it: Any) -> Answer:
    """The same with `"members": [[id, client id, host, instance id, {topic: [partition]}]]`."""
    members = [
        [member.member_id, member.client_id, member.host, member.group_instance_id, _assignment(member)]
        for member in it.members
    ]
    return {**_group(it), "members": members}


def _group(it: Any) -> Answer:
    return {"type": it.type.name.lower(), "state": _state(it.state), "protocol": it.partition_assignor}


def _assignment(member: Any) -> dict[str, list[int]]:
    held: dict[str, list[int]] = {}
    for item in member.assignment.topic_partitions if member.assignment is not None else ():
        held.setdefault(item.topic, []).append(item.partition)
    return held


def _positions(it: Any) -> Answer:
    # A partition that nothing was committed for has an offset below 0.
    positions = [
        [of.topic, of.partition, of.offset, -1 if of.leader_epoch is None else of.leader_epoch, of.metadata or ""]
        for of in it.topic_partitions
        if of.error is None and of.offset >= 0
    ]
    return {"positions": positions}


def _refusal(said: KafkaError | KafkaException) -> list[str]:
    # A list's errors come as they are, other than confluent-kafka's documentation has it.
    error: KafkaError = said.args[0] if isinstance(said, KafkaException) else said
    return [_OUTCOMES.get(error.code(), "failed"), error.str()]


def _state(state: ConsumerGroupState) -> str:
    # Kafka's name of a state; librdkafka's own for PreparingRebalance is PREPARING_REBALANCING.
    return str(state.name).title().replace("_", "").replace("Rebalancing", "Rebalance")


if __name__ == "__main__":
    main()
