"""The rights that the agent needs, one check each, by name and by what it is for.

A right is tried by doing what needs it where that changes nothing; where it would (to write, to join a share group),
the broker is asked what this client may do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, NewTopic  # type: ignore[attr-defined]

from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, CheckOutcome, DoctorRequest, grant_command
from agent.tools.doctor.connection import AdminConnection
from agent.tools.doctor.topic import TopicSample

MOST_GROUPS = MOST_TOPICS = 20
"""Of those in the sample so many are tried."""
MADE_UP = "kshadow-doctor-made-up-name"
"""A group or topic that is asked for where none is known: who has the right to all is told that there is none."""

_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
_NO_TOPIC = KafkaError.UNKNOWN_TOPIC_OR_PART


def describe_topic(wanted: DoctorRequest, link: AdminConnection) -> tuple[Check, Any]:
    """Describe on the offsets topic, and its description; None if there is none."""
    check, what_for = "right: Describe", "to find the topic's partitions and their ends"
    tried = f"asked for the topic's partitions ({what_for})"
    try:
        description = _describe_topic(link, OFFSETS_TOPIC)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            fix = grant_command(wanted, ["Describe", "Read"], "--topic", OFFSETS_TOPIC)
            found = f"missing: Describe on topic {OFFSETS_TOPIC}, {what_for}"
            return Check(check, OFFSETS_TOPIC, CheckOutcome.FAILED, tried, found, (fix,)), None
        if code == _NO_TOPIC:
            found = "there is no such topic: it is made when the first consumer group asks for its coordinator"
            fix = "start a consumer group, or wait for one; nothing is to be seen before"
            return Check("topic", OFFSETS_TOPIC, CheckOutcome.FAILED, tried, found, (fix,)), None
        return Check(check, OFFSETS_TOPIC, CheckOutcome.FAILED, tried, error.args[0].str()), None
    return Check(check, OFFSETS_TOPIC, CheckOutcome.OK, tried, f"granted: {what_for}"), description


def read_topic(wanted: DoctorRequest, *, denied: bool) -> Check:
    """Read on the offsets topic, by what came of reading it."""
    tried, what_for = "fetched records (to see what groups do)", "to see what groups do"
    if denied:
        fix = grant_command(wanted, ["Read"], "--topic", OFFSETS_TOPIC)
        found = f"missing: Read on topic {OFFSETS_TOPIC}, {what_for}"
        return Check("right: Read", OFFSETS_TOPIC, CheckOutcome.FAILED, tried, found, (fix,))
    return Check("right: Read", OFFSETS_TOPIC, CheckOutcome.OK, tried, f"granted: {what_for}")


def describe_groups(wanted: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Check:
    """Describe on groups, for the observer."""
    check, what_for = "right: Describe", "to time join phases and compare the mirror with the brokers (--admin)"
    groups = sorted(group for group in sample.groups if group and "\0" not in group)[:MOST_GROUPS] or [MADE_UP]
    tried = f"described {_count_text(groups, 'group')} ({what_for})"
    refused = []
    for group in groups:
        try:
            link.ask(link.admin.describe_consumer_groups, [group])
        except KafkaException as error:
            # Any other answer than this one is for somebody who may ask.
            if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                refused.append(group)
    fix = (grant_command(wanted, ["Describe"], "--group", "*"), "or --no-admin: the agent does without")
    return _check_each(check, "groups", tried, f"Describe on groups, {what_for}", refused, groups, fix)


def describe_topics(wanted: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Check:
    """Describe on topics, for lag."""
    check, what_for = "right: Describe", "to know where topics end, and so lag (--lag)"
    topics = sorted(sample.topics - {OFFSETS_TOPIC})[:MOST_TOPICS] or [MADE_UP]
    tried = f"asked for the partitions of {_count_text(topics, 'topic')} ({what_for})"
    refused = [topic for topic in topics if _is_denied(link, topic)]
    fix = (grant_command(wanted, ["Describe"], "--topic", "*"), "or --no-lag: the agent does without")
    return _check_each(check, "topics", tried, f"Describe on topics, {what_for}", refused, topics, fix)


def _is_denied(link: AdminConnection, topic: str) -> bool:
    try:
        _describe_topic(link, topic)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return False


def _check_each(
    check: str,
    on: str,
    tried: str,
    right: str,
    refused: Collection[str],
    asked: Collection[str],
    fix: tuple[str, ...],
) -> Check:
    if not refused:
        return Check(check, on, CheckOutcome.OK, tried, f"granted: {right.partition(', ')[2]}")
    if len(refused) == len(asked):
        return Check(check, on, CheckOutcome.FAILED, tried, f"missing: {right}", fix)
    names = ", ".join(sorted(refused)[:5])
    found = f"missing for {len(refused)} of {len(asked)}: {right}: {names}"
    return Check(check, on, CheckOutcome.WARNING, tried, found, fix)


def own_topics(wanted: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Write, Read and Create on the topics that the agent itself writes."""
    if wanted.history_topic is not None:
        operations, what_for = ("Write",), "to write the history (--history-topic)"
        yield from _own_topic(wanted, link, wanted.history_topic, operations, what_for, wanted.history_topic_create)
    if wanted.snapshot_topic is not None:
        what_for = "to keep snapshots (--snapshots)"
        yield from _own_topic(wanted, link, wanted.snapshot_topic, ("Read", "Write"), what_for, True)


