"""The rights that the agent needs, one check each, by name and by what it is for.

A right is tried by doing what needs it where that changes nothing; where it would (to write, to join a share group),
the broker is asked what this client may do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from msgspec.structs import replace

from agent.config.broker_settings import SESSION_NAMES
from agent.config.settings import GroupSource
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.session_settings import SessionSettings, session_settings, untold_types
from agent.core.share_positions import TOPIC as SHARE_STATE_TOPIC
from agent.kafka.admin_api.answers import MADE_UP, can_be_asked
from agent.kafka.source.open_transactions import STATE_TOPIC as TRANSACTION_STATE_TOPIC
from agent.presentation.narrative.words import count, duration, join_words
from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, CheckOutcome, DoctorRequest, Trial, grant_command
from agent.tools.doctor.connection import AdminConnection, NoAnswer
from agent.tools.doctor.topic import TopicSample

MOST_GROUPS = MOST_TOPICS = 20
"""Of those in the sample so many are tried."""
MOST_BROKERS_ASKED = 3
"""One that answers tells what is granted; so many are waited for."""
_GROUP_DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED
_ASKED = "asked what this client may do"


class Right(NamedTuple):
    """An operation on a topic or group, on all of them where `name` is None, or on the cluster, and what the agent
    needs it for."""

    operation: str
    kind: str
    """`topic`, `group` or `cluster`."""
    name: str | None
    what_for: str

    def __str__(self) -> str:
        return f"{self.operation} on {self._resource}, {self.what_for}"

    @property
    def _resource(self) -> str:
        if self.kind == "cluster":
            return "the cluster"
        return f"{self.kind}s" if self.name is None else f"{self.kind} {self.name}"

    @property
    def granted(self) -> str:
        """What is found where it is there."""
        return f"granted: {self.what_for}"

    def trial(self, tried: str) -> Trial:
        """The check of it, by what is tried."""
        on = self._resource.removeprefix("topic ").removeprefix("the ")
        return Trial(f"right: {self.operation}", on, f"{tried} ({self.what_for})")

    def grant(self, request: DoctorRequest, *operations: str) -> str:
        """The command that grants it, or all of these operations."""
        resource = [f"--{self.kind}", *([] if self.kind == "cluster" else [self.name or "*"])]
        return grant_command(request, operations or [self.operation], *resource)


_READ = Right("Read", "topic", OFFSETS_TOPIC, "to see what groups do")
_WITHOUT_TOPIC = "or --source admin: the agent asks the Admin API for groups, and tells less of them"


def describe_topic(request: DoctorRequest, link: AdminConnection) -> tuple[Check, Any]:
    """Describe on the offsets topic, and its description; None if there is none."""
    right = Right("Describe", "topic", OFFSETS_TOPIC, "to find the topic's partitions and their ends")
    trial = right.trial("asked for the topic's partitions")
    try:
        description = link.ask(link.admin.describe_topics, TopicCollection([OFFSETS_TOPIC]))
    except KafkaException as error:
        match error.args[0].code():
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                fix = right.grant(request, "Describe", "Read")
                return trial.failed(f"missing: {right}", fix, _WITHOUT_TOPIC), None
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                found = "there is no such topic: it is made when the first consumer group asks for its coordinator"
                fix = "kshadow run waits for it; start a consumer group, and run kshadow doctor again for the rest"
                return trial._replace(check="topic").warning(found, fix), None
        return trial.failed(error.args[0].str()), None
    return trial.ok(right.granted), description


def read_topic(request: DoctorRequest, *, denied: bool) -> Check:
    """Read on the offsets topic, by what came of reading it."""
    trial = _READ.trial("fetched records")
    if denied:
        return trial.failed(f"missing: {_READ}", _READ.grant(request), _WITHOUT_TOPIC)
    return trial.ok(_READ.granted)


def list_groups(request: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Check:
    """Describe on groups, where they are read through the Admin API. Fills the sample by what that tells of them."""
    right = Right("Describe", "group", None, "to see groups, and what they have committed (--source admin)")
    trial = right.trial("listed the groups")
    try:
        listed = link.ask(link.admin.list_consumer_groups)
    except KafkaException as error:
        return trial.failed(error.args[0].str())
    # Brokers leave out the groups that this client may not see, and do not say so.
    groups = sorted(filter(can_be_asked, (it.group_id for it in listed.valid)))
    if not groups and describe_topic(request, link)[0].check == "topic":
        return trial.skipped(
            f"no group is listed; there is no {OFFSETS_TOPIC} yet, and to ask for a group would make it"
        )
    fix = (right.grant(request),)
    listed_groups = f"{min(len(groups), MOST_GROUPS)} of {count(len(groups), 'group')} that are listed"
    trial = right.trial(f"described {listed_groups}" if groups else "asked for a group, as none is listed")

    def ask(group: str) -> None:
        try:
            it = link.ask(link.admin.describe_consumer_groups, [group])
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                sample.with_hidden_topics.add(group)
            raise
        fetched = link.ask(link.admin.list_consumer_group_offsets, [ConsumerGroupTopicPartitions(group)])
        held = [at for member in it.members if member.assignment for at in member.assignment.topic_partitions]
        sample.topics.update(at.topic for at in [*held, *fetched.topic_partitions])
        if it.type.name.lower() in SESSION_NAMES:
            sample.with_broker_sessions.add(group)

    asked = {it: it for it in groups[:MOST_GROUPS] or [MADE_UP]}
    return _ask_each(right, trial, fix, asked, _GROUP_DENIED, ask)


def describe_groups(request: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Check:
    """Describe on groups, for the observer."""
    what_for = "to time join phases and compare the mirror with the brokers (--admin)"
    right = Right("Describe", "group", None, what_for)
    groups = sorted(filter(can_be_asked, sample.groups))[:MOST_GROUPS] or [MADE_UP]
    trial = right.trial(f"described {count(len(groups), 'group')}")
    fix = (right.grant(request), "or --no-admin: the agent does without")
    asked = {it: [it] for it in groups}
    return _ask_each(
        right, trial, fix, asked, _GROUP_DENIED, lambda it: link.ask(link.admin.describe_consumer_groups, it)
    )


def describe_topics(request: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Check:
    """Describe on topics, for lag; through the Admin API, for committed offsets, too."""
    by_admin_api = request.source is GroupSource.ADMIN
    what_for = "to know where topics end, and so lag (--lag)"
    if by_admin_api:
        what_for = "to see what groups have committed there, and lag (--source admin)"
    right = Right("Describe", "topic", None, what_for)
    hidden = [f"those of group {it}" for it in sorted(sample.with_hidden_topics)]
    topics = sorted(filter(can_be_asked, sample.topics - {OFFSETS_TOPIC}))[:MOST_TOPICS]
    if not topics and not hidden:
        topics = [MADE_UP]
    trial = right.trial(f"asked for the partitions of {count(len(topics), 'topic')}")
    fix = (right.grant(request), *([] if by_admin_api else ["or --no-lag: the agent does without"]))
    asked = {it: TopicCollection([it]) for it in topics}
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED
    return _ask_each(right, trial, fix, asked, code, lambda it: link.ask(link.admin.describe_topics, it), hidden)


def share_state(request: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Read on the topic of share groups' positions, where it is; it is made for the first share group."""
    what_for = "to know the lag of share groups (--share-lag)"
    for check in _read_where_it_is(request, link, SHARE_STATE_TOPIC, what_for, "if there are share groups"):
        without = "or --no-share-lag: the agent does without"
        yield check if check.outcome is not CheckOutcome.FAILED else replace(check, fix=(*check.fix, without))


