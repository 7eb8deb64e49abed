"""Numbers that look random, made of a seed alone: the same ones on every machine and with every Python."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

_WHOLE = 1 << 64


class SeededRandom:
    """A sequence of throws. Whoever throws with the same seed throws the same; other seeds share nothing."""

    __slots__ = ("_drawn", "_key")

    def __init__(self, *seed: int | str) -> None:
        self._key = blake2b("\0".join(map(str, seed)).encode(), digest_size=32).digest()
        self._drawn = 0

    def _next_64_bits(self) -> int:
        return int.from_bytes(self.bytes(8))

    def bytes(self, size: int) -> bytes:
        """So many bytes, 64 at most."""
        self._drawn += 1
        return blake2b(self._drawn.to_bytes(8), key=self._key, digest_size=size).digest()

    def integer(self, least: int, most: int) -> int:
        """A whole number, both bounds among them."""
        return least + self._next_64_bits() % (most - least + 1)

    def chance(self, share: float) -> bool:
        """True in that share of throws."""
        return self._next_64_bits() < share * _WHOLE

    def pareto_integer(self, least: int, most: int) -> int:
        """A whole number, both bounds among them: twice as large is half as likely to be exceeded (Pareto)."""
        end = most + 1
        return int(least * end / (end - self._next_64_bits() / _WHOLE * (end - least)))

    def weighted_choice(self, weights: Mapping[str, float]) -> str:
        """One of these, as often as its weight says; the weights need no sum, but one above 0."""
        return weighted_choice_at(weights, self._next_64_bits() / _WHOLE)


def weighted_choice_at(weights: Mapping[str, float], share: float) -> str:
    """The one in whose piece `share` (from 0 up to 1) lies, of a length that the weights cut up."""
    rest = share * sum(weights.values())
    last = ""
    for name, weight in weights.items():
        if weight > 0:
            if rest < weight:
                return name
            rest, last = rest - weight, name
    return last  # only rounding leads here
