"""Equal values that are kept in many places, as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from hashlib import blake2b
from sys import intern
from typing import ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

Value = TypeVar("Value")
Names = ParamSpec("Names")

LONGEST_NAMES = 300
"""Characters of names that are kept, of those of one value together. Strangers may choose names of 32,767, as many as
they like; Kafka's own topics have 249 at most."""


def are_short(*names: str | None) -> bool:
    """Whether they are no longer than names are that are kept."""
    return sum([len(name) for name in names if name is not None]) <= LONGEST_NAMES


def short_name(name: str) -> str:
    """The name; of one that is longer than names are that are kept, its beginning and a digest of it, which tell it
    from others."""
    if len(name) <= LONGEST_NAMES:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{name[: LONGEST_NAMES - len(digest) - 1]}…{digest}"


class Interner(dict[Value, Value]):
    """`interner[value]` is one that is equal to it: the first that came, until there are `most`; then it begins anew.
    A value of which `is_kept` says no is itself.

    For values of one immutable type: `True` and 1 are equal, and not the same.
    """

    def __init__(self, most: int, is_kept: Callable[[Value], bool] | None = None) -> None:
        super().__init__()
        self._most, self._is_kept = most, is_kept

    def __missing__(self, value: Value) -> Value:
        if self._is_kept is not None and not self._is_kept(value):
            return value
        if len(self) >= self._most:
            self.clear()
        self[value] = value
        return value


def remembered(most: int) -> Callable[[Callable[Names, Value]], Callable[Names, Value]]:
    """So many answers of a function of names are kept, but for long names."""

    def decorate(function: Callable[Names, Value]) -> Callable[Names, Value]:
        known = lru_cache(most)(function)

        @wraps(function)
        def answer(*names: Names.args, **others: Names.kwargs) -> Value:
            return (known if are_short(*names) else function)(*names, **others)  # type: ignore[arg-type]  # they are names

        return answer

    return decorate


one_number: Interner[int] = Interner(4_096)
"""For numbers that are settings: timeouts, windows."""


def share_texts_and_numbers(it: Struct, *attributes: str) -> None:
    """Have these attributes, also of a frozen object, be one object with those that are equal elsewhere.

    What is read anew, as from a snapshot, has a text of its own in each place where the live agent had one in all.
    """
    for name in attributes:
        value = getattr(it, name)
        if type(value) is str:
            force_setattr(it, name, intern(value))
        elif type(value) is int:
            force_setattr(it, name, one_number[value])


def share_equal(values: Sequence[Value]) -> list[Value]:
    """The values, those that are equal as one object. For values of one immutable type."""
    same = dict(zip(values, values, strict=True))
    return list(map(same.__getitem__, values))
