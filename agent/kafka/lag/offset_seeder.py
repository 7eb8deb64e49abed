"""The past of a partition from before it was looked at, by asking where it was at some times.

Kafka answers for any time which is the first record of then or later (ListOffsets by timestamp; the right is
Describe). That is where the partition ended just before, so a few such answers tell since when a lag is there, at
once and not after hours. Owns which times are asked. Pure: time is an argument (epoch milliseconds).
"""

from __future__ import annotations

from math import sqrt

from agent.common.units import DAY_MS, HOUR_MS, MINUTE_MS
from agent.core.end_offsets import TimedOffset

AGES_MS = (10_000, MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS)
"""How far back is asked, until it is far enough."""
STEPS = 3
"""How often the bracket between two ages is halved (their ratio is): what is told is then within a third of it."""
PRECISION_MS = 1_000
"""The bracket that is good enough."""


class OffsetSeeder:
    """When a partition's end passed one offset.

    Ask for `time_ms` and give the answer to `take`, until there is none; `points` are what was learnt, oldest first.
    """

    def __init__(self, offset: int, end: int, now_ms: int) -> None:
        """`end` is where the partition ends now; the offset is before it."""
        self._offset, self._end, self._now_ms = offset, end, now_ms
        self._answers: dict[int, int] = {}
        """By age."""
        self._ages = iter(AGES_MS)
        self._age: int | None = next(self._ages)
        self._steps = 0

    @property
    def time_ms(self) -> int | None:
        """The time to ask for next; None once enough is known."""
        return None if self._age is None else self._now_ms - self._age

    def add_answer(self, first: int) -> None:
        """The first offset of a record of that time or later, -1 if there is none: then it ended where it does."""
        assert self._age is not None, "nothing was asked"
        self._answers[self._age] = self._end if first < 0 else min(first, self._end)
        self._age = self._next()

    def _next(self) -> int | None:
        older = min((age for age, offset in self._answers.items() if offset <= self._offset), default=None)
        if older is None:
            return next(self._ages, None)
        younger = max((age for age in self._answers if age < older), default=PRECISION_MS)
        self._steps += 1
        if self._steps > STEPS or older - younger <= PRECISION_MS:
            return None
        return round(sqrt(younger * older))

    @property
    def points(self) -> tuple[TimedOffset, ...]:
        """Where the partition ended, oldest first."""
        return tuple((self._now_ms - age, offset) for age, offset in sorted(self._answers.items(), reverse=True))

    @property
    def is_complete(self) -> bool:
        """Whether it was asked as far back as is ever asked."""
        return AGES_MS[-1] in self._answers
