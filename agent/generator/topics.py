"""The topics that generated groups consume, and how fast records come into them."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from agent.generator.dice import Dice
from agent.wire.primitives import Uuid


class Topic(NamedTuple):
    """A topic; `offset` and `per_s` are about where its partitions end at first, and how many records they get."""

    name: str
    topic_id: Uuid
    partitions: int
    leader_epoch: int
    offset: int
    per_s: int

    def first(self, number: int) -> int:
        """Where a partition ends when the history begins."""
        return self.offset + 997 * number

    def rate(self, number: int) -> int:
        """Records a second of a partition: within a fifth of the others'."""
        return 1 + self.per_s * (80 + 37 * number % 41) // 100


def new_topic(name: str, partitions: int, dice: Dice) -> Topic:
    """A topic of this size, the rest by the dice."""
    return Topic(
        name,
        Uuid(dice.bytes(16)),
        partitions,
        dice.between(0, 20),
        dice.between(0, 10**9),
        dice.mostly_small(50, 400),
    )


_WORDS = ("orders", "payments", "clicks", "users", "stock", "prices", "mails", "audit", "metrics", "returns")


class Topics:
    """The topics that many groups share: `number` of them, each with so many partitions."""

    def __init__(self, number: int, least: int, most: int, seed: int) -> None:
        dice = Dice(seed, "topics")
        sizes = [dice.mostly_small(least, most) for _ in range(number)]
        # One at least is as large as they come: the largest groups need it.
        sizes[0] = most
        named = [
            new_topic(f"{_WORDS[at % len(_WORDS)]}-{at:03d}", size, Dice(seed, "topic", at))
            for at, size in enumerate(sizes)
        ]
        self._by_size = sorted(named, key=lambda topic: topic.partitions)
        self._sizes = [topic.partitions for topic in self._by_size]

    def some(self, count: int, partitions: int, dice: Dice) -> tuple[Topic, ...]:
        """So many of them, or all: the first has that many partitions, if any has."""
        large = min(bisect_left(self._sizes, partitions), len(self._sizes) - 1)
        chosen = {dice.between(large, len(self._sizes) - 1)}
        while len(chosen) < min(count, len(self._sizes)):
            chosen.add(dice.between(0, len(self._sizes) - 1))
        return tuple(self._by_size[at] for at in sorted(chosen, reverse=True))
