"""The agent that asks the Admin API, on real brokers: what it tells against the agent that reads the topic."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.kafka.source.errors import SourceUnreachable
from agent.runtime.admin_mode.agent import AdminAgent
from agent.runtime.admin_mode.queries import LIMITATIONS
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions, Visibility
from agent.serving.server import serving
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.scenarios.committing import commit
from tests.live.versions import COORDINATORS, NEWEST
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

TOPIC = "t"
ONCE = pytest.mark.parametrize("cluster", [NEWEST], indirect=True)
"""What is the same with every version."""
NOT_KNOWN = {
    "generation",
    "generations_skipped",
    "rebalances",
    "state_since_ms",
    "coordinator_partition",
    "last_commit_ms",
    "lag",
    "leader",
    "target_generation",
}


def until(true: Callable[[], object], timeout_s: float = 40, said: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, said()
        time.sleep(0.1)


@dataclass
class Cluster:
    broker: EmbeddedBroker
    admin: AdminClient
    consumers: list[Consumer]

    @property
    def conf(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def commit(self, group: str, *offsets: tuple[str, int, int]) -> None:
        commit(self.admin, group, [TopicPartition(*it) for it in offsets])


@pytest.fixture(scope="module", params=COORDINATORS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    properties = {
        "offsets.topic.num.partitions": "4",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:nobody",
    }
    with EmbeddedBroker(fetch_jars(request.param), properties=properties) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient({**conf, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, 6, 1)])[TOPIC].result(20)
        producer = Producer(conf)
        for partition in range(6):
            for _ in range(10):
                producer.produce(TOPIC, b"x", partition=partition)
        assert producer.flush(20) == 0
        protocols = ["classic", "consumer"] if request.param.startswith("4") else ["classic"]
        consumers = []
        for protocol in protocols:
            for number in range(2):
                consumers.append(
                    Consumer(
                        {
                            **conf,
                            "group.id": f"of-{protocol}",
                            "client.id": f"c{number}",
                            "group.protocol": protocol,
                            "auto.offset.reset": "earliest",
                            "enable.auto.commit": False,
                        }
                    )
                )
                consumers[-1].subscribe([TOPIC])
        deadline = time.monotonic() + 40
        while not all(len(it.assignment()) == 3 for it in consumers):
            assert time.monotonic() < deadline
            for it in consumers:
                it.poll(0.1)
        for it in consumers:
            it.commit(
                offsets=[TopicPartition(TOPIC, at.partition, at.partition) for at in it.assignment()],
                asynchronous=False,
            )
        cluster = Cluster(broker, admin, consumers)
        cluster.commit("alone", (TOPIC, 0, 4), (TOPIC, 5, 10))
        try:
            yield cluster
        finally:
            for it in consumers:
                it.close()


@pytest.fixture
def agent(cluster: Cluster) -> Iterator[AdminAgent]:
    agent = AdminAgent(cluster.conf, groups_per_s=200, lag_interval_s=0.4)
    agent.start()
    try:
        until(lambda: agent.queries.has_caught_up)
        yield agent
    finally:
        agent.stop()


def known(form: Any) -> Any:
    """What both agents tell."""
    form = {key: value for key, value in form.items() if key not in NOT_KNOWN}
    form["protocol_type"] = form["protocol_type"] or "consumer"
    if form["group_type"] == "consumer":
        # Of the broker's default no record tells.
        del form["protocol"]
    # The Admin API does not tell of generations that never completed.
    form["anomalies"] = [it for it in form["anomalies"] if it["kind"] != "generation_gap"]
    form["members"] = sorted(
        (
            {key: it[key] for key in ("member_id", "client_id", "client_host", "instance_id", "assignment")}
            for it in form["members"]
        ),
        key=lambda it: it["member_id"],
    )
    form["offsets"] = [
        {key: it[key] for key in ("topic", "partition", "offset", "metadata")} for it in form["offsets"]
    ]
    return form


def differing(one: Any, other: Any) -> str:
    """What is not the same, of each."""
    return "\n".join(f"{name}: {one[name]} != {other[name]}" for name in one if one[name] != other[name])


def test_as_the_topic_tells_it(cluster: Cluster, agent: AdminAgent) -> None:
    reader = Agent(AgentOptions(conf=cluster.conf))
    reader.start()
    try:
        until(lambda: reader.queries.has_caught_up)
        names = [it["group"] for it in reader.queries.groups()]
        assert names == [it["group"] for it in agent.queries.groups()]
        assert "alone" in names
        assert len(names) >= 2
        for name in map(str, names):
            wanted = reader.queries.describe(name)
            until(
                lambda name=name, wanted=wanted: known(agent.queries.describe(name)) == known(wanted),
                said=lambda name=name, wanted=wanted: differing(known(agent.queries.describe(name)), known(wanted)),
            )
    finally:
        reader.stop()


def test_what_is_lost_is_null_and_said(cluster: Cluster, agent: AdminAgent, caplog: pytest.LogCaptureFixture) -> None:
    form = agent.queries.describe("of-classic")
    assert form is not None
    assert form["rebalances"] is form["last_commit_ms"] is form["coordinator_partition"] is None
    assert [it["committed_ms"] for it in form["offsets"]] == [None] * 6  # type: ignore[attr-defined]
    assert agent.queries.ready().ready
    assert agent.queries.ready().reason == LIMITATIONS
    assert "no history, no causes" in LIMITATIONS
    told = agent.queries.timeline("of-classic")
    assert told is not None
    assert told[0] == []
    assert told[1] is not None
    assert agent.queries.timeline("nobody") is None
    assert agent.queries.describe("nobody") is None
    assert agent.queries.findings() == []


def test_lag_and_imbalance(cluster: Cluster, agent: AdminAgent) -> None:
    def lag(group: str) -> list[Any]:
        form = agent.queries.describe(group)
        assert form is not None
        return [it["lag"] for it in form["offsets"]]  # type: ignore[attr-defined]

    until(lambda: lag("of-classic") == [10, 9, 8, 7, 6, 5], said=lambda: lag("of-classic"))
    until(lambda: lag("alone") == [6, 0])
    totals = {it["group"]: it["lag"] for it in agent.queries.groups()}
    assert (totals["of-classic"], totals["alone"]) == (45, 6)
    lags = dict(agent.queries.topic_lags())
    assert (lags["alone"].records, lags["alone"].partitions, lags["alone"].unknown) == (6, 2, 0)
    until(lambda: dict(agent.queries.topic_lags())["alone"].seconds)
    form = agent.queries.describe("alone")
    assert form is not None
    by_partition = {(it["partition"], it["offset"], it["lag"]) for it in form["offsets"]}
    assert by_partition == {(0, 4, 6), (5, 10, 0)}
    assert agent._lag_watcher is not None
    assert len(agent._lag_watcher.snapshot().numbers) == 6


def test_it_is_served(cluster: Cluster, agent: AdminAgent) -> None:
    until(lambda: dict(agent.queries.topic_lags())["alone"].seconds)
    with serving(agent.queries) as url:
        with urlopen(url + "/metrics") as response:
            metrics = response.read().decode()
        assert 'kshadow_group_members{group="of-classic"} 2.0' in metrics
        assert 'kshadow_group_assignment_imbalance_ratio{group="of-classic"} 1.0' in metrics
        assert "kshadow_group_rebalances_total" not in metrics
        assert "kshadow_group_last_commit_timestamp_seconds" not in metrics
        with urlopen(url + "/readyz") as response:
            assert response.read().decode().strip() == LIMITATIONS
        with urlopen(url + "/") as response:
            page = response.read().decode()
        assert LIMITATIONS in page
        assert "None<" not in page
        groups = kshadow("groups", "--agent", url)
        assert groups.exit_code == 0
        assert "of-classic" in groups.stdout
        described = kshadow("describe", "of-classic", "--agent", url)
        assert described.exit_code == 0, described.output
        assert "c1" in described.stdout
        lag = kshadow("lag", "alone", "--agent", url, "-o", "json")
        assert lag.exit_code == 0, lag.output
        rows = json.loads(lag.stdout)
        assert [(it["partition"], it["offset"], it["lag"]) for it in rows] == [(0, 4, 6), (5, 10, 0)]
        timeline = kshadow("timeline", "alone", "--agent", url)
        assert timeline.exit_code == 0, timeline.output


def test_groups_that_come_move_and_go(cluster: Cluster, agent: AdminAgent) -> None:
    cluster.commit("visitor", (TOPIC, 1, 1), (TOPIC, 2, 2))
    until(lambda: (it := agent.queries.describe("visitor")) is not None and len(it["offsets"]) == 2)  # type: ignore[arg-type]
    cluster.commit("visitor", (TOPIC, 1, 7))
    until(lambda: [it["offset"] for it in agent.queries.describe("visitor")["offsets"]] == [7, 2])  # type: ignore[index, attr-defined]
    cluster.admin.delete_consumer_groups(["visitor"])["visitor"].result(20)
    until(lambda: agent.queries.describe("visitor") is None)
    assert "visitor" not in {group for group, _ in agent.queries.topic_lags()}


@ONCE
def test_only_some_groups(cluster: Cluster) -> None:
    agent = AdminAgent(cluster.conf, visibility=Visibility(["alone"]), lag_interval_s=None)
    agent.start()
    try:
        until(lambda: agent.queries.has_caught_up)
        assert [it["group"] for it in agent.queries.groups()] == ["alone"]
        assert agent.queries.describe("of-classic") is None
        assert agent._lag_watcher is None
        assert agent.queries.describe("alone")["offsets"][0]["lag"] is None  # type: ignore[index]
    finally:
        agent.stop()


@ONCE
def test_a_group_without_the_right(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    binding = (
        ResourceType.GROUP,
        "alone",
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    cluster.admin.create_acls([AclBinding(*binding)])[AclBinding(*binding)].result(20)
    agent = AdminAgent(cluster.conf, lag_interval_s=None)
    try:
        agent.start()
        until(lambda: agent.queries.has_caught_up)
        # Who may list all groups is shown it, who may not describe it knows no more.
        assert all(it["committed_partitions"] == 0 for it in agent.queries.groups() if it["group"] == "alone")
        assert agent.queries.ready().ready
    finally:
        agent.stop()
        cluster.admin.delete_acls([AclBindingFilter(*binding)])[AclBindingFilter(*binding)].result(20)


def test_no_broker_answers() -> None:
    agent = AdminAgent({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(SourceUnreachable, match="asking for a list of groups"):
        agent.start(2)


@ONCE
def test_a_broker_that_falls_silent(cluster: Cluster, agent: AdminAgent, caplog: pytest.LogCaptureFixture) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr("agent.runtime.admin_mode.queries.STALE_S", 3.0)
    try:
        cluster.broker.pause()
        with caplog.at_level(logging.WARNING, "kshadow"):
            until(lambda: not agent.queries.ready().ready)
        assert "no answer from the brokers" in agent.queries.ready().reason
        assert agent.queries.describe("alone") is not None, "what it knew it knows"
    finally:
        cluster.broker.resume()
        patch.undo()
    until(lambda: agent.queries.ready().ready, 60)
