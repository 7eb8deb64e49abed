"""A client dates records an hour ahead, as far as brokers allow: nothing comes late for the other groups of the
partition, and the agent says who is ahead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from agent.common.clock import now_ms
from agent.core.protocol.hashing import partition_for_group
from agent.kafka.writer.topic import partition_count
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.unit.core.shadow import build as b
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 2
AHEAD_MS = 59 * 60_000
AHEAD, CALM = 0, 1
"""The partition that the client writes to, and the other."""

GROUPS = {partition_for_group(f"lopsided-{it}", PARTITIONS): f"lopsided-{it}" for it in range(20)}
"""A group in each partition: all partitions of its topics are one member's."""


class Writer:
    """The one client that brokers let write to the topic."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "client.id": "__admin_client", "log_level": 2})

    def write(self, partition: int, *pairs: b.Pair, ahead_ms: int = 0) -> None:
        """In one batch."""
        place: dict[str, Any] = {"partition": partition, "timestamp": now_ms() + ahead_ms}
        for key, value in pairs:
            self._producer.produce("__consumer_offsets", key=key, value=value, **place)
        assert self._producer.flush(30) == 0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    properties = {"offsets.topic.num.partitions": str(PARTITIONS)}
    with EmbeddedBroker(fetch_jars(), directory=tmp_path_factory.mktemp("ahead"), properties=properties) as broker:
        partition_count({"bootstrap.servers": broker.bootstrap_servers}, create=True)
        yield broker.bootstrap_servers


def firing(agent: AgentProcess) -> dict[str, int]:
    """Since when, by group."""
    return {it["group"]: it["since_ms"] for it in agent.json("/api/v1/findings") if it["state"] == "firing"}


def test_the_others_are_judged_as_ever(servers: str, tmp_path: Path) -> None:
    writer = Writer(servers)
    tune = ("--tune", "unbalanced_assignment.open_after_s=5")
    agent = AgentProcess(tmp_path, "--bootstrap-server", servers, "--analyzers", "unbalanced_assignment", *tune)
    agent.start()
    try:
        agent.wait_ready()
        assert "ahead" not in agent.get("/readyz")[1].decode()
        writer.write(AHEAD, *[b.commit(group="stranger", offset=1)] * 3, ahead_ms=AHEAD_MS)
        members = [b.member(f"m{it}-1", {"a": [0, 1, 2]} if not it else {}, topics=("a",)) for it in range(3)]
        began_ms = now_ms()
        for partition, group in GROUPS.items():
            writer.write(partition, b.classic_group(1, *members, group=group))
        until(lambda: firing(agent).keys() == set(GROUPS.values()), 60, agent.log.read_text)
        assert all(began_ms - 1000 < it < began_ms + 5000 for it in firing(agent).values())
        assert agent.metrics()["kshadow_records_ahead_total", f'partition="{AHEAD}"'] == 3
        status, body = agent.get("/readyz")
        assert status == 200
        assert (
            "timestamps of 3 records are up to 59 min ahead of this machine's clock or of the records around them "
            "(partitions 0): they are "
            "passed over as a clock; see who writes to the topic"
        ) in body.decode()
    finally:
        agent.stop()
