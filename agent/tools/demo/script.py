"""The script of `kshadow demo`: which groups there are, and what is done to them.

Owns the table of scenarios, as data. Knows nothing of processes or of Kafka's client; `scenarios` plays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

MAX_POLL_INTERVAL_S = 10

# Production defaults are 45 s, 3 s, 5 min and 5 s: the same story, told faster. Commits are frequent, because
# how long a departed member's last commit lies back is what tells a crash from a stall. The poll interval
# lies well apart from the session timeout for the same reason.
CONSUMER_SETTINGS: Mapping[str, str] = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": "500",
    "max.poll.interval.ms": str(MAX_POLL_INTERVAL_S * 1000),
}
CLASSIC: Mapping[str, str] = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
    "partition.assignment.strategy": "range",
}
# With KIP-848 the broker sets session timeout, heartbeat interval and assignor; setting them is an error.
KIP_848: Mapping[str, str] = {"group.protocol": "consumer"}


class Act(StrEnum):
    """What one step does."""

    START = "start"  # start members
    SETTLE = "settle"  # wait until so many members hold all partitions and the group is stable
    RUN = "run"  # let time pass
    KILL = "kill"  # SIGKILL: no goodbye
    LEAVE = "leave"  # SIGTERM: the client closes its consumer, which leaves the group
    STALL = "stall"  # the client processes one record for so many seconds and does not poll meanwhile


class Step(Struct, frozen=True):
    """One act. `members` are client ids; `seconds` is for RUN and STALL, `count` for SETTLE."""

    act: Act
    members: tuple[str, ...] = ()
    seconds: float = 0.0
    count: int = 0


class Scenario(Struct, frozen=True):
    """One group and its story.

    `settings` are librdkafka's, on top of `CONSUMER_SETTINGS`; those of a classic group unless told.
    """

    name: str
    group: str
    story: str
    topics: Mapping[str, int]
    steps: tuple[Step, ...]
    settings: Mapping[str, str] = field(default_factory=lambda: CLASSIC)

    @property
    def partitions(self) -> int:
        """How many partitions all its topics have together."""
        return sum(self.topics.values())


def _names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(1, count + 1))


def _start(*members: str) -> Step:
    return Step(Act.START, members)


def _settle(count: int) -> Step:
    return Step(Act.SETTLE, count=count)


def _run(seconds: float) -> Step:
    return Step(Act.RUN, seconds=seconds)


def _kill(member: str) -> Step:
    return Step(Act.KILL, (member,))


def _leave(member: str) -> Step:
    return Step(Act.LEAVE, (member,))


def _stall(member: str, seconds: float) -> Step:
    return Step(Act.STALL, (member,), seconds)


def _settled_group(prefix: str, count: int) -> tuple[Step, ...]:
    return (_start(*_names(prefix, count)), _settle(count))


def _restart(member: str, of: int) -> tuple[Step, ...]:
    return (_leave(member), _settle(of - 1), _start(member), _settle(of), _run(0.5))


def _crash(member: str, of: int) -> tuple[Step, ...]:
    return (_run(2), _kill(member), _settle(of - 1), _start(member), _settle(of))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="crash",
        group="payments-crash",
        story="One of three consumers is killed with kill -9; a replacement starts once the group has noticed.",
        topics={"payments": 6},
        steps=(
            *_settled_group("payments", 3),
            _run(5),
            _kill("payments-2"),
            _settle(2),
            _run(4),
            _start("payments-4"),
            _settle(3),
        ),
    ),
    Scenario(
        name="crash-loop",
        group="checkout-crash-loop",
        story="One of two consumers is killed again and again, and each time started anew: a crash loop.",
        topics={"checkouts": 4},
        steps=(
            *_settled_group("checkout", 2),
            *(step for _ in range(3) for step in _crash("checkout-2", of=2)),
        ),
    ),
    Scenario(
        name="leave",
        group="orders-scale-down",
        story="One of three consumers is shut down properly: it commits, says goodbye and goes.",
        topics={"orders": 6},
        steps=(*_settled_group("orders", 3), _run(8), _leave("orders-3"), _settle(2)),
    ),
    Scenario(
        name="stall",
        group="invoices-slow-batch",
        story="One of two consumers works on a single record for longer than max.poll.interval.ms. Twice.",
        topics={"invoices": 4},
        steps=(
            *_settled_group("invoices", 2),
            _run(4),
            _stall("invoices-1", MAX_POLL_INTERVAL_S + 3),
            _settle(1),
            _settle(2),
            _run(4),
            _stall("invoices-1", MAX_POLL_INTERVAL_S + 3),
            _settle(1),
            _settle(2),
        ),
    ),
    Scenario(
        name="rolling-deploy",
        group="shipping-rolling-deploy",
        story="A new version goes out: four consumers are restarted one after the other, two rebalances each.",
        topics={"shipments": 8},
        steps=(
            *_settled_group("shipping", 4),
            # A group whose members leave within ten seconds has just begun: then `kshadow verdict` sees no rollout.
            _run(12),
            *(step for member in _names("shipping", 4) for step in _restart(member, of=4)),
        ),
    ),
    Scenario(
        name="lopsided",
        group="search-lopsided",
        story="Three consumers read six topics of one partition each: range gives all of them to the first.",
        topics={f"search-index-{letter}": 1 for letter in "abcdef"},
        steps=(*_settled_group("search", 3), _run(20)),
    ),
    Scenario(
        name="kip-848",
        group="telemetry-kip848",
        story="A group of the new protocol (KIP-848) grows from two members to four and shrinks to three.",
        topics={"telemetry": 8},
        settings=KIP_848,
        steps=(
            *_settled_group("telemetry", 2),
            _run(5),
            _start("telemetry-3", "telemetry-4"),
            _settle(4),
            _run(6),
            _leave("telemetry-1"),
            _settle(3),
        ),
    ),
)
