"""Numbers that look random, made of a seed alone: the same ones on every machine and with every Python."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

_WHOLE = 1 << 64


class Dice:
    """A sequence of throws. Whoever throws with the same seed throws the same; other seeds share nothing."""

    __slots__ = ("_key", "_thrown")

    def __init__(self, *seed: int | str) -> None:
        self._key = blake2b("\0".join(map(str, seed)).encode(), digest_size=32).digest()
        self._thrown = 0

    def _throw(self) -> int:
        self._thrown += 1
        return int.from_bytes(blake2b(self._thrown.to_bytes(8), key=self._key, digest_size=8).digest())

    def bytes(self, size: int) -> bytes:
        """So many bytes, 64 at most."""
        self._thrown += 1
        return blake2b(self._thrown.to_bytes(8), key=self._key, digest_size=size).digest()

    def between(self, least: int, most: int) -> int:
        """A whole number, both bounds among them."""
        return least + self._throw() % (most - least + 1)

    def chance(self, share: float) -> bool:
        """True in that share of throws."""
        return self._throw() < share * _WHOLE

    def mostly_small(self, least: int, most: int) -> int:
        """A whole number, both bounds among them: twice as large is half as likely to be exceeded (Pareto)."""
        end = most + 1
        return int(least * end / (end - self._throw() / _WHOLE * (end - least)))

    def pick(self, weights: Mapping[str, float]) -> str:
        """One of these, as often as its weight says; the weights need no sum, but one above 0."""
        return picked(weights, self._throw() / _WHOLE)


def picked(weights: Mapping[str, float], share: float) -> str:
    """The one in whose piece `share` (from 0 up to 1) lies, of a length that the weights cut up."""
    rest = share * sum(weights.values())
    last = ""
    for name, weight in weights.items():
        if weight > 0:
            if rest < weight:
                return name
            rest, last = rest - weight, name
    return last  # only rounding leads here
