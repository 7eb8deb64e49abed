"""The scene: a crash loop, a lone crash, a clean deploy, a lopsided assignment, a scale-down and a KIP-848 group."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.demo import script
from agent.tools.demo.script import SCENARIOS, Scenario

NAMES = ("crash", "leave", "rolling-deploy", "lopsided", "kip-848")
"""Of the demo's scenarios; its crash loop is played longer, and its stall where asked."""
IDLE_TOPIC = "idle"


def scenarios(loops: int, *, stall: bool) -> tuple[Scenario, ...]:
    """What is played, with so many crashes in the loop."""
    known = {it.name: it for it in SCENARIOS}
    loop = known["crash-loop"]
    start = script._settled_group("checkout", 2)
    crashes = tuple(step for _ in range(loops) for step in script._crash("checkout-2", of=2))
    names = (*NAMES, "stall") if stall else NAMES
    played = Scenario(loop.name, loop.group, loop.story, loop.topics, (*start, *crashes), loop.settings)
    return (played, *(known[name] for name in names))


class Bystanders:
    """So many groups that stand there: one of twenty with a member that reads, the others with committed offsets."""

    def __init__(self, bootstrap_servers: str, count: int) -> None:
        self._conf = {"bootstrap.servers": bootstrap_servers}
        self._count = count
        self._consumers: list[Consumer] = []
        self._producer: Producer | None = None

    def start(self) -> None:
        """Make them."""
        if not self._count:
            return
        admin = AdminClient({**self._conf, "log_level": 0})
        admin.create_topics([NewTopic(IDLE_TOPIC, 4, 1)])[IDLE_TOPIC].result(30)
        for name in self._names(lambda number: number % 20 != 0):
            self._commit(name)
        self._producer = Producer(self._conf)
        for name in self._names(lambda number: number % 20 == 0):
            settings = {**self._conf, "group.id": name, "client.id": name, "auto.commit.interval.ms": 1000}
            self._consumers.append(Consumer({**settings, "auto.offset.reset": "earliest"}))
            self._consumers[-1].subscribe([IDLE_TOPIC])

    def _commit(self, group: str) -> None:
        """As a consumer does that nobody subscribed; a coordinator that is new refuses for a while."""
        consumer = Consumer({**self._conf, "group.id": group, "log_level": 0})
        deadline = time.monotonic() + 60
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(IDLE_TOPIC, it, 0) for it in range(4)], asynchronous=False)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        consumer.close()

    def _names(self, wanted: object) -> Iterator[str]:
        assert callable(wanted)
        return (f"bystander-{number}" for number in range(self._count) if wanted(number))

    def work(self) -> None:
        """Let those with members read a little."""
        if self._producer is None:
            return
        for partition in range(4):
            self._producer.produce(IDLE_TOPIC, b"x", partition=partition)
        self._producer.poll(0)
        for it in self._consumers:
            it.poll(0)

    def close(self) -> None:
        """End their members."""
        for it in self._consumers:
            it.close()
