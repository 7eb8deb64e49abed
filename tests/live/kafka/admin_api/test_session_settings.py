"""Session timeouts that a real broker sets, asked of it, and what the agent then tells of members that are killed."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.core.inference.session_settings import SessionSetting
from agent.core.shadow.transitions import MemberLeft, Transition
from agent.kafka.admin_api.session_settings import LOOK_S, SessionSettingsWatch, fetch_session_settings
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.jars import DEFAULT_VERSION
from agent.tools.spark_submit.jobs import Diagnosis, Kafka
from analyzers.registry import select_analyzers
from spark_jobs.kafka import with_broker_sessions
from tests.live.scenarios.fleet import Client, Fleet
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

BROKERS, OWN = SessionSetting(9_000, 500), SessionSetting(6_000, 500)
PROPERTIES = {
    "group.consumer.session.timeout.ms": str(BROKERS.timeout_ms),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(BROKERS.heartbeat_ms),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:nobody",
}
GROUP, QUICK, CLASSIC = "as-the-brokers-say", "has-its-own", "is-to-migrate"


@dataclass
class Live:
    broker: EmbeddedBroker
    fleet: Fleet
    admin: AdminClient
    agent: Agent
    left: list[MemberLeft]

    @property
    def conf(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def consumers(self, group: str) -> list[Client]:
        modern = {"group.protocol": "consumer", "group.id": group, "auto.commit.interval.ms": 1_000}
        return [self.fleet.python("consume", conf=modern, topics=["t"]) for _ in range(2)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory: Path = tmp_path_factory.mktemp("sessions")
    with EmbeddedBroker(fetch_jars(DEFAULT_VERSION), properties=PROPERTIES) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient({**conf, "log_level": 2})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(20)
        entry = ConfigEntry(
            "consumer.session.timeout.ms", str(OWN.timeout_ms), incremental_operation=AlterConfigOpType.SET
        )
        own = [ConfigResource(ResourceType.GROUP, it, incremental_configs=[entry]) for it in (QUICK, CLASSIC)]
        for made in admin.incremental_alter_configs(own).values():
            made.result(20)
        left: list[MemberLeft] = []

        def keep(transitions: list[Transition]) -> None:
            left.extend(it for it in transitions if isinstance(it, MemberLeft))

        fleet = Fleet(broker.bootstrap_servers, directory, random.Random(7))
        over = threading.Event()
        producing = threading.Thread(target=produce, args=(conf, over))
        agent = Agent(AgentOptions(conf=conf, analyzers=select_analyzers(), observe=keep))
        try:
            producing.start()
            yield Live(broker, fleet, admin, agent, left)
        finally:
            over.set()
            producing.join()
            agent.stop()
            fleet.close()


def produce(conf: dict[str, str], over: threading.Event) -> None:
    """So that there is something to commit, in each partition."""
    producer = Producer({**conf, "log_level": 2})
    while not over.wait(0.1):
        for partition in range(4):
            producer.produce("t", b"x", partition=partition)
        producer.poll(0)
    producer.flush(5)


def test_who_is_killed_is_told_by_the_timeout_of_its_brokers(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    killed = {group: live.consumers(group)[0] for group in (GROUP, QUICK)}
    # The coordinator is there with the first group.
    until(lambda: live.admin.list_topics().topics.get("__consumer_offsets"))
    live.agent.start()
    known = live.agent._parts.sessions.known
    assert known.of_brokers["consumer"] == BROKERS

    def members(group: str) -> int:
        return next((int(str(it["members"])) for it in live.agent.queries.groups() if it["group"] == group), 0)

    until(lambda: all(members(group) == 2 for group in killed))
    live.agent._parts.sessions.look(0.0)
    assert known.of_groups == {(QUICK, "consumer"): OWN}
    recorded = {group: live.agent.queries.recording(group) for group in killed}
    assert [it and it.kip848_session for it in recorded.values()] == [BROKERS, OWN]
    # A few commits tell how often they come.
    threading.Event().wait(6)
    for client in killed.values():
        client.crash()
    until(lambda: len(live.left) == 2)
    for it in live.left:
        assert it.inferred is not None
        timeout_ms = (OWN if it.group == QUICK else BROKERS).timeout_ms
        assert (it.inferred.cause, it.inferred.session_timeout_ms) == ("session_timeout", timeout_ms), it
        assert it.inferred.confidence >= 0.8, it
    # A command that reads the topic itself asks the brokers as well.
    result = kshadow("timeline", GROUP, "--bootstrap-server", live.broker.bootstrap_servers, "-o", "json")
    assert result.exit_code == 0, result.stderr
    (gone,) = (it["left"] for it in json.loads(result.stdout) if it.get("left"))
    assert gone[0]["cause"] == "session_timeout"


def test_so_does_a_spark_job(live: Live) -> None:
    own = Diagnosis(sessions={"share": OWN})
    asked = with_broker_sessions(own, Kafka(properties=live.conf))
    assert (asked.sessions["consumer"], asked.sessions["share"]) == (BROKERS, OWN), "what it was told is not asked"


def test_names_that_librdkafka_does_not_take_keep_no_other_from_being_asked(live: Live) -> None:
    """Brokers take any bytes for a name: a record with an empty one ended the thread."""
    groups = [("", "consumer"), ("nul\0", "consumer"), (QUICK, "consumer")]
    watch = SessionSettingsWatch(live.conf, {}, lambda: groups)
    watch.look(0.0)
    assert watch.known.of_groups == {(QUICK, "consumer"): OWN}


def test_what_brokers_answer_of_any_group_is_not_its_own(live: Live) -> None:
    """They answer of a group without settings with theirs, which were told otherwise."""
    told = SessionSetting(20_000)
    watch = SessionSettingsWatch(live.conf, {"consumer": told}, lambda: [(GROUP, "consumer"), (QUICK, "consumer")])
    watch.look(0.0)
    assert [watch.known.group_session(it, "consumer") for it in (GROUP, QUICK)] == [told, OWN]


def test_what_a_classic_group_would_have_counts_for_whatif(live: Live) -> None:
    live.fleet.python("consume", conf={"group.id": CLASSIC}, topics=["t"])
    asked = (CLASSIC, "--bootstrap-server", live.broker.bootstrap_servers)
    until(lambda: kshadow("members", *asked, "-o", "ndjson").stdout)
    said = "session timeout is 6 s and the heartbeat interval 500 ms (from the brokers or the command line)"
    result = kshadow("whatif", *asked, "--protocol", "consumer")
    assert said in result.stdout, result.stdout + result.stderr


@contextmanager
def unanswered(live: Live) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.kafka.admin_api.session_settings.ASK_S", 0.5)
        live.broker.pause()
        try:
            yield
        finally:
            live.broker.resume()


def test_brokers_that_did_not_answer_are_asked_again_with_the_next_look(live: Live) -> None:
    """A replica that was not answered as it started judged by Kafka's default for ten minutes, and others did not."""
    groups = [(QUICK, "consumer")]
    watch = SessionSettingsWatch(live.conf, {}, lambda: groups)
    with unanswered(live):
        watch.look(0.0)
    assert (watch.known.of_brokers, watch.known.of_groups) == ({}, {})
    watch.look(LOOK_S)
    assert watch.known.of_brokers["consumer"] == BROKERS
    assert watch.known.of_groups == {groups[0]: OWN}
    groups.append((CLASSIC, "consumer"))
    with unanswered(live):
        watch.look(2 * LOOK_S)
    watch.look(3 * LOOK_S)
    assert watch.known.of_groups == dict.fromkeys(groups, OWN)


