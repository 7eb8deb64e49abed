"""What tests need of Kafka beside the demo's one broker: listeners by SASL_SSL, and clusters of several brokers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from agent.tools.embedded.broker import EmbeddedBroker
from agent.tools.embedded.errors import BrokerFailedError
from agent.tools.embedded.jars import Jars
from agent.tools.embedded.node import Node
from agent.tools.embedded.ports import free_ports
from agent.tools.embedded.settings import REPLICATED, server_properties

CONTROLLER_ID = 1001
"""Of a controller that is no broker: a number that no broker of a small cluster has."""

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_MOVE_TIMEOUT_S = 30.0
_ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class Security:
    """SASL_SSL for clients, and no right that was not granted.

    `keystore` holds the broker's private key (PKCS #8) and its certificates, `truststore` who signs those of
    clients, both PEM. Who comes by the second, plain listener on the loopback address may do everything: the
    brokers, and whoever makes users and grants rights.
    """

    keystore: Path
    truststore: Path
    client_certificates: bool = False
    """Whether clients must show one, besides a user's password."""
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-512",)
    """Of SCRAM-SHA-256 and SCRAM-SHA-512; users are made by the Admin API."""


# Who comes by a plain listener is ANONYMOUS.
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "CLIENT:SASL_SSL,ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def _secured(properties: Mapping[str, str], admin_port: int, security: Security) -> dict[str, str]:
    """A broker's properties with a listener more, for who may do all, and with security on that for clients."""
    listener, admins = "listener.name.client", f"ADMIN://127.0.0.1:{admin_port}"
    return {
        **properties,
        **_AUTHORIZER,
        "listeners": f"{properties['listeners']},{admins}",
        "advertised.listeners": f"{properties['advertised.listeners']},{admins}",
        "inter.broker.listener.name": "ADMIN",
        f"{listener}.sasl.enabled.mechanisms": ",".join(security.mechanisms),
        **{f"{listener}.{mechanism.lower()}.sasl.jaas.config": _SCRAM for mechanism in security.mechanisms},
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(security.keystore),
        f"{listener}.ssl.truststore.type": "PEM",
        f"{listener}.ssl.truststore.location": str(security.truststore),
        f"{listener}.ssl.client.auth": "required" if security.client_certificates else "none",
    }


class SecuredBroker(EmbeddedBroker):
    """Clients come by SASL_SSL, and `admin_servers` is for who may do all."""

    def __init__(self, jars: Jars, security: Security, **more: Any) -> None:
        super().__init__(jars, **more)
        self._security = security

    def _format_on_free_ports(self) -> None:
        self._port, controller_port, admin_port = free_ports(3)
        ours = server_properties(client_port=self._port, controller_port=controller_port)
        self.admin_servers = f"127.0.0.1:{admin_port}"
        self.format({**_secured(ours, admin_port, self._security), **self._properties})


