"""The settings of an embedded broker, as tables: server.properties and its logging.

Owns what a broker for tests and demonstrations needs to differ in from Kafka's defaults, and
why. Knows nothing of processes or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NODE_ID = 1
CONTROLLER_ID = 1001
"""Of a controller that is no broker: a number that no broker of a small cluster has."""


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


# Internal topics otherwise wait for three brokers for ever.
_REPLICAS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_LEAST_IN_SYNC = {"transaction.state.log.min.isr": "1", "share.coordinator.state.topic.min.isr": "1"}

# Groups that form at once and lose members within seconds. Classic members bring their own timeouts,
# within these bounds; for the others (KIP-848, 932, 1071) the broker decides, and these are its decisions.
_SHORT_TIMEOUTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in {
            "min.session.timeout.ms": "1000",
            "session.timeout.ms": "6000",
            "min.heartbeat.interval.ms": "250",
            "heartbeat.interval.ms": "1500",
        }.items()
    },
}

# After a kill the controller lets the same broker register anew only when its old session has run out.
_SHORT_BROKER_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}

# Fifty partitions on a laptop: the cleaner alone would take 128 MiB, the thread pools two dozen threads.
_SMALL = {
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


def server_properties(
    *,
    client_port: int,
    controller_port: int,
    overrides: Mapping[str, str],
    admin_port: int = 0,
    security: Security | None = None,
    node_id: int = NODE_ID,
    controller_id: int = NODE_ID,
    replicas: int = 1,
) -> dict[str, str]:
    """A broker on the loopback address, its own controller where `controller_id` is its id; `overrides` win.

    `admin_port` is for who may do all, where there is `security`. Every group type is on by itself in the versions
    that have it: formatting with 4.2 or newer sets the features `group.version`, `share.version` and
    `streams.version`, and those decide. 3.9 has classic groups.
    """
    clients = f"CLIENT://127.0.0.1:{client_port}"
    if security is not None:
        clients += f",ADMIN://127.0.0.1:{admin_port}"
    combined = node_id == controller_id
    return {
        "process.roles": "broker,controller" if combined else "broker",
        "node.id": str(node_id),
        "listeners": clients + (f",CONTROLLER://127.0.0.1:{controller_port}" if combined else ""),
        "advertised.listeners": clients,
        "inter.broker.listener.name": "CLIENT" if security is None else "ADMIN",
        **_of_all_nodes(controller_id, controller_port, security),
        **{f"{topic}.replication.factor": str(replicas) for topic in _REPLICAS},
        **_LEAST_IN_SYNC,
        **_SHORT_TIMEOUTS,
        **_SMALL,
        **(_client_security(security) if security is not None else {}),
        **overrides,
    }


def controller_properties(
    *, controller_port: int, overrides: Mapping[str, str], security: Security | None = None
) -> dict[str, str]:
    """A controller that is no broker, so that each broker can die and the cluster lives on; `overrides` win."""
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
        **_of_all_nodes(CONTROLLER_ID, controller_port, security),
        **overrides,
    }


def _of_all_nodes(controller_id: int, controller_port: int, security: Security | None) -> dict[str, str]:
    """What brokers and controller must agree in."""
    clients = "PLAINTEXT" if security is None else "SASL_SSL"
    return {
        # A static quorum: the one form that 3.9 and 4.x both format without further arguments.
        "controller.quorum.voters": f"{controller_id}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CLIENT:{clients},ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **_SHORT_BROKER_SESSION,
        **(_AUTHORIZER if security is not None else {}),
    }


# Who comes by a plain listener is ANONYMOUS.
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:ANONYMOUS",
}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def _client_security(security: Security) -> dict[str, str]:
    listener = "listener.name.client"
    return {
        f"{listener}.sasl.enabled.mechanisms": ",".join(security.mechanisms),
        **{f"{listener}.{mechanism.lower()}.sasl.jaas.config": _SCRAM for mechanism in security.mechanisms},
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(security.keystore),
        f"{listener}.ssl.truststore.type": "PEM",
        f"{listener}.ssl.truststore.location": str(security.truststore),
        f"{listener}.ssl.client.auth": "required" if security.client_certificates else "none",
    }


def render_properties(properties: Mapping[str, str]) -> str:
    """Java's properties form. A backslash would begin an escape there, a line end a new key."""
    escaped = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in properties.items()}
    return "".join(f"{name}={value}\n" for name, value in escaped.items())


# Everything to standard output, which is the log file: one file holds the coordinator's lines and a dying
# JVM's last words. Kafka 4 logs through log4j 2, 3.9 through reload4j.
_LOG4J2 = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
"""

_RELOAD4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def logging_configuration(major: int) -> tuple[str, str]:
    """For a Kafka major version: the system property that names the file, and the file's text."""
    if major >= 4:
        return "log4j2.configurationFile", _LOG4J2
    return "log4j.configuration", _RELOAD4J
