"""Share groups' positions and lag beside Kafka's own Admin client, as `kafka-share-groups.sh --describe` asks it.

`python -m tests.harness.share_lag [MOMENTS [SEED]]` plays random deliveries on Kafka 4.3.1: real share consumers
(Java's `KafkaShareConsumer`) of two groups on three topics accept, reject and release records, or leave them
unacknowledged, and close; producers write on. A moment is quiescent where the brokers give the same answer twice,
half a second apart. At each every position and lag of a running agent is compared with what the brokers answer, once:
nothing is waited for until it is equal. At the end `kshadow lag` is compared. Prints what differs and how much was
compared.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from agent.config.settings import PLAIN_CLUSTER, LagSettings
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.live.scenarios.yardstick import JavaAdmin
from tests.unit.cli.running import kshadow
from tests.waiting import until

TOPICS = {"orders": 3, "payments": 2, "audit": 1}
GROUPS = {"billing": ["orders", "payments"], "search": ["orders", "audit"]}
PROPERTIES = {
    "group.share.record.lock.duration.ms": "15000",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.delivery.count.limit": "3",
}
POLL_MS = 300
QUIET_S = 0.5
"""For so long the brokers' answers must not change, and an agent has time to read what was written before."""

Told = dict[tuple[str, int], tuple[int, int | None]]
"""By topic and partition the start offset and the lag; None where that is not known."""


class ShareConsumers:
    """Java's, one a group, reached through the Admin client's JVM."""

    def __init__(self, java: JavaAdmin, servers: str) -> None:
        self._java, self._servers, self._consumers = java, servers, dict[str, Any]()
        self._held: dict[str, list[Any]] = {}
        self.kinds = java.jvm.org.apache.kafka.clients.consumer.AcknowledgeType

    def read_from_the_start(self, group: str) -> None:
        """Have a group begin at the first record, as by default it begins at the end."""
        kafka = self._java.jvm.org.apache.kafka
        resource = kafka.common.config.ConfigResource(kafka.common.config.ConfigResource.Type.GROUP, group)
        admin = kafka.clients.admin
        entry = admin.ConfigEntry("share.auto.offset.reset", "earliest")
        change = admin.AlterConfigOp(entry, admin.AlterConfigOp.OpType.SET)
        self._java.admin.incrementalAlterConfigs({resource: [change]}).all().get()

    def of(self, group: str) -> Any:
        """The group's consumer, made when there is none."""
        if group not in self._consumers:
            jvm = self._java.jvm
            properties = jvm.java.util.Properties()
            text = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
            for name, value in {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "key.deserializer": text,
                "value.deserializer": text,
            }.items():
                properties.put(name, value)
            consumer = jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(properties)
            consumer.subscribe(GROUPS[group])
            self._consumers[group] = consumer
        return self._consumers[group]

    def deliver(self, group: str, dice: random.Random, done: Counter[str]) -> None:
        """Take what there is and answer for each record by chance; commit that. Sometimes the answer is kept back
        until `answer`."""
        self.answer(group, dice, done)
        consumer = self.of(group)
        records = consumer.poll(self._java.jvm.java.time.Duration.ofMillis(POLL_MS)).iterator()
        while records.hasNext():
            self._held.setdefault(group, []).append(records.next())
        if dice.random() < 0.75:
            self.answer(group, dice, done)
        else:
            done["kept back"] += len(self._held.get(group, ()))

    def answer(self, group: str, dice: random.Random, done: Counter[str]) -> None:
        """Answer for what was taken."""
        if not (held := self._held.pop(group, [])):
            return
        consumer = self.of(group)
        for record in held:
            name = dice.choice(("ACCEPT", "ACCEPT", "RELEASE", "REJECT"))
            consumer.acknowledge(record, getattr(self.kinds, name))
            done[name] += 1
        consumer.commitSync()

    def close(self, group: str) -> None:
        """Leave; what was taken and not answered for is released."""
        self._held.pop(group, None)
        consumer = self._consumers.pop(group, None)
        if consumer is not None:
            consumer.close()

    def close_all(self) -> None:
        for group in list(self._consumers):
            self.close(group)


def asked(java: JavaAdmin, group: str) -> Told:
    """What Kafka's own tool prints: `Admin.listShareGroupOffsets`."""
    spec = java.jvm.org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec()
    found = java.admin.listShareGroupOffsets({group: spec}).partitionsToOffsetInfo(group).get()
    out: Told = {}
    for place, info in found.items():
        if info is not None and info.startOffset() >= 0:
            out[place.topic(), place.partition()] = (info.startOffset(), info.lag().orElse(None))
    return out


