"""Session timeouts as the brokers have them set: asked at the start, and again while the agent runs.

Owns when they are asked, and what is said of it. What comes of them is `agent.core.inference`'s.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from agent.common.threads import BackgroundThread
from agent.config.broker_settings import SESSION_NAMES
from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.session_settings import (
    SessionSetting,
    SessionSettings,
    agreed_settings,
    session_settings,
    untold_types,
)
from agent.kafka.admin_api.answers import can_be_asked
from agent.kafka.client import NO_SUCH_TOPIC, error_text, ignore_error, new_admin_client, quiet
from agent.kafka.source import TOPIC

log = logging.getLogger("kshadow")

ASK_S = 5.0
"""For an answer."""

LOOK_S, EVERY_S = 30.0, 600.0
"""How often there may be groups that nobody asked of yet, and how often all are asked of again."""

GROUPS_AT_ONCE, PAUSE_S = 200, 1.0
"""So many, then a pause: brokers answer 700 a second, and have others to answer."""

_DENIED = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)

_MISSING = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT)

_OF_GROUP: Any = 8
"""Kafka's `ConfigSource` of what is set for a group itself: librdkafka has no name for it, and gives the number."""

TypedGroup = tuple[str, str]
"""A group's name and type."""

Entries = Mapping[str, ConfigEntry]


def fetch_session_settings(conf: Mapping[str, str]) -> SessionSettings:
    """What all brokers agree on. Those that do not answer, or before Kafka 3.7 have no such settings, do not count.
    Raises `KafkaException` where none answers, or none may be asked: ACL operation DescribeConfigs on the cluster."""
    with _admin_client(conf) as admin:
        brokers = _brokers(admin)
        if not brokers:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "no broker coordinates groups"))
        answers = _describe(admin, ResourceType.BROKER, [str(it) for it in brokers])
    said = [session_settings(_values(it)) for it in answers.values() if not isinstance(it, KafkaError)]
    if not said:
        raise KafkaException(next(it for it in answers.values() if isinstance(it, KafkaError)))
    return agreed_settings(said)


def fetch_group_settings(conf: Mapping[str, str], group: str) -> SessionSettings:
    """What is set for one group itself, by the type that it would have. Raises `KafkaException`, without the right as
    well: ACL operation DescribeConfigs on the group."""
    if not can_be_asked(group):
        return {}
    with _admin_client(conf) as admin:
        answer = _describe(admin, ResourceType.GROUP, [group])[group]
    if isinstance(answer, KafkaError):
        raise KafkaException(answer)
    return _own_settings(answer)


def _values(entries: Entries) -> Mapping[str, str | None]:
    return {name: it.value for name, it in entries.items()}


def _own_settings(entries: Entries) -> SessionSettings:
    """Not those that any broker answers of a group without its own: its coordinator may have others."""
    found = session_settings(_values(entries), prefix="")
    own = {name for name, it in entries.items() if it.source == _OF_GROUP}
    return {name: it for name, it in found.items() if own.intersection(SESSION_NAMES[name])}


