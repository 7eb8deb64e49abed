"""Random settings of a group: assignor, timeouts, and how its members commit.

Owns the ranges. What a group got is in the ledger's `scenario` entry.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

TOPICS = {
    # name: (partitions, seconds between two records of a partition)
    "busy-six": (6, 0.4),
    "busy-four": (4, 0.5),
    "wide": (12, 1.0),
    "lone-a": (1, 0.4),
    "lone-b": (1, 0.4),
    "trickle": (6, 5.0),
    "streams-plaintext-input": (3, 0.5),
}
QUIET = {"quiet": 6}
"""Topics nobody writes to: librdkafka commits nothing that did not change, so members leave no trace."""

_READ = (("busy-six",), ("busy-four",), ("wide",), ("trickle",), ("quiet",), ("busy-six", "trickle"))
EAGER = ("range", "roundrobin", "range,roundrobin")
COOPERATIVE = "cooperative-sticky"
LIBRDKAFKA = "librdkafka"

BROKER_CONFIG = {
    "offsets.topic.num.partitions": "8",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    **{
        f"group.{kind}.{name}": value
        for kind in ("share", "streams")
        for name, value in (("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "1500"))
    },
}
"""Of the rig's brokers, in place of defaults."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What all members of a group have in common. Times in milliseconds unless they say otherwise."""

    topics: tuple[str, ...]
    assignor: str
    session_ms: int
    heartbeat_ms: int
    poll_ms: int
    commit: str  # auto, every, never
    commit_s: float
    on_revoke: bool
    on_close: bool
    work_s: float
    protocol: str = "classic"
    library: str = LIBRDKAFKA

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they do not lose."""
        return self.assignor == COOPERATIVE

    def with_(self, **changes: Any) -> GroupSettings:
        """A copy with other values."""
        return replace(self, **changes)

    def conf(self) -> dict[str, Any]:
        """For librdkafka."""
        conf: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 2000,
            "max.poll.interval.ms": self.poll_ms,
            "enable.auto.commit": self.commit == "auto",
        }
        if self.commit == "auto":
            conf["auto.commit.interval.ms"] = round(self.commit_s * 1000)
        if self.protocol == "consumer":
            return {**conf, "group.protocol": "consumer"}
        return {
            **conf,
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": self.heartbeat_ms,
            "partition.assignment.strategy": self.assignor,
        }

    def commit_plan(self) -> dict[str, Any]:
        """For `client.py`."""
        seconds = self.commit_s if self.commit == "every" else None
        return {"mode": self.commit, "seconds": seconds, "on_revoke": self.on_revoke, "on_close": self.on_close}

    def form(self) -> dict[str, Any]:
        """For the ledger."""
        return {**asdict(self), "cooperative": self.cooperative}


def draw_of(library: str, assignors: Sequence[str], dice: random.Random) -> dict[str, Any]:
    """What is fixed where members are of another library: they commit by themselves, and read what is written to."""
    topics = dice.choice([topics for topics in _READ if topics[0] not in QUIET])
    return {"library": library, "assignor": dice.choice(assignors), "commit": "auto", "topics": topics}


def draw(dice: random.Random, **fixed: Any) -> GroupSettings:
    """Random settings; `fixed` are not random."""
    commit = fixed.get("commit") or dice.choices(("auto", "every", "never"), (60, 28, 12))[0]
    # librdkafka refuses a `max.poll.interval.ms` below the session timeout.
    session_ms = fixed.get("session_ms") or dice.randrange(6000, min(12_000, fixed.get("poll_ms", 12_000)) + 1, 500)
    settings = GroupSettings(
        topics=dice.choices(_READ, (30, 20, 15, 15, 8, 12))[0],
        assignor=dice.choice((*EAGER, COOPERATIVE)),
        session_ms=session_ms,
        heartbeat_ms=dice.randrange(1000, 3001, 250),
        poll_ms=dice.randrange(max(8000, session_ms), 20_001, 500),
        commit=commit,
        commit_s=dice.choice((0.5, 1.0, 2.0, 3.0, 5.0) if commit == "auto" else (1, 3, 8, 20, 45, 120)),
        on_revoke=commit == "every" and dice.random() < 0.4,
        on_close=commit == "every" and dice.random() < 0.5,
        work_s=dice.choice((0, 0, 0, 0, 0.05, 0.4)),
    )
    return settings.with_(**fixed)
