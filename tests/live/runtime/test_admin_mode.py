"""The agent that asks the Admin API, on real brokers: what it tells against the agent that reads the topic."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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

from agent.config.settings import AdminSettings, ClusterSettings, GroupSource, LagSettings, ReadSettings
from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.kafka.source.errors import SourceUnreachable
from agent.kafka.writer.topic import partition_count
from agent.persistence.snapshot.directory_store import DirectoryStore
from agent.presentation.narrative.sampling import LIMITATIONS
from agent.presentation.schemas.views import OFFSETS_SEEN
from agent.runtime.agent import Agent
from agent.runtime.checkpointer import OpenStore
from agent.runtime.parts import AgentOptions, Visibility
from agent.serving.server import serving
from agent.tools.doctor import CheckOutcome, DoctorRequest, rights
from agent.tools.doctor.connection import connect_admin
from agent.tools.doctor.topic import TopicSample
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from analyzers.registry import select_analyzers
from tests.harness.kafka import EmbeddedCluster
from tests.live.scenarios.committing import commit
from tests.live.versions import NEWEST, NEWEST_ELSE_THOROUGH
from tests.unit.cli.running import kshadow
from tests.waiting import until

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
    OFFSETS_SEEN,
}


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


# tests/live/kafka/admin_api/test_live.py asks each.
@pytest.fixture(scope="module", params=NEWEST_ELSE_THOROUGH)
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


class _NothingKnown:
    def groups(self) -> dict[str, bool]:
        return {}

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        return {}


NOTHING_KNOWN = _NothingKnown()


def looking(
    conf: dict[str, str],
    *,
    lag_s: float | None = None,
    only: list[str] | None = None,
    open_store: OpenStore | None = None,
) -> Agent:
    """An agent of `--source admin`, at a pace that a test can wait for."""
    settings = ClusterSettings(
        bootstrap_server=conf["bootstrap.servers"],
        read=ReadSettings(source=GroupSource.ADMIN),
        admin=AdminSettings(requests_per_s=300),
        lag=LagSettings(enabled=lag_s is not None, interval_ms=round((lag_s or 1) * 1000)),
    )
    return Agent(
        AgentOptions(
            conf=conf,
            settings=settings,
            visibility=Visibility(only),
            analyzers=select_analyzers()._replace(cluster_analyzers=()),
            open_store=open_store,
        )
    )


@pytest.fixture
def agent(cluster: Cluster) -> Iterator[Agent]:
    agent = looking(cluster.conf, lag_s=0.4)
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


def test_as_the_topic_tells_it(cluster: Cluster, agent: Agent) -> None:
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


def test_what_is_lost_is_null_and_said(cluster: Cluster, agent: Agent) -> None:
    form = agent.queries.describe("of-classic")
    assert form is not None
    assert form["last_commit_ms"] is form["coordinator_partition"] is form["generations_skipped"] is None
    assert (form["generation"], form["rebalances"]) == (-1, 0)
    assert [it["committed_ms"] for it in form["offsets"]] == [None] * 6  # type: ignore[attr-defined]
    assert agent.queries.ready().ready
    assert LIMITATIONS in agent.queries.ready().reason
    assert "a join phase that is shorter may be missed" in agent.queries.ready().reason
    told = agent.queries.timeline("of-classic")
    assert told is not None
    assert [(it["type"], it["observed"], it["sampled"]) for it in told.events] == [("group_created", False, True)]
    assert agent.queries.timeline("nobody") is None
    assert agent.queries.describe("nobody") is None
    assert agent.queries.status()["sampling"]["pending_groups"] == 0  # type: ignore[index, call-overload]


def test_lag_and_imbalance(cluster: Cluster, agent: Agent) -> None:
    def lag(group: str) -> list[Any]:
        form = agent.queries.describe(group)
        assert form is not None
        return [it["lag"] for it in form["offsets"]]  # type: ignore[attr-defined]

    until(lambda: lag("of-classic") == [10, 9, 8, 7, 6, 5], said=lambda: lag("of-classic"))
    until(lambda: lag("alone") == [6, 0])
    totals = {it["group"]: it["lag"] for it in agent.queries.groups()}
    assert (totals["of-classic"], totals["alone"]) == (45, 6)


def test_it_is_served(cluster: Cluster, agent: Agent) -> None:
    with serving(agent.queries) as url:
        with urlopen(url + "/metrics") as response:
            metrics = response.read().decode()
        assert 'kshadow_group_members{group="of-classic"} 2.0' in metrics
        assert 'kshadow_group_assignment_imbalance_ratio{group="of-classic"} 1.0' in metrics
        assert 'kshadow_group_generation{group="of-classic"}' not in metrics
        assert 'kshadow_group_last_commit_timestamp_seconds{group="of-classic"}' not in metrics
        with urlopen(url + "/readyz") as response:
            assert LIMITATIONS in response.read().decode()
        with urlopen(url + "/") as response:
            page = response.read().decode()
        assert LIMITATIONS[1:] in page
        assert "None<" not in page
        groups = kshadow("groups", "--agent", url)
        assert groups.exit_code == 0
        assert "of-classic" in groups.stdout
        described = kshadow("describe", "of-classic", "--agent", url)
        assert described.exit_code == 0, described.output
        assert "c1" in described.stdout
        coordinator = kshadow("coordinator", "of-classic", "--agent", url)
        assert (coordinator.exit_code, coordinator.stdout) == (1, "")
        assert "does not know the partition" in coordinator.stderr

        def lags() -> list[tuple[int, int, int | None]]:
            said = kshadow("lag", "alone", "--agent", url, "-o", "json")
            rows = json.loads(said.stdout) if said.exit_code == 0 else []
            return [(it["partition"], it["offset"], it["lag"]) for it in rows]

        # Ends that were not seen for 1.2 s are not known, as where the machine has much else to do.
        until(lambda: lags() == [(0, 4, 6), (5, 10, 0)], said=lags)
        assert "(the committed offsets were read at 20" in kshadow("lag", "alone", "--agent", url).stderr
        timeline = kshadow("timeline", "alone", "--agent", url)
        assert timeline.exit_code == 0, timeline.output
        explained = kshadow("explain", "of-classic", "--agent", url, "--full")
        assert explained.exit_code == 0, explained.output
        assert "What was between two samples" in explained.stdout


def test_groups_that_come_move_and_go(cluster: Cluster, agent: Agent) -> None:
    cluster.commit("visitor", (TOPIC, 1, 1), (TOPIC, 2, 2))
    until(lambda: (it := agent.queries.describe("visitor")) is not None and len(it["offsets"]) == 2)  # type: ignore[arg-type]
    cluster.commit("visitor", (TOPIC, 1, 7))
    until(lambda: [it["offset"] for it in agent.queries.describe("visitor")["offsets"]] == [7, 2])  # type: ignore[index, attr-defined]
    form = agent.queries.describe("visitor")
    assert form is not None
    assert form["last_commit_ms"] is not None, "it was seen to move"
    cluster.admin.delete_consumer_groups(["visitor"])["visitor"].result(20)
    until(lambda: agent.queries.describe("visitor") is None)
    told = agent.queries.timeline("visitor")
    assert told is not None
    assert [it["type"] for it in told.events] == ["group_created", "group_deleted"]
    assert told.events[0]["observed"]


@ONCE
def test_metadata_of_commits_keeps_no_group_from_being_followed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka Streams has it. What librdkafka hands out of it has no end, so none of it is told."""
    monkeypatch.setenv("MALLOC_PERTURB_", "1")  # bytes behind it are no zeros
    conf = {**cluster.conf, "group.id": "noted", "enable.auto.commit": False}
    consumer, agent = Consumer(conf), looking(cluster.conf, only=["noted"])
    agent.start()
    try:
        for offset in range(1, 9):
            noted = [TopicPartition(TOPIC, it, offset, metadata="AgAAAaIcq769") for it in range(6)]
            consumer.commit(offsets=noted, asynchronous=False)

            def positions() -> list[tuple[object, object]]:
                form = agent.queries.describe("noted")
                return [] if form is None else [(it["offset"], it["metadata"]) for it in form["offsets"]]  # type: ignore[attr-defined]

            until(lambda offset=offset: positions() == [(offset, "")] * 6, said=positions)
    finally:
        agent.stop()
        consumer.close()
        cluster.admin.delete_consumer_groups(["noted"])["noted"].result(20)


