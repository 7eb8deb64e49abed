"""What is to be generated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from agent.core.protocol.assignors import ASSIGNORS
from agent.core.protocol.hashing import OFFSETS_PARTITIONS, GroupPartitioner
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from agent.simulation.groups.script import BrokerSettings

ASSIGNOR_WEIGHTS: Mapping[str, float] = {
    "range,cooperative-sticky": 30,
    "range": 20,
    "roundrobin": 10,
    "sticky": 10,
    "cooperative-sticky": 30,
}
"""How groups assign (`partition.assignment.strategy`), and how many of them do."""


LEAST_DURATION_MS = 60_000
_BROKER = BrokerSettings()


class IntegerRange(NamedTuple):
    """A whole number, both bounds among them; small ones are more frequent unless both bounds are the same."""

    least: int
    most: int


class GeneratorSettings(Struct, frozen=True):
    """A cluster's history. The same settings give the same bytes.

    `start_ms` is epoch milliseconds. `mix` and `assignors` are weights by name. `session_timeout_ms`: all clients'
    `session.timeout.ms` where it is given, the usual ones otherwise. `commit_interval_ms` is the usual
    `auto.commit.interval.ms`; some groups have one of their own. What cannot be is a `ValueError`.
    """

    start_ms: int
    groups: int = 50
    duration_ms: int = 3_600_000
    members: IntegerRange = IntegerRange(1, 32)
    topics: int = 50
    partitions: IntegerRange = IntegerRange(1, 32)
    commit_interval_ms: int = 5_000
    session_timeout_ms: int | None = None
    mix: Mapping[str, float] = field(
        default_factory=lambda: {name: fate.weight for name, fate in SCENARIO_KINDS.items()}
    )
    assignors: Mapping[str, float] = field(default_factory=lambda: ASSIGNOR_WEIGHTS)
    offsets_partitions: int = OFFSETS_PARTITIONS
    group_partitioner: GroupPartitioner = GroupPartitioner.KAFKA
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = (self.groups, self.topics, self.commit_interval_ms, self.offsets_partitions)
        _expect(min(numbers) >= 1, "numbers of 1 and more", numbers)
        _expect(self.start_ms >= 0, "a start of 0 or later", self.start_ms)
        _expect(self.duration_ms >= LEAST_DURATION_MS, "a duration of 1 minute or more", f"{self.duration_ms} ms")
        for bounds in (self.members, self.partitions):
            _expect(1 <= bounds.least <= bounds.most, "bounds from 1 on, the lower one first", tuple(bounds))
        timeout_ms = self.session_timeout_ms
        least_ms, most_ms = _BROKER.min_session_timeout_ms, _BROKER.max_session_timeout_ms
        _expect(
            timeout_ms is None or least_ms <= timeout_ms <= most_ms,
            f"a session timeout that brokers accept by default, {least_ms} to {most_ms} ms",
            timeout_ms,
        )
        _expect_weights("fates", self.mix, SCENARIO_KINDS)
        names = {name: weight for names, weight in self.assignors.items() for name in names.split(",")}
        _expect_weights("assignors", names, ASSIGNORS)

    @property
    def until_ms(self) -> int:
        """The end of the history: no record is later."""
        return self.start_ms + self.duration_ms


def _expect(holds: bool, expected: str, came: object) -> None:
    if not holds:
        raise ValueError(f"expected {expected}, got {came}")


def _expect_weights(what: str, weights: Mapping[str, float], known: Collection[str]) -> None:
    unknown = sorted(set(weights) - set(known))
    _expect(not unknown, f"{what} out of {', '.join(known)}", ", ".join(unknown))
    fine = all(0 <= weight < float("inf") for weight in weights.values())
    _expect(fine and sum(weights.values()) > 0, f"weights of {what} from 0 on, not all 0", list(weights.values()))
