"""A transaction that is left open hides what groups do: who asks is told so, before, during and after a restart."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.core.protocol.group_placement import possible_partitions
from agent.core.protocol.hashing import partition_for_group
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.unit.cli.hostile import raw
from tests.unit.cli.running import kshadow
from tests.unit.serving.page.scene import Reader
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 2
PROPERTIES = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
VICTIM = "victim"
HIDDEN = partition_for_group(VICTIM, PARTITIONS)
HOLDER = next(it for it in (f"holder-{n}" for n in range(99)) if partition_for_group(it, PARTITIONS) == HIDDEN)
ELSEWHERE = next(it for it in (f"elsewhere-{n}" for n in range(99)) if partition_for_group(it, PARTITIONS) != HIDDEN)
NEW = next(it for it in (f"new-{n}" for n in range(99)) if partition_for_group(it, PARTITIONS) == HIDDEN)
NOWHERE = next(
    it for it in (f"new-{n}" for n in range(99)) if HIDDEN not in possible_partitions(it, PARTITIONS, None)
)
"""Groups that the agent knows nothing of; three that it knows do not tell whose hash the broker has."""
TRANSACTION = "\x1b[2J<b>tx"
SHOWN = "`\\u001b[2J<b>tx`"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES, heap="256m") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 2)])["orders"].result(20)
        yield broker.bootstrap_servers


def joined(servers: str, group: str) -> Consumer:
    """A member that has its partitions and has committed."""
    own = {"session.timeout.ms": 30_000, "enable.auto.commit": False, "log_level": 0}
    own |= {"topic.metadata.refresh.interval.ms": 500}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **own})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    return consumer


def opened(servers: str) -> Producer:
    """One who sent a group's offsets to a transaction, and hangs."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": TRANSACTION, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    holder = Consumer({"bootstrap.servers": servers, "group.id": HOLDER, "log_level": 0})
    producer.send_offsets_to_transaction([TopicPartition("orders", 1, 5)], holder.consumer_group_metadata(), 60)
    return producer


def row(agent: AgentProcess, group: str) -> dict[str, Any]:
    (found,) = [it for it in agent.json("/api/v1/groups") if it["group"] == group]
    return found


def metrics(agent: AgentProcess, name: str) -> dict[str, str]:
    lines = agent.get("/metrics")[1].decode().splitlines()
    return dict(line.removeprefix(name).rsplit(" ", 1) for line in lines if line.startswith(name + "{"))


def said(*arguments: str) -> tuple[str, str]:
    result = kshadow(*arguments)
    assert (result.exit_code, raw(result.stdout), raw(result.stderr)) == (0, [], [])
    return result.stdout, result.stderr


def assert_current(agent: AgentProcess, state: str, members: int) -> None:
    found = row(agent, VICTIM)
    assert (found["state"], found["members"], "stale" in found) == (state, members, False)
    assert agent.get("/readyz") == (200, b"caught up\n")
    assert metrics(agent, "kshadow_group_stale") == {}
    assert set(metrics(agent, "kshadow_topic_open_transaction_seconds").values()) == {"0.0"}
    status = agent.json("/api/v1/status")
    assert status["worries"] == []
    assert not [it for it in status["partitions"].values() if "open_transaction" in it]


def assert_commands_say_so(since_ms: int, *source: str, commands: tuple[str, ...]) -> None:
    known = f"What is known of `{VICTIM}` is as of "
    out, errors = said("groups", *source)
    assert "Stable as of 20" in out
    assert known in errors
    assert known in said("findings", *source)[1]
    (found,) = [it for it in json.loads(said("groups", *source, "-o", "json")[0]) if it["group"] == VICTIM]
    assert abs(found["stale"]["since_ms"] - since_ms) < 2_000
    for command in commands:
        assert known in said(command, VICTIM, *source)[1], command
    assert said("describe", ELSEWHERE, *source)[1] == ""
    out, _ = said("explain", VICTIM, *source, "--full")
    assert out.startswith("As of ")
    assert known in " ".join(out.split())


