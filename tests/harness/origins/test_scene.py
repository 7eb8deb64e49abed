"""The proof runs by hand; that an agent can ask all it asks of the scene's pods is looked at with each change."""

from __future__ import annotations

from agent.config.settings import ClusterSettings, ReadSettings
from agent.core.protocol.hashing import GroupPartitioner
from agent.runtime.factory import make_agent
from tests.harness.origins.__main__ import WrittenPods

SETTINGS = ClusterSettings(
    bootstrap_server="127.0.0.1:1", read=ReadSettings(group_partitioner=GroupPartitioner.KAFKA)
)


def test_an_agent_asks_the_pods_how_they_are() -> None:
    agent = make_agent(SETTINGS, WrittenPods())  # type: ignore[arg-type]
    assert agent.queries.ready().reason == "catching up with the topic's end: 0 records to go"
    assert agent.queries.alive().reason
    assert agent.queries.status()
    assert agent.queries.readings()