def _brokers(admin: AdminClient) -> Sequence[int]:
    """Ids of those that may coordinate groups; where the offsets topic is not known, of all. Raises `KafkaException`.

    Not by `describe_cluster`: librdkafka ends the process where a broker without a lease names no brokers.
    """
    asked = admin.describe_topics(TopicCollection([TOPIC]), request_timeout=ASK_S)
    try:
        partitions = asked[TOPIC].result(2 * ASK_S).partitions
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
    except KafkaException as error:
        if error.args[0].code() not in (*NO_SUCH_TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise
        # All topics, which with many takes long; to ask for this one might make it.
        return sorted(admin.list_topics(timeout=ASK_S).brokers)
    return sorted({replica.id for it in partitions for replica in it.isr})


def _admin_client(conf: Mapping[str, str]) -> AdminClient:
    return new_admin_client({**quiet(conf), "error_cb": ignore_error})


def _describe(admin: AdminClient, kind: ResourceType, names: Collection[str]) -> dict[str, Entries | KafkaError]:
    """By name its configuration, or why it is not known."""
    resources = [ConfigResource(kind, name) for name in names]
    # Each broker tells of itself, so librdkafka takes one a call.
    calls = [[it] for it in resources] if kind is ResourceType.BROKER else [resources]
    asked = [admin.describe_configs(call, request_timeout=ASK_S) for call in calls]
    out: dict[str, Entries | KafkaError] = {}
    for resource, answer in (item for answers in asked for item in answers.items()):
        try:
            out[resource.name] = answer.result(2 * ASK_S)
        except KafkaException as error:
            out[resource.name] = error.args[0]
        except TimeoutError:
            out[resource.name] = KafkaError(KafkaError._TIMED_OUT)
    return out


class SessionSettingsWatch(BackgroundThread):
    """Keeps what is `known` of sessions as the brokers have it. Started and stopped with the agent."""

    STOP_S = 1.0

    def __init__(
        self, conf: Mapping[str, str], told: SessionSettings, groups: Callable[[], Sequence[TypedGroup]]
    ) -> None:
        """`conf`: librdkafka properties. What was `told` is not asked. `groups` gives those of which brokers set the
        session timeout. Connects to nothing yet."""
        super().__init__("session-settings")
        self._conf, self._told, self._groups = conf, told, groups
        self.known = KnownSessions(told)
        self._asked: set[TypedGroup] = set()
        self._next_s = 0.0
        self._said = ""
        self._denied = False

    def ask(self) -> None:
        """Ask the brokers. Where they do not answer it stays as it was, and the next look asks again."""
        try:
            asked = fetch_session_settings(self._conf)
        except KafkaException as error:
            if unknown := untold_types(self.known.of_brokers):
                self._say(unknown_phrase(unknown, error.args[0]))
            if error.args[0].code() not in _DENIED:
                return
        else:
            self.known.of_brokers = {**asked, **self._told}
            self._say(_known_phrase(self.known.of_brokers))
        self._next_s = time.monotonic() + EVERY_S
        self._asked.clear()

    def _run(self) -> None:
        while True:
            try:
                self.look(time.monotonic())
            except KafkaException as error:
                log.debug("session settings of groups: %s", error_text(error.args[0]))
            if self._stop.wait(LOOK_S):
                return

    def look(self, now_s: float) -> None:
        """Ask of groups that are new, or of all again when it is time. Raises `KafkaException`."""
        if now_s >= self._next_s:
            self.ask()
        groups = [it for it in self._groups() if can_be_asked(it[0])]
        self._asked.intersection_update(groups)
        new = [it for it in groups if it not in self._asked]
        if not new:
            return
        found = dict(self.known.of_groups)
        with _admin_client(self._conf) as admin:
            for start in range(0, len(new), GROUPS_AT_ONCE):
                if start and self._stop.wait(PAUSE_S):
                    return
                some = new[start : start + GROUPS_AT_ONCE]
                answers = _describe(admin, ResourceType.GROUP, {name for name, _ in some})
                self._say_denied(answers.values())
                for group in some:
                    self._take(group, answers[group[0]], found)
                self._asked.update(it for it in some if not _is_missing(answers[it[0]]))
        there = set(groups)
        self.known.of_groups = {group: it for group, it in found.items() if group in there}

    def _take(
        self,
        group: TypedGroup,
        answer: Entries | KafkaError,
        found: dict[TypedGroup, SessionSetting],
    ) -> None:
        """Of one group: kept where it has settings of its own."""
        if isinstance(answer, KafkaError):
            # Of a group that was known the answer may come again.
            return
        own = _own_settings(answer).get(group[1])
        if own is None:
            found.pop(group, None)
        else:
            found[group] = own

    def _say_denied(self, answers: Iterable[Entries | KafkaError]) -> None:
        """Once, that some may not be asked."""
        codes = {it.code() for it in answers if isinstance(it, KafkaError)}
        if KafkaError.GROUP_AUTHORIZATION_FAILED in codes and not self._denied:
            self._denied = True
            log.info(
                "session timeouts of single groups are not known (needed: ACL operation DescribeConfigs on the"
                " groups): taken to be those of the brokers"
            )

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.info("%s", text)


def _is_missing(answer: Entries | KafkaError) -> bool:
    """Whether nobody answered: then it is asked again with the next look."""
    return isinstance(answer, KafkaError) and answer.code() in _MISSING


def _known_phrase(known: SessionSettings) -> str:
    if not known:
        return "no session timeouts are set by the brokers, or each has others"
    said = ", ".join(f"{name} {it.timeout_ms / 1000:g} s" for name, it in known.items())
    return f"session timeouts that the brokers set, by group type: {said}"


def unknown_phrase(group_types: Iterable[str], error: KafkaError) -> str:
    """Why nothing is known of sessions of these types, and what is taken in its place."""
    why = "needed: ACL operation DescribeConfigs on the cluster" if error.code() in _DENIED else error_text(error)
    usual = PARAMETERS.kip848_session_timeout_ms / 1000
    return (
        f"session timeouts of {', '.join(group_types)} groups are not known ({why}): taken to be Kafka's default of"
        f" {usual:g} s; --broker-config tells others"
    )
