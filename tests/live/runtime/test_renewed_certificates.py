"""Certificates that are renewed on disk: clients of librdkafka go on with what the files held when they were made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from agent.config.settings import PLAIN_CLUSTER, AdminSettings, LagSettings, ReadSettings
from agent.core.queries import JsonObject
from agent.kafka.admin_api.observer import AdminObserver
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.topic_sink import TopicSink
from agent.persistence.snapshot.store import StoreError
from agent.persistence.snapshot.topic_store import TopicStore
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import fetch_jars
from tests.live.scenarios import faults
from tests.live.scenarios.certificates import Authority
from tests.live.scenarios.secured import DESCRIBE_GROUPS, DESCRIBE_TOPICS, READ_TOPIC, Right, Secured, secured
from tests.waiting import until

pytestmark = [pytest.mark.usefixtures("kafka"), pytest.mark.thorough]  # certificates that are renewed have unit tests

PARTITIONS = 2
ORDERS, HISTORY, SNAPSHOTS, SHARED = "orders", "history", "snapshots", "kshadow-shared"
RIGHTS = (
    READ_TOPIC,
    DESCRIBE_GROUPS,
    DESCRIBE_TOPICS,
    Right(AclOperation.READ, ResourceType.GROUP, SHARED),
    Right(AclOperation.WRITE, ResourceType.TOPIC, HISTORY),
    Right(AclOperation.WRITE, ResourceType.TOPIC, SNAPSHOTS),
    Right(AclOperation.READ, ResourceType.TOPIC, SNAPSHOTS),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    properties = {"offsets.topic.num.partitions": str(PARTITIONS)}
    with secured(fetch_jars(), tmp_path_factory.mktemp("renewed"), properties=properties) as it:
        faults.create(it.broker, PARTITIONS)
        for made in it.admin.create_topics([NewTopic(name, 1, 1) for name in (ORDERS, HISTORY, SNAPSHOTS)]).values():
            made.result(20)
        conf = {"bootstrap.servers": it.broker.admin_servers, "group.id": ORDERS, "enable.auto.commit": False}
        consumer = Consumer({**conf, "log_level": 0})
        consumer.commit(offsets=[TopicPartition(ORDERS, 0, 0)], asynchronous=False)
        consumer.close()
        yield it


@pytest.fixture
def conf(cluster: Secured, tmp_path: Path) -> dict[str, str]:
    """Properties of a user who trusts the broker; the file of who is trusted is the test's own."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(cluster.authority.file.read_bytes())
    return {**cluster.user("u", *RIGHTS), "ssl.ca.location": str(trusted)}


def replace_authority(cluster: Secured) -> None:
    """Another authority signs the broker's certificate from now on."""
    cluster.authority = Authority(cluster.authority.directory / "next")
    properties = (cluster.broker.directory / "server.properties").read_text()
    (line,) = (it for it in properties.splitlines() if ".ssl.keystore.location=" in it)
    Path(line.partition("=")[2]).write_bytes(cluster.authority.sign("broker").both.read_bytes())
    cluster.broker.restart()