def _own_topic(
    wanted: DoctorRequest,
    link: AdminConnection,
    topic: str,
    operations: tuple[str, ...],
    what_for: str,
    may_create: bool,
) -> Iterator[Check]:
    tried = f"asked what this client may do ({what_for})"
    try:
        description = link.ask(
            link.admin.describe_topics, TopicCollection([topic]), include_authorized_operations=True
        )
    except KafkaException as error:
        code = error.args[0].code()
        if code == _NO_TOPIC and may_create:
            yield _create(wanted, link, topic, operations, what_for)
        elif code == _NO_TOPIC:
            fix = f"kafka-topics.sh --bootstrap-server {wanted.bootstrap_servers} --create --topic {topic}"
            yield Check("own topic", topic, CheckOutcome.FAILED, tried, "there is no such topic", (fix,))
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            needed = ["Describe", *operations, *(["Create"] if may_create else [])]
            for operation in operations:
                found = f"missing: {operation} on topic {topic}, {what_for}"
                fix = grant_command(wanted, needed, "--topic", topic)
                yield Check(f"right: {operation}", topic, CheckOutcome.FAILED, tried, found, (fix,))
        else:
            yield Check("own topic", topic, CheckOutcome.FAILED, tried, error.args[0].str())
        return
    for operation in operations:
        yield _allowed(wanted, description.authorized_operations, operation, ("--topic", topic), tried, what_for)


def _create(
    wanted: DoctorRequest, link: AdminConnection, topic: str, operations: tuple[str, ...], what_for: str
) -> Check:
    """Whether the topic could be made: a question that the broker checks as if it were meant."""
    tried = f"had the broker check how it would make the topic ({what_for})"
    try:
        link.ask(link.admin.create_topics, [NewTopic(topic, 1)], validate_only=True)
    except KafkaException as error:
        denied = (*_DENIED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        if error.args[0].code() in denied:
            found = f"missing: Create on topic {topic}, {what_for}; there is no such topic yet"
            fix = grant_command(wanted, ["Create", "Describe", *operations], "--topic", topic)
            return Check("right: Create", topic, CheckOutcome.FAILED, tried, found, (fix,))
        return Check("right: Create", topic, CheckOutcome.FAILED, tried, error.args[0].str())
    found = f"granted: {what_for}; it does not exist yet, and {' and '.join(operations)} can only be tried then"
    return Check("right: Create", topic, CheckOutcome.OK, tried, found)


def share_group(wanted: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Read on the share group that shards are members of."""
    if wanted.share_group is None:
        return
    what_for = "to share the partitions with other agents (--share-group)"
    tried = f"asked what this client may do ({what_for})"
    try:
        description = link.ask(
            link.admin.describe_consumer_groups, [wanted.share_group], include_authorized_operations=True
        )
        allowed = description.authorized_operations
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            found = f"not known: {error.args[0].str()}"
            yield Check("right: Read", f"group {wanted.share_group}", CheckOutcome.SKIPPED, tried, found)
            return
        allowed = []
    yield _allowed(wanted, allowed, "Read", ("--group", wanted.share_group), tried, what_for)


def _allowed(
    wanted: DoctorRequest, allowed: Any, operation: str, resource: tuple[str, str], tried: str, what_for: str
) -> Check:
    kind, name = resource[0].removeprefix("--"), resource[1]
    check, on = f"right: {operation}", name if kind == "topic" else f"{kind} {name}"
    if allowed is None:
        found = "not known: the broker does not tell what this client may do"
        return Check(check, on, CheckOutcome.SKIPPED, tried, found)
    if AclOperation[operation.upper()] not in allowed:
        found = f"missing: {operation} on {kind} {name}, {what_for}"
        return Check(check, on, CheckOutcome.FAILED, tried, found, (grant_command(wanted, [operation], *resource),))
    return Check(check, on, CheckOutcome.OK, tried, f"granted: {what_for}")


def _describe_topic(link: AdminConnection, topic: str) -> Any:
    return link.ask(link.admin.describe_topics, TopicCollection([topic]))


def _count_text(items: Collection[str], what: str) -> str:
    return f"{len(items)} {what}" + ("" if len(items) == 1 else "s")
