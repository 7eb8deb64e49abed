"""Brokers whose groups stand where Redpanda would have them, and where Kafka has them: which partitions are read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agent.config.settings import PartitionerChoice
from agent.core.protocol.hashing import GroupPartitioner, partition_for_group
from agent.kafka.source.group_locator import locate_groups
from agent.kafka.writer.topic import partition_count, write_topic
from agent.simulation.generator.histories import generate
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from agent.tools.doctor import DoctorRequest, examine, topic
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 16


@pytest.fixture(scope="module", params=GroupPartitioner)
def placed(request: pytest.FixtureRequest) -> Iterator[tuple[str, GroupPartitioner, list[str]]]:
    by: GroupPartitioner = request.param
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
    name = (
        next(it for it in names if partition_for_group(it, PARTITIONS) != partition_for_group(it, PARTITIONS, by))
        if (by is GroupPartitioner.REDPANDA)
        else names[0]
    )
    form = json.loads(kshadow("describe", name, "--bootstrap-server", servers, "-o", "json").stdout)
    assert form["coordinator_partition"] == partition_for_group(name, PARTITIONS, by)
    form = json.loads(kshadow("coordinator", name, "--bootstrap-server", servers, "-o", "json").stdout)
    assert (form["partitioner"], form["partition"]) == (by, partition_for_group(name, PARTITIONS, by))
    assert form["broker_id"] is not None
