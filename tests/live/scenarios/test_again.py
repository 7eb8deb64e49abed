"""The same answers by other ways: an agent that starts now, the segment files, the broker after a restart."""

from __future__ import annotations

import time

import pytest

from agent.kafka.source.topic import TopicReader
from agent.runtime.offline import load
from agent.runtime.parts import AgentOptions, Visibility
from tests.live.scenarios.comparing import Comparison, WatchedAgent, compare, settled_facts
from tests.live.scenarios.conftest import Cluster
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")


def same(comparison: Comparison) -> None:
    assert comparison.total > 0
    assert not comparison.differences, "\n".join(comparison.all_differences())


def test_an_agent_that_starts_now(cluster: Cluster, performance: object) -> None:
    agent = WatchedAgent(AgentOptions(conf=cluster.conf))
    agent.start()
    try:
        same(cluster.compare_with(agent))
    finally:
        agent.stop()


def test_an_agent_for_one_group(cluster: Cluster, performance: object) -> None:
    """Reads one partition, shows one group, and that as the broker does."""
    rows = [row for row in cluster.agent.queries.groups() if row["members"]] or cluster.agent.queries.groups()
    row = rows[0]
    group, partition = str(row["group"]), int(str(row["coordinator_partition"]))
    agent = WatchedAgent(AgentOptions(conf=cluster.conf, partitions=[partition], visibility=Visibility([group])))
    agent.start()
    try:
        facts, (rows, form) = settled_facts(
            cluster.yardstick,
            cluster.agent,
            lambda: (caught_up(agent).queries.groups(), agent.queries.describe(group)),
        )
        comparison = compare({group: facts[group]}, rows, {group: form}.get)
        cluster.tally.add(comparison)
        same(comparison)
    finally:
        agent.stop()


def caught_up(agent: WatchedAgent) -> WatchedAgent:
    until(lambda: agent.queries.ready().ready, said=agent.queries.ready)
    return agent


def test_the_segment_files_of_a_running_broker(cluster: Cluster, performance: object) -> None:
    same(offline(cluster))


def offline(cluster: Cluster) -> Comparison:
    """The broker's own directory, read while it writes."""

    def read() -> object:
        said: list[str] = []
        loaded = load([str(cluster.broker.log_dirs[0])], on_problem=said.append, keep_events=False)
        assert not said
        return loaded.groups(), {str(row["group"]): loaded.describe(str(row["group"])) for row in loaded.groups()}

    facts, (rows, forms) = settled_facts(cluster.yardstick, cluster.agent, read)
    comparison = compare(facts, rows, forms.get)
    cluster.tally.add(comparison)
    return comparison


def test_the_reader_starts_where_another_stopped(cluster: Cluster, performance: object) -> None:
    """Positions are where to go on: a reader from there gets nothing of what was there."""
    cluster.compare()
    positions = cluster.agent._parts.reader.positions
    with TopicReader(cluster.conf, start=positions) as reader:
        runs = reader.poll(0)
        deadline = time.monotonic() + 60
        while not reader.caught_up:  # the broker may have written meanwhile
            assert time.monotonic() < deadline, reader.last_error
            runs += reader.poll(0.1)
        assert all(run.offsets[0] >= positions[run.partition] for run in runs)