def told(agent: Agent, group: str) -> Told:
    """What kshadow's `describe` has."""
    form = agent.queries.describe(group)
    rows = [] if form is None else form["offsets"]
    return {(row["topic"], row["partition"]): (row["offset"], row["lag"]) for row in rows}


def printed(servers: str, group: str) -> Told:
    """What `kshadow lag` prints, which reads the topics once."""
    done = kshadow("lag", group, "--bootstrap-server", servers, "-o", "ndjson")
    assert done.exit_code == 0, done.output
    rows = map(json.loads, done.stdout.splitlines())
    return {(row["topic"], row["partition"]): (row["offset"], row["lag"]) for row in rows}


@dataclass
class Outcome:
    """What was compared."""

    moments: int = 0
    moving: int = 0
    """Moments at which the brokers' answers changed: not compared."""
    positions: int = 0
    lagging: int = 0
    differences: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        answers = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        return (
            f"{self.moments} moments ({self.moving} more not quiescent), {self.positions} positions "
            f"({self.lagging} with a lag), {len(self.differences)} differences; {answers}"
        )


@contextmanager
def running_agent(servers: str) -> Iterator[Agent]:
    settings = replace(PLAIN_CLUSTER, lag=LagSettings(interval_ms=1_000))
    agent = Agent(AgentOptions(conf={"bootstrap.servers": servers}, settings=settings))
    agent.start(30)
    try:
        yield agent
    finally:
        agent.stop()


def settle(agent: Agent, timeout_s: float = 60.0) -> None:
    """Wait until the ends were looked at after now, and a moment for the records of what was done before. As long as
    no position is known nobody looks."""
    since_ms = time.time() * 1000
    time.sleep(0.3)
    if not any(told(agent, group) for group in GROUPS):
        return
    until(lambda: agent.lags.ends().at_ms > since_ms + 300, timeout_s, "the ends are looked at")
    time.sleep(0.3)


def play(moments: int, seed: int) -> Outcome:
    """Play, and compare at as many moments."""
    dice, out = random.Random(seed), Outcome()
    jars = fetch_jars("4.3.1")
    with EmbeddedBroker(jars, properties=PROPERTIES) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})
        for made in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": servers, "log_level": 2})
        java = JavaAdmin(jars, servers)
        consumers = ShareConsumers(java, servers)
        try:
            _produce(dice, producer)
            for group in GROUPS:
                consumers.read_from_the_start(group)
                consumers.deliver(group, dice, out.done)
            with running_agent(servers) as agent:
                while out.moments < moments:
                    _act(dice, producer, consumers, out.done)
                    settle(agent)
                    _compare(agent, java, out)
            consumers.close_all()
            time.sleep(2 * QUIET_S)
            for group in GROUPS:
                _note_differences(f"kshadow lag {group}", asked(java, group), printed(servers, group), out)
        finally:
            java.close()
    return out


def _act(dice: random.Random, producer: Producer, consumers: ShareConsumers, done: Counter[str]) -> None:
    for group in GROUPS:
        consumers.answer(group, dice, done)
    for _ in range(dice.randint(1, 3)):
        action = dice.choice(("produce", "deliver", "deliver", "deliver", "close"))
        group = dice.choice(list(GROUPS))
        done[action] += 1
        if action == "produce":
            _produce(dice, producer)
        elif action == "deliver":
            consumers.deliver(group, dice, done)
        else:
            consumers.close(group)


def _produce(dice: random.Random, producer: Producer) -> None:
    topic = dice.choice(list(TOPICS))
    for _ in range(dice.randint(1, 20)):
        producer.produce(topic, b"x", partition=dice.randrange(TOPICS[topic]))
    producer.flush()


def _compare(agent: Agent, java: JavaAdmin, out: Outcome) -> None:
    listed = java.listing()
    groups = [group for group in GROUPS if group in listed]
    before = {group: asked(java, group) for group in groups}
    time.sleep(QUIET_S)
    seen = {group: told(agent, group) for group in groups}
    if {group: asked(java, group) for group in groups} != before:
        out.moving += 1
        return
    out.moments += 1
    for group in groups:
        theirs, ours = before[group], seen[group]
        out.positions += len(theirs)
        out.lagging += sum(bool(lag) for _, lag in theirs.values())
        _note_differences(f"moment {out.moments}, {group}", theirs, ours, out)


def _note_differences(where: str, theirs: Told, ours: Told, out: Outcome) -> None:
    for place in sorted(theirs.keys() | ours.keys()):
        if theirs.get(place) != ours.get(place):
            out.differences.append(f"{where}, {place}: Kafka {theirs.get(place)}, kshadow {ours.get(place)}")


def main(moments: int = 200, seed: int = 1) -> int:
    out = play(moments, seed)
    for text in out.differences[:20]:
        print(text)
    print(f"seed {seed}: {out}")
    return 1 if out.differences else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
