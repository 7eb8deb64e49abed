"""Equal values that are kept in many places, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import TypeVar

Value = TypeVar("Value")


class Interner(dict[Value, Value]):
    """`interner[value]` is one that is equal to it: the first that came, until there are `most`; then it begins anew.

    For values of one immutable type: `True` and 1 are equal, and not the same.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __missing__(self, value: Value) -> Value:
        if len(self) >= self._most:
            self.clear()
        self[value] = value
        return value


one_number: Interner[int] = Interner(4_096)
"""For numbers that are settings: timeouts, windows."""


def share_texts_and_numbers(it: object, *attributes: str) -> None:
    """Have these attributes, also of a frozen object, be one object with those that are equal elsewhere.

    What is read anew, as from a snapshot, has a text of its own in each place where the live agent had one in all.
    """
    for name in attributes:
        value = getattr(it, name)
        if type(value) is str:
            object.__setattr__(it, name, intern(value))
        elif type(value) is int:
            object.__setattr__(it, name, one_number[value])


def share_equal(values: Sequence[Value]) -> list[Value]:
    """The values, those that are equal as one object. For values of one immutable type."""
    same = dict(zip(values, values, strict=True))
    return list(map(same.__getitem__, values))
