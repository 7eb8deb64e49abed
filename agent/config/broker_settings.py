"""Kafka's names of the brokers' settings of sessions, and what stands in them: the topic does not have it."""

from __future__ import annotations

from typing import Final, NamedTuple


class SessionNames(NamedTuple):
    """Names of a group's own settings; those of brokers have `group.` before them."""

    timeout: str
    heartbeat: str


SESSION_NAMES: Final = {
    group_type: SessionNames(f"{group_type}.session.timeout.ms", f"{group_type}.heartbeat.interval.ms")
    for group_type in ("consumer", "share", "streams")
}
"""By type of groups whose session timeout the brokers set."""

BROKER_SETTINGS: Final = tuple(f"group.{name}" for names in SESSION_NAMES.values() for name in names)


def milliseconds_of(text: str | None) -> int | None:
    """The value of such a setting; None for what is no positive 32-bit number."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if 0 < value < 1 << 31 else None
