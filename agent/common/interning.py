"""Equal values that are kept in many places, as one object."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)


class Interner:
    """Gives for each value one that is equal to it: the first that came, until there are `most`; then it begins anew.

    For values of one immutable type: `True` and 1 are equal, and not the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Hashable, Hashable] = {}

    def __call__(self, value: Value) -> Value:
        """The value to keep."""
        if len(self._known) >= self._most:
            self._known.clear()
        return self._known.setdefault(value, value)  # type: ignore[return-value]  # what is equal is of its type


def share_equal(values: Sequence[Value]) -> list[Value]:
    """The values, those that are equal as one object. For values of one immutable type."""
    same = dict(zip(values, values, strict=True))
    return list(map(same.__getitem__, values))
