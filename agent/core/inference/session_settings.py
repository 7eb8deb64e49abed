"""Session timeouts that brokers set, of groups whose records do not hold them: KIP-848 consumer, share and Streams.

The log has a session timeout of classic members alone. The others' is the brokers' configuration, or their group's
own; who can ask the brokers, or was told, is an `EvidenceSource` that knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.config.broker_settings import SESSION_NAMES, milliseconds_of
from agent.core.inference.parameters import PARAMETERS


class SessionSetting(NamedTuple):
    """The session timeout of a group, and how often its members send heartbeats: milliseconds; Kafka's defaults."""

    timeout_ms: int = PARAMETERS.kip848_session_timeout_ms
    heartbeat_ms: int = PARAMETERS.kip848_heartbeat_interval_ms


SessionSettings = Mapping[str, SessionSetting]
"""By group type, as far as it is known."""


def session_settings(values: Mapping[str, str | None], prefix: str = "group.") -> SessionSettings:
    """What a configuration, by Kafka's names, says of sessions. `prefix`: what those names begin with. Values that
    are no positive numbers say nothing: they come from whoever answers for a broker."""
    found: dict[str, SessionSetting] = {}
    for group_type, names in SESSION_NAMES.items():
        timeout, heartbeat = (milliseconds_of(values.get(prefix + name)) for name in names)
        if timeout or heartbeat:
            usual = SessionSetting()
            timeout = timeout or usual.timeout_ms
            found[group_type] = SessionSetting(timeout, min(heartbeat or usual.heartbeat_ms, timeout))
    return found


def untold_types(told: SessionSettings) -> list[str]:
    """The group types whose session timeout the brokers set, and nobody told."""
    return [it for it in SESSION_NAMES if it not in told]


def agreed_settings(several: Iterable[SessionSettings]) -> SessionSettings:
    """What all of several brokers say: where they differ, nobody knows which of them coordinates a group."""
    first, *others = [*several] or [{}]
    return {name: it for name, it in first.items() if all(other.get(name) == it for other in others)}
