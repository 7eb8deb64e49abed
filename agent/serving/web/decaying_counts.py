"""How often each of many strangers has done something of late. Bounded, and knows no clock."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

MAX_KEYS = 10_000


class DecayingCounts:
    """A count for each key, from which one is taken away every `forget_s` seconds.

    Kept as the moment at which it is zero (the generic cell rate algorithm). Beyond `most` keys the one is forgotten
    that was counted longest ago.
    """

    def __init__(self, forget_s: float, most: int = MAX_KEYS) -> None:
        self._forget_s, self._most = forget_s, most
        self._zero_at: OrderedDict[Hashable, float] = OrderedDict()

    def count(self, key: Hashable, now: float) -> int:
        """How often, by now (seconds of a clock that never goes back)."""
        return max(0, math.ceil(round((self._zero_at.get(key, now) - now) / self._forget_s, 6)))

    def add(self, key: Hashable, now: float, times: int = 1) -> None:
        """It did it, or (-1) did not after all."""
        self._zero_at[key] = max(self._zero_at.get(key, now), now) + times * self._forget_s
        self._zero_at.move_to_end(key)
        if len(self._zero_at) > self._most:
            self._zero_at.popitem(last=False)