def assert_stale(agent: AgentProcess) -> int:
    """That whoever asks is told; since when, epoch milliseconds."""
    found = row(agent, VICTIM)
    assert (found["state"], found["members"]) == ("Stable", 1), "as it was; the broker has it as Empty"
    assert found["lag"] is None, "what it committed lately is not known"
    assert not [it for it in metrics(agent, "kshadow_group_topic_lag_records") if VICTIM in it]
    stale = found["stale"]
    assert (stale["group"], stale["transactional_ids"]) == (HOLDER, [TRANSACTION])
    assert agent.json(f"/api/v1/groups/{VICTIM}")["stale"] == stale
    assert "stale" not in row(agent, ELSEWHERE)
    for path in (NEW, f"{NEW}/timeline", f"{NEW}/rollouts"):
        code, unknown = agent.get(f"/api/v1/groups/{path}")
        why = f"in partition {HIDDEN} of __consumer_offsets, where it would be, transaction {SHOWN} "
        assert (code, json.loads(unknown)["error"][: len(why) + 24]) == (404, f"no such group is known: {why}")
    assert agent.get(f"/api/v1/groups/{NOWHERE}") == (404, b'{"error":"no such group"}')
    code, ready = agent.get("/readyz")
    assert code == 200
    assert f"in partition {HIDDEN} of __consumer_offsets is as of".encode() in ready
    assert SHOWN.encode() in ready
    assert raw(ready.decode().removesuffix("\n")) == []
    status = agent.json("/api/v1/status")
    assert len(status["worries"]) == 1
    place = status["partitions"][str(HIDDEN)]
    assert place["open_transaction"] == stale
    assert place["clock_ms"] <= stale["since_ms"], "silence says nothing there"
    asked_s = time.time()
    age_s = float(metrics(agent, "kshadow_topic_open_transaction_seconds")[f'{{partition="{HIDDEN}"}}'])
    assert age_s >= 5
    assert asked_s - 2 < stale["since_ms"] / 1000 + age_s < time.time() + 2
    assert metrics(agent, "kshadow_group_stale") == {f'{{group="{VICTIM}"}}': "1.0"}

    page = Reader(agent.get("/groups/victim")[1].decode())
    assert f"What is known of {VICTIM} is as of" in page.text.replace("`", "")
    assert "<b>tx" in page.text
    assert "b>tx" not in {tag for tag, _ in page.tags}
    fleet = Reader(agent.get("/")[1].decode())
    assert re.search(r"Stable\s*as of\s*\d\d:\d\d:\d\d", fleet.text)
    since_ms: int = stale["since_ms"]
    return since_ms


def until_stale(agent: AgentProcess) -> float:
    """Seconds until the API said so, with the transaction's name."""
    began = time.monotonic()
    until(lambda: bool(row(agent, VICTIM).get("stale", {}).get("transactional_ids")), 60, agent.tail)
    return time.monotonic() - began


def test_what_is_said_before_during_and_after(servers: str, tmp_path: Path) -> None:
    members = [joined(servers, VICTIM), joined(servers, ELSEWHERE)]
    source = ("--bootstrap-server", servers)
    kept = AgentProcess(tmp_path, *source, "--state-dir", str(tmp_path / "state"), name="kept")
    fresh = AgentProcess(tmp_path, *source, name="fresh")
    agents = (kept, fresh)
    holder: Producer | None = None
    try:
        for agent in agents:
            agent.start().wait_level()
            assert_current(agent, "Stable", 1)
        holder = opened(servers)
        members[0].close()
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        described = admin.describe_consumer_groups([VICTIM])[VICTIM].result(20)
        assert described.state.name == "EMPTY"
        print([f"told after {until_stale(agent):.1f} s" for agent in agents])
        since = [assert_stale(agent) for agent in agents]

        def has_time_passed_elsewhere() -> bool:
            clock_ms: int = kept.json("/api/v1/status")["partitions"][str(1 - HIDDEN)]["clock_ms"]
            return clock_ms > since[0]

        until(has_time_passed_elsewhere, 60)
        assert_commands_say_so(since[0], *source, commands=("describe",))
        url = f"http://127.0.0.1:{kept.port}"
        assert_commands_say_so(since[0], "--agent", url, commands=("describe", "members", "lag", "timeline"))

        assert kept.stop() == 0
        fresh.kill()
        for agent, before_ms in zip(agents, since, strict=True):
            agent.start()
            until(lambda it=agent: it.get("/readyz")[0] == 200, 60)  # type: ignore[misc]
            print(f"told {until_stale(agent):.1f} s after it was ready again")
            assert abs(assert_stale(agent) - before_ms) <= 2_000, "as old as it is, not as the agent"

        holder.abort_transaction(60)
        holder = None
        for agent in agents:
            until(lambda it=agent: row(it, VICTIM)["state"] == "Empty", 60)  # type: ignore[misc]
            until(lambda it=agent: it.get("/readyz")[1] == b"caught up\n", 60)  # type: ignore[misc]
            assert_current(agent, "Empty", 0)
            log = agent.log.read_text()
            assert raw(log) == []
            begun = [line for line in log.splitlines() if f"transaction {SHOWN}" in line and "hides" in line]
            assert len(begun) == 2, "one for each run of the agent"
            assert f"that commits offsets of `{HOLDER}`" in begun[0]
            assert log.count("has ended after") == 1
        out, errors = said("groups", *source)
        assert "as of" not in out + errors
    finally:
        if holder is not None:
            with suppress(KafkaException):
                holder.abort_transaction(60)
        for agent in agents:
            if agent.is_running:
                agent.stop()
        for member in members[1:]:
            member.close()
