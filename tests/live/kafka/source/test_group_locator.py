"""A broker whose groups stand where Redpanda would have them: which partitions are read of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agent.config.settings import ClusterSettings, LagSettings, PartitionerChoice, ReadSettings
from agent.core.protocol.group_placement import possible_partitions
from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.kafka.source.group_locator import locate_groups
from agent.kafka.writer.topic import partition_count, write_topic
from agent.runtime.agent import Agent
from agent.runtime.factory import make_agent
from agent.simulation.generator.histories import generate
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from agent.tools.doctor import DoctorRequest, examine, topic
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 16


@pytest.fixture(scope="module")
def placed() -> Iterator[tuple[str, GroupPartitioner, list[str]]]:
    by = GroupPartitioner.REDPANDA
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": str(PARTITIONS)}) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        assert partition_count(conf, create=True) == PARTITIONS
        empty = locate_groups(conf, PartitionerChoice.AUTO)
        assert empty.partitioner is GroupPartitioner.KAFKA, "its id has Kafka's form, and nothing speaks against that"
        settings = GeneratorSettings(
            1_790_000_000_000,
            groups=12,
            duration_ms=60_000,
            members=IntegerRange(1, 2),
            topics=3,
            offsets_partitions=PARTITIONS,
            group_partitioner=by,
        )
        names: list[str] = []
        write_topic(generate(settings, lambda it: names.append(str(it["group"]))), conf, placed_for=PARTITIONS)
        yield broker.bootstrap_servers, by, names


def test_auto_finds_it(placed: tuple[str, GroupPartitioner, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    servers, by, names = placed
    conf = {"bootstrap.servers": servers}
    found = locate_groups(conf, PartitionerChoice.AUTO)
    assert found.partitioner is by
    for name in names:
        assert found.partitions_of([name]) == [partition_for_group(name, PARTITIONS, by)]
    wrong = next(it for it in PartitionerChoice if it not in ("auto", str(by)))
    assert locate_groups(conf, wrong).partitioner != by, "who is told is not asked"

    monkeypatch.setattr(topic, "WATCH_S", 0.1)
    (check,) = (it for it in examine(DoctorRequest(conf, lag=False, observer=False)) if it.check == "partitioner")
    assert check.outcome == "ok"
    assert check.found.startswith(f"{by.name.capitalize()}'s")
    request = DoctorRequest(conf, lag=False, observer=False, group_partitioner=str(wrong))
    (check,) = (it for it in examine(request) if it.check == "partitioner")
    assert check.outcome == "warning"
    assert check.fix[0].startswith(f"--group-partitioner {by}")


def test_commands_find_the_group(placed: tuple[str, GroupPartitioner, list[str]]) -> None:
    servers, by, names = placed
    name = next(it for it in names if len(possible_partitions(it, PARTITIONS, None)) == 2)
    form = json.loads(kshadow("describe", name, "--bootstrap-server", servers, "-o", "json").stdout)
    assert form["coordinator_partition"] == partition_for_group(name, PARTITIONS, by)
    form = json.loads(kshadow("coordinator", name, "--bootstrap-server", servers, "-o", "json").stdout)
    assert (form["partitioner"], form["partition"]) == (by, partition_for_group(name, PARTITIONS, by))
    assert form["broker_id"] is not None


@pytest.mark.parametrize("choice", PartitionerChoice)
def test_an_agent_reads_the_groups_partition_or_says_that_it_does_not(
    placed: tuple[str, GroupPartitioner, list[str]], choice: PartitionerChoice
) -> None:
    servers, by, names = placed
    # Where Kafka's hash puts it stand other groups, which show that it is not Kafka's.
    taken = {partition_for_group(it, PARTITIONS, by) for it in names}
    group = next(
        it for it in names if partition_for_group(it, PARTITIONS) in taken - {partition_for_group(it, PARTITIONS, by)}
    )
    read = ReadSettings(groups=(group,), group_partitioner=choice)
    agent = make_agent(ClusterSettings(bootstrap_server=servers, read=read, lag=LagSettings(enabled=False)))
    assert isinstance(agent, Agent)
    agent.start(30)
    try:
        until(lambda: agent.queries.ready().ready, said="the agent is ready")
        right = [partition_for_group(group, PARTITIONS, by)]
        if choice is PartitionerChoice.KAFKA:
            assert list(agent.queries.read_partitions()) != right
            assert agent.queries.describe(group) is None
            return
        assert list(agent.queries.read_partitions()) == right
        assert agent.queries.describe(group) is not None
        assert agent.queries.ready().reason == "caught up"
    finally:
        agent.stop()