@ONCE
def test_rebalances_are_told_and_kept_over_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    """A member comes and goes, as in the topic's events; an agent that begins anew from its snapshot tells nothing
    twice, and what happened while it was away."""
    conf = {**cluster.conf, "group.id": "shared", "enable.auto.commit": False, "auto.offset.reset": "earliest"}

    def member(client_id: str) -> Consumer:
        made = Consumer({**conf, "client.id": client_id, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
        made.subscribe([TOPIC])
        return made

    def hold(members: list[Consumer], *shares: int) -> None:
        deadline = time.monotonic() + 40
        while sorted(len(it.assignment()) for it in members) != sorted(shares):
            assert time.monotonic() < deadline
            for it in members:
                it.poll(0.1)

    def causes(agent: Agent) -> list[tuple[str, list[str], list[str]]]:
        told = agent.queries.timeline("shared")
        found = [] if told is None else [it for it in told.events if it["type"] == "rebalance"]
        return [
            (it["cause"], *([member["client_id"] for member in it[side]] for side in ("joined", "left")))
            for it in found
        ]

    def store(cluster_id: str) -> DirectoryStore:
        return DirectoryStore(str(tmp_path))

    first = member("one")
    hold([first], 6)
    agent = looking(cluster.conf, open_store=store)
    agent.start()
    try:
        until(lambda: agent.queries.has_caught_up)
        second = member("two")
        hold([first, second], 3, 3)
        joined = ("member_joined", ["two"], [])
        until(lambda: causes(agent) == [joined], said=lambda: causes(agent))
        before = agent.queries.timeline("shared")
    finally:
        agent.stop()
    second.close()
    hold([first], 6)
    agent = looking(cluster.conf, open_store=store)
    agent.start()
    try:
        until(lambda: len(causes(agent)) == 2, said=lambda: causes(agent))
        after = agent.queries.timeline("shared")
        assert before is not None
        assert after is not None
        assert causes(agent) == [joined, ("unknown_departure", [], ["two"])], (before.events, after.events)
        assert after.events[: len(before.events)] == before.events
    finally:
        agent.stop()
        first.close()


@ONCE
def test_only_some_groups(cluster: Cluster) -> None:
    agent = looking(cluster.conf, only=["alone"])
    agent.start()
    try:
        until(lambda: agent.queries.has_caught_up)
        assert [it["group"] for it in agent.queries.groups()] == ["alone"]
        assert agent.queries.describe("of-classic") is None
        assert agent.queries.describe("alone")["offsets"][0]["lag"] is None  # type: ignore[index]
    finally:
        agent.stop()


@ONCE
def test_the_brokers_are_asked_no_more_than_was_said(cluster: Cluster) -> None:
    """Each group has its coordinator asked for, since there are more than a client remembers."""
    names = [f"many-{number}" for number in range(200)]
    for name in names:
        cluster.commit(name, (TOPIC, 0, 1))
    reader = SampledReader(cluster.conf, NOTHING_KNOWN, requests_per_s=20.0)
    try:
        reader.connect()
        counts: list[tuple[float, int]] = []
        until(lambda: reader.poll(0.1) and reader.requests_sent)
        began = time.monotonic()
        while not counts or counts[-1][0] < 12.0:
            reader.poll(0.1)
            if not counts or counts[-1][1] != reader.requests_sent:
                counts.append((time.monotonic() - began, reader.requests_sent))
        assert reader.pending, "there was something to ask all the time"
    finally:
        reader.close()
        cluster.admin.delete_consumer_groups(names)
    (first_s, first), (last_s, last) = counts[1], counts[-1]
    assert 10 <= (last - first) / (last_s - first_s) <= 24


Resource = tuple[ResourceType, str]
OF_ALONE: Resource = (ResourceType.GROUP, "alone")
OF_TOPIC: Resource = (ResourceType.TOPIC, TOPIC)


@contextmanager
def without_describe(cluster: Cluster, *resources: Resource) -> Iterator[None]:
    """The right to describe these is taken away, and given back."""
    rows = [
        (*it, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.DENY)
        for it in resources
    ]
    for made in cluster.admin.create_acls([AclBinding(*it) for it in rows]).values():
        made.result(20)
    try:
        yield
    finally:
        for gone in cluster.admin.delete_acls([AclBindingFilter(*it) for it in rows]).values():
            gone.result(20)


def types(agent: Agent, group: str) -> list[tuple[object, object]]:
    told = agent.queries.timeline(group)
    return [] if told is None else [(it["type"], it.get("observed")) for it in told.events]


@ONCE
def test_a_group_without_the_right(cluster: Cluster) -> None:
    agent = looking(cluster.conf)
    try:
        with without_describe(cluster, OF_ALONE):
            agent.start()
            until(lambda: agent.queries.has_caught_up)
            until(
                lambda: agent.queries.describe("alone") is None
            )  # who may list all groups is shown that it is there
            assert "1 group cannot be seen any more: ACL operation Describe is needed" in agent.queries.ready().reason
            assert agent.queries.ready().ready
        until(lambda: agent.queries.describe("alone") is not None)
        assert "cannot be seen" not in agent.queries.ready().reason
    finally:
        agent.stop()


def test_the_right_to_a_group_is_taken_away_and_given_back(cluster: Cluster, agent: Agent) -> None:
    """Lists show it all the same. Where they do not: `tests.live.tools.doctor.test_least_rights`."""
    assert agent.queries.describe("alone") is not None
    with without_describe(cluster, OF_ALONE):
        until(lambda: agent.queries.describe("alone") is None)
        assert types(agent, "alone") == [("group_created", False)], "it may be there"
        assert not [it for it in agent.queries.groups() if it["group"] == "alone"]

    def positions() -> list[object]:
        form = agent.queries.describe("alone")
        return [] if form is None else [(it["offset"], it["committed_ms"]) for it in form["offsets"]]  # type: ignore[attr-defined]

    until(lambda: positions() == [(4, None), (10, None)], said=positions)
    assert types(agent, "alone") == [("group_created", False)] * 2


@ONCE
def test_the_right_to_a_topic_is_taken_away_and_given_back(cluster: Cluster, agent: Agent) -> None:
    """Its offsets are not deleted."""

    def positions() -> list[object]:
        form = agent.queries.describe("alone")
        return [] if form is None else [it["offset"] for it in form["offsets"]]  # type: ignore[attr-defined]

    until(lambda: positions() == [4, 10], said=positions)
    with without_describe(cluster, OF_TOPIC):
        until(lambda: positions() == [], said=positions)
    until(lambda: positions() == [4, 10], said=positions)
    assert types(agent, "alone") == [("group_created", False)]


@ONCE
def test_a_group_that_subscribes_to_a_topic_without_the_right(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers do not describe a KIP-848 group then. It keeps nothing else from being told, and is told of once."""
    monkeypatch.setattr("agent.kafka.admin_api.look_scheduler.LEAST_SUSPENDED_S", 0.2)
    agent = looking(cluster.conf)

    def told() -> set[object]:
        return {it["group"] for it in agent.queries.groups()}

    def denied() -> float:
        observed = agent.queries.readings().observed
        return 0 if observed is None else observed.requests["denied"]

    try:
        with caplog.at_level("INFO", logger="kshadow"), without_describe(cluster, OF_TOPIC):
            agent.start()
            until(lambda: agent.queries.ready().ready)
            until(lambda: denied() >= 4, said="it is asked for again")
            assert told() >= {"of-classic", "alone"}
            assert "of-consumer" not in told()
            assert "seen again" not in caplog.text
            assert caplog.text.count("ACL operation Describe on it, and on its topics, is needed") == 1
            request, sample = DoctorRequest(cluster.conf, source=GroupSource.ADMIN), TopicSample()
            rights.list_groups(request, connect_admin(request), sample)
            assert (sample.with_hidden_topics, sample.topics) == ({"of-consumer"}, {TOPIC})
            assert rights.describe_topics(request, connect_admin(request), sample).outcome is CheckOutcome.FAILED
        until(lambda: "of-consumer" in told(), said=told)
        form = agent.queries.describe("of-consumer")
        assert form is not None
        assert form["state"] == "Stable"
    finally:
        agent.stop()


@ONCE
def test_offsets_of_a_topic_that_is_deleted_are_told_to_be(cluster: Cluster, agent: Agent) -> None:
    cluster.admin.create_topics([NewTopic("gone", 1, 1)])["gone"].result(20)
    cluster.commit("leaver", ("gone", 0, 1), (TOPIC, 0, 1))
    until(lambda: (it := agent.queries.describe("leaver")) is not None and it["committed_partitions"] == 2)
    cluster.admin.delete_topics(["gone"])["gone"].result(20)
    until(lambda: ("offsets_deleted", None) in types(agent, "leaver"), said=lambda: types(agent, "leaver"))
    cluster.admin.delete_consumer_groups(["leaver"])["leaver"].result(20)


def test_no_broker_answers() -> None:
    agent = looking({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(SourceUnreachable, match="asking for a list of groups"):
        agent.start(2)


@ONCE
def test_a_broker_that_falls_silent(cluster: Cluster, agent: Agent) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr("agent.kafka.admin_api.sampled_reader.STALE_S", 3.0)
    try:
        cluster.broker.pause()
        until(lambda: not agent.queries.ready().ready)
        assert "no answer from the brokers" in agent.queries.ready().reason
        assert agent.queries.describe("alone") is not None, "what it knew it knows"
    finally:
        cluster.broker.resume()
        patch.undo()
    until(lambda: agent.queries.ready().ready, 60)


@pytest.mark.thorough  # one broker that falls silent is above
def test_a_coordinator_that_falls_silent_while_others_answer(caplog: pytest.LogCaptureFixture) -> None:
    """What it coordinates is not told for long as it was, nor said to want a right; what others do is."""
    properties = {"offsets.topic.num.partitions": "2", "offsets.topic.replication.factor": "1"}
    patch = pytest.MonkeyPatch()
    patch.setattr("agent.kafka.admin_api.sampled_reader.STALE_S", 12.0)
    with EmbeddedCluster(fetch_jars(NEWEST), heap="256m", properties=properties) as cluster:
        conf = {"bootstrap.servers": cluster.bootstrap_servers}
        admin = AdminClient({**conf, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(20)
        assert partition_count(conf, create=True) == 2
        names = {f"g{number}" for number in range(6)}
        for name in sorted(names):
            commit(admin, name, [TopicPartition(TOPIC, 0, 1)])
        leaders = cluster.leaders("__consumer_offsets")
        lost = {it for it in names if leaders[partition_for_group(it, 2, GroupPartitioner.KAFKA)] == 1}
        assert 0 < len(lost) < len(names)
        agent = looking(conf)

        def told() -> set[str]:
            return {it["group"] for it in agent.queries.groups()}

        try:
            agent.start()
            until(lambda: agent.queries.ready().ready and told() == names)
            cluster.brokers[1].pause()
            until(lambda: told() == names - lost, 90, said=told)
            until(lambda: not agent.queries.ready().ready)
            assert agent.queries.ready().reason == (
                f"{len(lost)} groups cannot be seen any more: no answer from the brokers that coordinate them"
            )
            assert not agent.queries.readings().healthy
            assert "its coordinator does not answer" in caplog.text
            assert "ACL operation Describe" not in caplog.text
            assert ("group_deleted", False) not in types(agent, min(lost))
            cluster.brokers[1].resume()
            until(lambda: told() == names, 90, said=told)
            until(lambda: agent.queries.ready().ready, 60)
            assert agent.queries.readings().healthy
        finally:
            patch.undo()
            agent.stop()