def test_without_the_right_the_default_is_assumed_and_that_is_said(
    live: Live, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch_session_settings(live.conf)["consumer"] == BROKERS
    cluster = ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"
    group = ResourceType.GROUP, QUICK, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"
    # The broker itself needs the others to end in order.
    rows = [
        AclBinding(*cluster, AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*cluster, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
        AclBinding(*group, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
    ]
    for made in live.admin.create_acls(rows).values():
        made.result(20)

    def refused() -> bool:
        try:
            fetch_session_settings(live.conf)
        except KafkaException:
            return True
        return False

    until(refused)
    watch = SessionSettingsWatch(live.conf, {}, lambda: [(QUICK, "consumer")])
    with caplog.at_level("INFO", logger="kshadow"):
        watch.look(0.0)
        watch._next_s = 0.0
        watch.look(0.0)
    assert (watch.known.of_brokers, watch.known.of_groups) == ({}, {})
    of_brokers, of_groups = caplog.messages
    assert of_groups == (
        "session timeouts of single groups are not known (needed: ACL operation DescribeConfigs on the groups): "
        "taken to be those of the brokers"
    )
    assert of_brokers == (
        "session timeouts of consumer, share, streams groups are not known (needed: ACL operation DescribeConfigs on "
        "the cluster): taken to be Kafka's default of 45 s; --broker-config tells others"
    )
    capsys.readouterr()
    told = Diagnosis(sessions={"share": OWN})
    assert with_broker_sessions(told, Kafka(properties=live.conf)) == told
    untold = of_brokers.replace("consumer, share, streams", "consumer, streams")
    assert capsys.readouterr().err == f"kshadow: {untold}\n"


def test_brokers_that_cannot_be_reached_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = SessionSettingsWatch({"bootstrap.servers": "127.0.0.1:1"}, {"share": BROKERS}, list)
    with caplog.at_level("INFO", logger="kshadow"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.kafka.admin_api.session_settings.ASK_S", 1.0)
        watch.ask()
    assert watch.known.group_session("any", "share") == BROKERS
    assert "are not known (" in caplog.messages[0]