@pytest.mark.parametrize("group", [None, pytest.param(SHARED, marks=pytest.mark.thorough)])
def test_an_agent_goes_on_with_them_and_says_nothing_that_it_cannot_know(
    cluster: Secured, conf: dict[str, str], group: str | None
) -> None:
    settings = replace(
        PLAIN_CLUSTER,
        read=ReadSettings(share_group=group),
        admin=AdminSettings(),
        lag=LagSettings(enabled=True, interval_ms=500),
    )
    agent = Agent(AgentOptions(conf=conf, settings=settings, observer=AdminObserver(conf, groups_per_s=20)))
    agent.start()
    queries = agent.queries

    def lag() -> object:
        form: JsonObject | None = queries.describe(ORDERS)
        return form and form["offsets"][0]["lag"]  # type: ignore[index]

    def divergences() -> object:
        observed = queries.readings().observed
        return observed and observed.divergences

    try:
        until(lambda: queries.ready().ready and lag() == 0 and divergences(), said=queries.ready)
        assert queries.readings().behind_records == dict.fromkeys(range(PARTITIONS), 0)
        assert queries.readings().open_transaction_s == dict.fromkeys(range(PARTITIONS), 0.0)
        replace_authority(cluster)
        until(lambda: "certificate" in queries.ready().reason, said=queries.ready)
        assert not queries.ready().ready
        assert "expected one that is valid now, is for this host, and is signed by whom" in queries.ready().reason
        readings = queries.readings()
        assert (readings.behind_records, readings.open_transaction_s, divergences()) == ({}, {}, {})
        places = queries.status()["partitions"]
        assert [it["behind_records"] for it in places.values()] == [None] * len(places)  # type: ignore[attr-defined]
        Path(conf["ssl.ca.location"]).write_text("half of it is writ")
        time.sleep(3)
        assert not queries.ready().ready
        Path(conf["ssl.ca.location"]).write_bytes(cluster.authority.file.read_bytes())
        until(lambda: queries.ready().ready and lag() == 0 and divergences(), said=queries.ready)
        assert queries.readings().behind_records == dict.fromkeys(range(PARTITIONS), 0)
    finally:
        agent.stop()


def test_history_goes_on_with_them(cluster: Secured, conf: dict[str, str]) -> None:
    sink = TopicSink(conf, HISTORY, create=False, patience_s=5)
    event = [EncodedEvent(b"g", "t", 1, 1, 1, b"{}")]
    assert not sink.write(event)
    replace_authority(cluster)
    more = [EncodedEvent(b"g", "t", 1, 2, 2, b"{}")]
    with pytest.raises(SinkDown, match="expected one that is valid now"):
        sink.write(more)
    Path(conf["ssl.ca.location"]).write_bytes(cluster.authority.file.read_bytes())
    assert not sink.write(more)
    sink.close()


def test_snapshots_go_on_with_them(cluster: Secured, conf: dict[str, str]) -> None:
    store = TopicStore(conf, SNAPSHOTS, "cluster", create=False, timeout_s=5)
    store.save("partition-0", b"before")
    replace_authority(cluster)
    with pytest.raises(StoreError):
        store.save("partition-0", b"not trusted")
    Path(conf["ssl.ca.location"]).write_bytes(cluster.authority.file.read_bytes())
    store.save("partition-0", b"after")
    assert store.load(["partition-0"]) == {"partition-0": b"after"}
    store.close()


def test_a_keystore_that_is_changed_under_connections_that_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker goes on with connections that it has. The reader read on by its own, and asked by another for the
    topic's id in vain, with each poll and for seconds: so it was always seconds late, and said that all was well."""
    caplog.set_level("INFO")
    properties = {"offsets.topic.num.partitions": str(PARTITIONS), "connections.max.idle.ms": "2000"}
    with secured(fetch_jars(), tmp_path, properties=properties) as cluster:
        faults.create(cluster.broker, PARTITIONS)
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(cluster.authority.file.read_bytes())
        conf = {**cluster.user("u", READ_TOPIC), "ssl.ca.location": str(trusted)}
        agent = Agent(AgentOptions(conf=conf, settings=replace(PLAIN_CLUSTER, lag=LagSettings(enabled=False))))
        agent.start()
        try:
            until(lambda: agent.queries.ready().ready, said=agent.queries.ready)
            another = Authority(tmp_path / "another", "another authority")
            trusted.write_bytes(cluster.authority.file.read_bytes() + another.file.read_bytes())
            name, place = "listener.name.client.ssl.keystore.location", str(another.sign("broker").both)
            (broker,) = cluster.admin.list_topics(timeout=20).brokers
            change = ConfigEntry(name, place, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[change])
            for done in cluster.admin.incremental_alter_configs([resource]).values():
                done.result(20)
            until(lambda: "were renewed: connecting with these" in caplog.text, 30, agent.queries.ready)
            until(lambda: agent.queries.ready().ready, said=agent.queries.ready)
        finally:
            agent.stop()