class EmbeddedCluster(EmbeddedBroker):
    """Brokers 1 … `nodes` and a controller, on free loopback ports; a context manager that starts and stops them.

    The controller is no broker, so that every broker may die: its process is the node that this is. Each of `brokers`
    can be stopped, killed, paused, resumed and started again by itself. Internal topics have a replica on each
    broker, and one that is left goes on alone. Other arguments are `EmbeddedBroker`'s; `heap` is each broker's.
    """

    def __init__(self, jars: Jars, *, nodes: int = 2, heap: str = "384m", **more: Any) -> None:
        super().__init__(jars, heap="128m", **more)
        self.brokers: dict[int, Node] = {}
        """By broker id; while started."""
        self._count, self._broker_heap = nodes, heap
        self._ports: dict[int, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: every broker."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """As `Node.log_dirs`, of all brokers."""
        return tuple(path for node in self.brokers.values() for path in node.log_dirs)

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

        The broker becomes first of the partition's replicas if it is not, and the preferred leader is elected. All
        brokers must be there. Raises `BrokerFailedError` if the leader is another after half a minute.
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
            if replicas[partition][0] != broker
        ]
        if plan:
            self._reassign(plan)
        deadline = time.monotonic() + _MOVE_TIMEOUT_S
        while left := {partition for partition, broker in to.items() if self.leaders(topic)[partition] != broker}:
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"{topic}: partitions {sorted(left)} have not changed leaders as told")
            _elect(admin, [TopicPartition(topic, partition) for partition in left])
            time.sleep(0.1)

    def _reassign(self, plan: Sequence[Mapping[str, Any]]) -> None:
        file = self.directory / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": plan}))
        servers = ",".join(str(node.admin_servers) for node in self.brokers.values())
        where = ("--bootstrap-server", servers, "--reassignment-json-file", str(file))
        self.run_tool(_REASSIGN, *where, "--execute")

    def stop(self) -> None:
        """End every process for good."""
        super().stop()
        self.brokers = {}

    def launch(self) -> None:
        """Start every process."""
        super().launch()
        for node in self.brokers.values():
            node.launch()

    def wait(self) -> None:
        """Until every broker answers, and knows of the others."""
        for node in self.brokers.values():
            node.wait()
        deadline = time.monotonic() + self._start_timeout_s
        while len(self._admin().list_topics(timeout=10).brokers) < self._count:
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"not all of {self._count} brokers know of each other")
            time.sleep(0.1)

    def _end(self, how: signal.Signals) -> None:
        for node in self.brokers.values():
            node._end(how)
        super()._end(how)

    def _format_on_free_ports(self) -> None:
        controller_port, *ports = free_ports(1 + self._count)
        self._ports = dict(enumerate(ports, 1))
        quorum = {"controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller_port}"}
        for number in self._ports:
            heap, timeout_s = self._broker_heap, self._start_timeout_s
            node = Node(
                self.jars, self.directory / f"broker-{number}", self._reaper, heap=heap, start_timeout_s=timeout_s
            )
            ours = server_properties(client_port=self._ports[number], controller_port=controller_port)
            ours |= {f"{topic}.replication.factor": str(self._count) for topic in REPLICATED}
            ours |= {"process.roles": "broker", "node.id": str(number), "listeners": ours["advertised.listeners"]}
            node.admin_servers = f"127.0.0.1:{self._ports[number]}"
            node.format({**ours, **quorum, **self._properties})
            self.brokers[number] = node
        self.admin_servers = ",".join(str(node.admin_servers) for node in self.brokers.values())
        # Broker settings are of no account to a controller, and its own checks refuse some of them.
        self.format(
            {
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT",
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "500",
                **quorum,
            }
        )

    def _admin(self) -> AdminClient:
        # Who asks a broker that is paused waits for long.
        there = [str(node.admin_servers) for node in self.brokers.values() if _runs(node)]
        return AdminClient({"bootstrap.servers": ",".join(there), "log_level": 0})

    def _metadata(self, topic: str) -> Any:
        deadline = time.monotonic() + _MOVE_TIMEOUT_S
        while (found := self._admin().list_topics(topic, timeout=10).topics[topic]).error is not None:
            # The broker that answers may not have heard yet of a topic that another one made.
            if time.monotonic() > deadline:
                raise BrokerFailedError(f"{topic}: {found.error.str()}")
            time.sleep(0.1)
        return found


def _runs(node: Node) -> bool:
    """Whether there is a process that is not paused."""
    return node.pid is not None and Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"


def _elect(admin: AdminClient, partitions: list[TopicPartition]) -> None:
    for error in admin.elect_leaders(ElectionType.PREFERRED, partitions).result(10).values():
        # Not needed: it leads. Not available: it is not in sync yet.
        if error is not None and error.code() not in (
            KafkaError.ELECTION_NOT_NEEDED,
            KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        ):
            raise KafkaException(error)


def described(servers: str, group: str) -> Any:
    """A group as its coordinator tells it, once that has loaded."""
    return _once_answered(
        servers, lambda admin: admin.describe_consumer_groups([group], request_timeout=_ASK_S)[group].result()
    )


def committed(servers: str, group: str) -> set[tuple[str, int, int]]:
    """What a group has committed: topic, partition, offset; once its coordinator has loaded."""
    asked = ConsumerGroupTopicPartitions(group)
    answer = _once_answered(
        servers, lambda admin: admin.list_consumer_group_offsets([asked], request_timeout=_ASK_S)[group].result()
    )
    return {(it.topic, it.partition, it.offset) for it in answer.topic_partitions}


def _once_answered(servers: str, ask: Callable[[AdminClient], Any]) -> Any:
    """With a client for each try: what an old one still asks a coordinator ends the process, once it is answered
    (confluentinc/librdkafka#4605)."""
    deadline = time.monotonic() + 60
    while True:
        with AdminClient({"bootstrap.servers": servers, "log_level": 0}) as admin:
            try:
                return ask(admin)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        time.sleep(0.1)
