"""The sums behind `agent.shadow.order`: over every order in which some members may have gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from agent.shadow.inference import Cause
from agent.shadow.ways import USUAL

ALIKE = 0.8
"""How often all that go in one rebalance go in the same way: an application is stopped, a host dies."""


@dataclass(slots=True)
class Cell:
    """A stretch of time in which the rebalance may have begun."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """What it is weighed at."""
        return (self.low + self.high) / 2


@dataclass(slots=True)
class Reading:
    """Probabilities: of each way, for each that went, in the order of `Scene.ways`; and of what came first."""

    how: list[dict[Cause, float]]
    joined: float = 0.0
    followed: float = 0.0
    asked: float = 0.0
    went: dict[Cause, float] = field(default_factory=dict)
    weight: float = 0.0
    began: list[tuple[float, Cell]] = field(default_factory=list)


class Row(NamedTuple):
    """One way in which one member may have gone: the density of just then (it began the rebalance), how probable it
    is from then to the end, and the density of the end (it was waited for)."""

    cause: Cause
    then: float
    within: float
    last: float


class Sums(NamedTuple):
    """Sums over who of some members began the rebalance, and for whom it waited: nobody and nobody, someone and
    nobody, nobody and someone, two of them."""

    none: float
    first: float
    last: float
    both: float

    def times(self, other: Sums) -> Sums:
        """The same over these members and others."""
        return Sums(
            self.none * other.none,
            self.first * other.none + self.none * other.first,
            self.last * other.none + self.none * other.last,
            self.both * other.none + self.first * other.last + self.last * other.first + self.none * other.both,
        )


def add_alike(rows: list[list[Row]], weights: Sums, reading: Reading) -> float:
    """Add every order in which each went in its own way, and in which all went in the same."""
    if len(rows) < 2:
        return add(rows, weights, reading)
    total = add(rows, Sums(*(weight * (1 - ALIKE) for weight in weights)), reading)
    for cause, usual in USUAL.items():
        same = [[row for row in of_one if row.cause is cause] for of_one in rows]
        by = ALIKE * usual ** (1 - len(rows))
        total += add(same, Sums(*(weight * by for weight in weights)), reading)
    return total


def add(rows: list[list[Row]], weights: Sums, reading: Reading) -> float:
    """Add every order of the departures, each weighed by who was first and last in it; the sum of all."""
    nobody = Sums(1.0, 0.0, 0.0, 0.0)
    each = [
        Sums(sum(row.within for row in of_one), sum(row.then for row in of_one), sum(row.last for row in of_one), 0.0)
        for of_one in rows
    ]
    after = [nobody]
    for sums in reversed(each):
        after.append(after[-1].times(sums))
    after.reverse()
    total = after[0].none * weights.none + after[0].first * weights.first
    total += after[0].last * weights.last + after[0].both * weights.both
    if total <= 0:
        return 0.0
    before = nobody
    for index, of_one in enumerate(rows):
        rest = before.times(after[index + 1])
        before = before.times(each[index])
        inside = rest.none * weights.none + rest.first * weights.first
        inside += rest.last * weights.last + rest.both * weights.both
        as_first = rest.none * weights.first + rest.last * weights.both
        as_last = rest.none * weights.last + rest.first * weights.both
        for row in of_one:
            began = row.then * as_first
            reading.how[index][row.cause] += row.within * inside + began + row.last * as_last
            reading.went[row.cause] = reading.went.get(row.cause, 0.0) + began
    reading.weight += total
    return total
