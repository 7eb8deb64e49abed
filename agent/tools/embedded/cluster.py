"""A cluster of several brokers and one controller, each a process: brokers go and come, partitions change leaders.

Owns ports, directories, and where partitions are. The controller is no broker, so that every broker may die.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from agent.tools.embedded.errors import BrokerFailedError
from agent.tools.embedded.jars import Jars
from agent.tools.embedded.lifetime import EmbeddedKafka
from agent.tools.embedded.node import Node
from agent.tools.embedded.ports import free_ports
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import CONTROLLER_ID, Security, controller_properties, server_properties

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_MOVE_TIMEOUT_S = 30.0


class EmbeddedCluster(EmbeddedKafka):
    """Brokers 1 … `nodes` and a controller, on free loopback ports; a context manager that starts and stops them.

    Each of `brokers` can be stopped, killed, paused, resumed and started again by itself. Internal topics have a
    replica on each broker, and one that is left goes on alone. Arguments are `EmbeddedBroker`'s; `heap` is each
    broker's.
    """

    kind = "cluster"

    def __init__(
        self,
        jars: Jars,
        *,
        nodes: int = 2,
        directory: Path | None = None,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        heap: str = "384m",
        start_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            jars,
            directory=directory,
            properties=properties,
            security=security,
            heap=heap,
            start_timeout_s=start_timeout_s,
        )
        self.brokers: dict[int, Node] = {}
        """By broker id; while started."""
        self._count = nodes
        self._controller: Node | None = None
        self._ports: dict[int, int] = {}
        self._admin_ports: dict[int, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: every broker."""
        return ",".join(self.address(broker) for broker in self._ports)

    @property
    def admin_servers(self) -> str:
        """Where there is neither TLS nor a user, and every right; without `security` the same as for clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self._admin_ports.values())

    def address(self, broker: int) -> str:
        """Where clients find one broker; the same after it was started again."""
        return f"127.0.0.1:{self._ports[broker]}"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """As `EmbeddedBroker.log_dirs`, of all brokers."""
        return tuple(path for node in self.brokers.values() for path in node.log_dirs)

    @property
    def controller(self) -> Node:
        """The controller's process; nothing changes in the cluster while it is away."""
        assert self._controller is not None, "the cluster was not started"
        return self._controller

    def leaders(self, topic: str) -> dict[int, int]:
        """For each partition of the topic the broker that leads it, -1 if none does."""
        return {number: partition.leader for number, partition in self._metadata(topic).partitions.items()}

    def await_in_sync(self, timeout_s: float = 30.0) -> None:
        """Until every replica of every partition is in sync: then the cluster can lose a broker. One that was just
        started takes a moment. Raises `BrokerFailedError`."""
        deadline = time.monotonic() + timeout_s
        while lacking := [
            f"{name}-{number}"
            for name, topic in self._admin().list_topics(timeout=10).topics.items()
            for number, partition in topic.partitions.items()
            if len(partition.isrs) < len(partition.replicas)
        ]:
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"not in sync after {timeout_s:g} seconds: {', '.join(lacking[:10])}")
            time.sleep(0.1)

    def move_leaders(self, topic: str, to: Mapping[int, int]) -> None:
        """Let `to[partition]` lead each of these partitions, and wait until it does.

        The broker becomes first of the partition's replicas, and the preferred leader is elected. All brokers must
        be there. Raises `BrokerFailedError` if the leader is another after half a minute.
        """
        admin = self._admin()
        replicas = {number: it.replicas for number, it in self._metadata(topic).partitions.items()}
        plan = [
            {
                "topic": topic,
                "partition": partition,
                "replicas": [broker, *(other for other in replicas[partition] if other != broker)],
            }
            for partition, broker in to.items()
        ]
        file = self.directory / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": plan}))
        where = ("--bootstrap-server", self.admin_servers, "--reassignment-json-file", str(file))
        self.run_tool(_REASSIGN, *where, "--execute")
        deadline = time.monotonic() + _MOVE_TIMEOUT_S
        while left := {partition for partition, broker in to.items() if self.leaders(topic)[partition] != broker}:
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"{topic}: partitions {sorted(left)} have not changed leaders as told")
            _elect(admin, [TopicPartition(topic, partition) for partition in left])
            time.sleep(0.1)

    def _make(self, leash: ProcessReaper) -> None:
        self._controller = self._node("controller", leash, "128m")
        self.brokers = {
            number: self._node(f"broker-{number}", leash, self._heap) for number in range(1, self._count + 1)
        }

    def _node(self, name: str, leash: ProcessReaper, heap: str) -> Node:
        directory = self.directory / name
        return Node(self.jars, directory, leash, heap=heap, start_timeout_s=self._start_timeout_s)

    def _format(self) -> None:
        controller_port, *ports = free_ports(1 + 2 * self._count)
        self._ports = dict(zip(self.brokers, ports, strict=False))
        self._admin_ports = self._ports
        if self._security is not None:
            self._admin_ports = dict(zip(self.brokers, ports[self._count :], strict=True))
        # Broker settings are of no account to a controller, and its own checks refuse some of them.
        properties = controller_properties(controller_port=controller_port, overrides={}, security=self._security)
        self.controller.format(properties, answers_at=None)
        for number, node in self.brokers.items():
            properties = server_properties(
                client_port=self._ports[number],
                admin_port=self._admin_ports[number],
                controller_port=controller_port,
                controller_id=CONTROLLER_ID,
                node_id=number,
                replicas=self._count,
                security=self._security,
                overrides=self._properties,
            )
            node.format(properties, answers_at=f"127.0.0.1:{self._admin_ports[number]}")

    def _run(self) -> None:
        self.controller.launch()
        for node in self.brokers.values():
            node.launch()
        for node in self.brokers.values():
            node.wait()
        deadline = time.monotonic() + self._start_timeout_s
        while len(self._admin().list_topics(timeout=10).brokers) < self._count:
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"not all of {self._count} brokers know of each other")
            time.sleep(0.1)

    def _end(self) -> None:
        for node in self.brokers.values():
            node.stop()
        if self._controller:
            self._controller.stop()

    def _drop(self) -> None:
        self.brokers, self._controller = {}, None

    def _admin(self) -> AdminClient:
        # Who asks a broker that is paused waits for long.
        there = [f"127.0.0.1:{self._admin_ports[number]}" for number, node in self.brokers.items() if node.answers]
        return AdminClient({"bootstrap.servers": ",".join(there), "log_level": 0})

    def _metadata(self, topic: str) -> Any:
        found = self._admin().list_topics(topic, timeout=10).topics[topic]
        if found.error is not None:
            raise BrokerFailedError(f"{topic}: {found.error.str()}")
        return found


def _elect(admin: AdminClient, partitions: list[TopicPartition]) -> None:
    for error in admin.elect_leaders(ElectionType.PREFERRED, partitions).result(10).values():
        # Not needed: it leads. Not available: it is not in sync yet.
        if error is not None and error.code() not in (
            KafkaError.ELECTION_NOT_NEEDED,
            KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        ):
            raise KafkaException(error)
