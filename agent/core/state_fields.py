"""How a class declares what a snapshot keeps of its objects. Pure: `agent.persistence.snapshot` reads it.

    class CommitCadence:
        STATE: ClassVar = StateFields({"since_ms": int | None, "_holds": dict[Slot, Hold]})

Dataclasses, named tuples and msgspec's structs declare themselves: every field is kept, with the type it is annotated
with. Attributes that are not declared are derived, or come from the running configuration. After its attributes are
set, an object's `after_restore()` is called if its class has one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from msgspec import Struct

Class = TypeVar("Class", bound=type)
Key = TypeVar("Key")
Value = TypeVar("Value")


class StateFields(dict[str, Any]):
    """Attribute names with their types, as a class's `STATE`. Subclasses do not inherit it.

    `packed`: the type of a compact form, where attribute by attribute would be too slow or too large. The class then
    has `pack_state(self)`, which gives that form, and a class method `from_state(packed)`, which reads it.
    """

    def __init__(self, fields: Mapping[str, Any], *, packed: Any = None) -> None:
        super().__init__(fields)
        self.packed = packed


class MaxLength(NamedTuple):
    """Says in `Annotated[deque[...], MaxLength(n)]` how many items the deque keeps."""

    length: int


class Ordered:
    """Says in `Annotated[dict[...], ORDERED]` that the order of the keys is part of the state."""


ORDERED: Final = Ordered()

SHARED: set[type] = set()
"""Classes marked by `shared`."""

INTERNED: set[type] = set()
"""Classes marked by `interned`."""


def shared(cls: Class) -> Class:
    """Mark a class whose objects may be held in two places: a restored state holds one object in both."""
    SHARED.add(cls)
    return cls


def interned(cls: Class) -> Class:
    """Mark a class of immutable values that are everywhere: a snapshot writes each value once."""
    INTERNED.add(cls)
    return cls


def put_or_drop(mine: dict[Key, Value], its: Mapping[Key, Value], key: Key) -> None:
    """Have under a key what another has there; nothing where it has nothing."""
    if key in its:
        mine[key] = its[key]
    else:
        mine.pop(key, None)


def declared_state(cls: type) -> StateFields | None:
    """What a class declares of itself; None if it declares nothing."""
    declared = cls.__dict__.get("STATE")
    if isinstance(declared, StateFields):
        return declared
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = list(cls._fields)
    elif issubclass(cls, Struct):
        names = list(cls.__struct_fields__)
    else:
        return None
    hints = _hints(cls)
    return StateFields({name: hints[name] for name in names})


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)
