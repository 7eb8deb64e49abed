"""Settings as one writes them into a configuration, from the changes that were tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLIENTS = "in every client's configuration"
BROKERS = "in every broker's configuration, for all groups"

ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""By name, as Java's consumer wants them; librdkafka takes the name."""

NOTES = {
    "static": "Each instance has a name of its own, which stays the same through every restart.",
    "assignor": "With librdkafka the value is the assignor's short name; from an eager one the way leads over two "
    "rolling restarts, with both in the list between.",
    "protocol": "It takes brokers from 4.0 on, and goes without session.timeout.ms, heartbeat.interval.ms and "
    "partition.assignment.strategy in the client.",
}
"""What must be known to write it, by change."""


def lines(values: Mapping[str, Any], instance: str, heartbeat_ms: int) -> tuple[str, ...]:
    """`session.timeout.ms=45000` and the like. `instance` is one client's name, as an example."""
    out = []
    for name, value in values.items():
        match name:
            case "static":
                out.append(f"group.instance.id={instance}")
            case "session-timeout":
                out.append(f"session.timeout.ms={value}")
                if heartbeat_ms > value // 3:
                    out.append(f"heartbeat.interval.ms={value // 3}")
            case "heartbeat-interval":
                out.append(f"heartbeat.interval.ms={value}")
            case "poll-timeout":
                out.append(f"max.poll.interval.ms={value}")
            case "assignor":
                out.append(f"partition.assignment.strategy={ASSIGNORS[value]}")
            case "initial-delay":
                out.append(f"group.initial.rebalance.delay.ms={value}")
            case _:
                assert name == "protocol", "there is no other change"
                out.append(f"group.protocol={value}")
    return tuple(out)


def where(values: Mapping[str, Any]) -> str:
    """Whose configuration they belong in. The standard set never changes clients and brokers together."""
    return BROKERS if "initial-delay" in values else CLIENTS


def notes(values: Mapping[str, Any]) -> list[str]:
    """What must be known to write them."""
    return [text for name, text in NOTES.items() if name in values]