def transaction_state(request: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Read on the transaction coordinator's topic, where it is; the agent does without, and says what it lacks."""
    what_for = "to name open transactions, which hide what groups do"
    for check in _read_where_it_is(request, link, TRANSACTION_STATE_TOPIC, what_for, "if there are transactions"):
        yield _as_optional(check)


def broker_sessions(request: DoctorRequest, link: AdminConnection, brokers: Collection[int]) -> Check:
    """DescribeConfigs on the cluster, by the settings of a broker; the agent does without, and assumes Kafka's."""
    right = Right("DescribeConfigs", "cluster", None, "to know the session timeouts that brokers set")
    trial = right.trial("asked for a broker's settings")
    told = session_settings(dict(request.broker_config))
    if not (untold := untold_types(told)):
        return trial.skipped(f"not needed: --broker-config tells {_sessions(told)}")
    said = "there is no broker"
    for number in [*brokers][:MOST_BROKERS_ASKED]:
        try:
            entries = link.ask(link.admin.describe_configs, [ConfigResource(ResourceType.BROKER, str(number))])
        except NoAnswer as error:
            said = f"broker {number}: {error.args[0].str()}"
            continue
        except KafkaException as error:
            if error.args[0].code() != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return trial.skipped(f"not known: {error.args[0].str()}")
            usual = PARAMETERS.kip848_session_timeout_ms
            found = (
                f"missing: {right}; without it members of {join_words(untold)} groups are taken to have Kafka's "
                f"{duration(usual)}, and where they have another one who died may be told as one who left"
            )
            setting = f"--broker-config group.{SESSION_NAMES[untold[0]].timeout}={usual}"
            others = "where allow.everyone.if.no.acl.found=true, this ACL shuts out all others"
            return trial.warning(found, right.grant(request), f"or {setting}, with what the brokers have: {others}")
        known = session_settings({name: it.value for name, it in entries.items()})
        return trial.ok(f"{right.granted}; {_sessions(known) or 'this broker sets none'}")
    return trial.skipped(f"not known: {said}")


def group_sessions(request: DoctorRequest, link: AdminConnection, sample: TopicSample) -> Iterator[Check]:
    """DescribeConfigs on groups that may have a session timeout of their own; the agent does without. None where
    brokers know of no settings of groups (before Kafka 4.0)."""
    right = Right("DescribeConfigs", "group", None, "to know the session timeouts that are set for single groups")
    groups = sorted(filter(can_be_asked, sample.with_broker_sessions))[:MOST_GROUPS] or [MADE_UP]
    trial = right.trial(f"asked for the settings of {count(len(groups), 'group')}")

    def ask(group: str) -> Any:
        return link.ask(link.admin.describe_configs, [ConfigResource(ResourceType.GROUP, group)])

    try:
        ask(groups[0])
    except NoAnswer as error:
        yield trial.skipped(f"not known: {error.args[0].str()}")
        return
    except KafkaException as error:
        if error.args[0].code() != _GROUP_DENIED:
            return
    fix = (right.grant(request), "or without it: a group that has its own is taken to have the brokers'")
    yield _as_optional(_ask_each(right, trial, fix, {it: it for it in groups}, _GROUP_DENIED, ask))


def _sessions(known: SessionSettings) -> str:
    return join_words([f"{name} {duration(it.timeout_ms)}" for name, it in known.items()])


def _as_optional(check: Check) -> Check:
    """Of a right that the agent does without: a warning where it is missing."""
    return replace(check, outcome=CheckOutcome.WARNING) if check.outcome is CheckOutcome.FAILED else check


def _read_where_it_is(
    request: DoctorRequest, link: AdminConnection, topic: str, what_for: str, needed_if: str
) -> Iterator[Check]:
    right = Right("Read", "topic", topic, what_for)
    try:
        question = TopicCollection([topic])
        description = link.ask(link.admin.describe_topics, question, include_authorized_operations=True)
    except NoAnswer as error:
        yield right.trial(_ASKED).skipped(f"not known: {error.args[0].str()}")
        return
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            # Whoever may not ask is not told whether there is one.
            yield right.trial(_ASKED).skipped(f"not known: it needs {right}, {needed_if}")
        return
    yield _allowed(request, right, description.authorized_operations)


def _ask_each(
    right: Right,
    trial: Trial,
    fix: tuple[str, ...],
    asked: Mapping[str, Any],
    code: int,
    ask: Callable[[Any], Any],
    known_refused: Collection[str] = (),
) -> Check:
    """`asked`: by name what is asked for. `code` is the answer for who may not ask; any other is for who may.
    `known_refused` need not be asked any more."""
    refused, total = [*known_refused], len(asked) + len(known_refused)
    for name, question in asked.items():
        try:
            ask(question)
        except NoAnswer as error:
            said = error.args[0].str()
            return trial.failed(f"no answer for {right.kind} {name}: {said}; whether this is granted is not known")
        except KafkaException as error:
            if error.args[0].code() == code:
                refused.append(name)
    if not refused:
        return trial.ok(right.granted)
    if len(refused) == total:
        return trial.failed(f"missing: {right}", *fix)
    names = ", ".join(refused[:5])
    return trial.warning(f"missing for {len(refused)} of {total}: {right}: {names}", *fix)


def own_topics(request: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Write, Read and Create on the topics that the agent itself writes."""
    if request.history_topic is not None:
        what_for = "to write the history (--history-topic)"
        rights = [Right("Write", "topic", request.history_topic, what_for)]
        yield from _own_topic(request, link, request.history_topic, rights, request.history_topic_create)
    if request.snapshot_topic is not None:
        what_for = "to keep snapshots (--snapshots)"
        rights = [Right(operation, "topic", request.snapshot_topic, what_for) for operation in ("Read", "Write")]
        yield from _own_topic(request, link, request.snapshot_topic, rights, may_create=True)


def _own_topic(
    request: DoctorRequest, link: AdminConnection, topic: str, rights: Sequence[Right], may_create: bool
) -> Iterator[Check]:
    own = rights[0].trial(_ASKED)._replace(check="own topic")
    try:
        description = link.ask(
            link.admin.describe_topics, TopicCollection([topic]), include_authorized_operations=True
        )
    except KafkaException as error:
        match error.args[0].code():
            case KafkaError.UNKNOWN_TOPIC_OR_PART if may_create:
                yield _create(request, link, topic, rights)
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                fix = f"kafka-topics.sh --bootstrap-server {request.bootstrap_servers} --create --topic {topic}"
                yield own.failed("there is no such topic", fix)
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                needed = ["Describe", *(it.operation for it in rights), *(["Create"] if may_create else [])]
                for right in rights:
                    yield right.trial(_ASKED).failed(f"missing: {right}", right.grant(request, *needed))
            case _:
                yield own.failed(error.args[0].str())
        return
    for right in rights:
        yield _allowed(request, right, description.authorized_operations)


def _create(request: DoctorRequest, link: AdminConnection, topic: str, rights: Sequence[Right]) -> Check:
    """Whether the topic could be made: a question that the broker checks as if it were meant."""
    right, operations = rights[0]._replace(operation="Create"), [it.operation for it in rights]
    trial = right.trial("had the broker check how it would make the topic")
    try:
        link.ask(link.admin.create_topics, [NewTopic(topic, 1)], validate_only=True)
    except KafkaException as error:
        if error.args[0].code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ):
            fix = right.grant(request, "Create", "Describe", *operations)
            return trial.failed(f"missing: {right}; there is no such topic yet", fix)
        return trial.failed(error.args[0].str())
    only_then = f"{' and '.join(operations)} can only be tried then"
    return trial.ok(f"{right.granted}; it does not exist yet, and {only_then}")


def share_group(request: DoctorRequest, link: AdminConnection) -> Iterator[Check]:
    """Read on the share group that shards are members of."""
    if request.share_group is None:
        return
    right = Right("Read", "group", request.share_group, "to share the partitions with other agents (--share-group)")
    try:
        description = link.ask(
            link.admin.describe_consumer_groups, [request.share_group], include_authorized_operations=True
        )
        allowed = description.authorized_operations
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            yield right.trial(_ASKED).skipped(f"not known: {error.args[0].str()}")
            return
        allowed = []
    yield _allowed(request, right, allowed)


def _allowed(request: DoctorRequest, right: Right, allowed: Any) -> Check:
    trial = right.trial(_ASKED)
    if allowed is None:
        return trial.skipped("not known: the broker does not tell what this client may do")
    if AclOperation[right.operation.upper()] not in allowed:
        return trial.failed(f"missing: {right}", right.grant(request))
    return trial.ok(right.granted)
