"""The settings of an embedded broker, as tables: server.properties and its logging.

Owns what a broker for tests and demonstrations needs to differ in from Kafka's defaults, and
why. Knows nothing of processes or files.
"""

from __future__ import annotations

from collections.abc import Mapping

NODE_ID = 1
LOOPBACK = "127.0.0.1"

# Internal topics otherwise wait for three brokers for ever.
REPLICATED = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
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

# Records of tests and demonstrations may say that they are from long ago, and are not deleted for it.
_KEPT = {"log.retention.ms": "-1"}

# Fifty partitions on a laptop: the cleaner alone would take 128 MiB, the thread pools two dozen threads. A quarter of
# what a broker does that nobody uses is to write twice a second that nothing has changed.
_SMALL = {
    "metadata.max.idle.interval.ms": "5000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


def server_properties(*, client_port: int, controller_port: int, host: str = LOOPBACK) -> dict[str, str]:
    """A broker at an address of this machine that is its own controller.

    Every group type is on by itself in the versions that have it: formatting with 4.2 or newer sets the features
    `group.version`, `share.version` and `streams.version`, and those decide. 3.9 has classic groups.
    """
    clients, controllers = f"CLIENT://{host}:{client_port}", f"CONTROLLER://127.0.0.1:{controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "listeners": f"{clients},{controllers}",
        "advertised.listeners": clients,
        "inter.broker.listener.name": "CLIENT",
        # A static quorum: the one form that 3.9 and 4.x both format without further arguments.
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **{f"{topic}.replication.factor": "1" for topic in REPLICATED},
        **_LEAST_IN_SYNC,
        **_SHORT_TIMEOUTS,
        **_SHORT_BROKER_SESSION,
        **_KEPT,
        **_SMALL,
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
