"""The state of analyzers that others wrote: whatever their attributes hold, as long as it is plain.

Plain are None, numbers, texts, bytes, and lists, tuples, dicts, sets, frozensets, deques, counters of such; and
objects of the classes in `STANDARD` and of those that the analyzer names in `state_classes` (named tuples, enums, any
others by their attributes). What changes and is reached twice comes back as one. `settings` are no state. An analyzer
that holds anything else is not written; it starts empty then, and whoever takes the image is told.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from agent.core.causes import Cause
from agent.core.diagnosis.api import (
    Analyzer,
    ClusterAnalyzer,
    Condition,
    LagLook,
    LoadWindow,
    PartitionLoad,
    Sample,
    Severity,
)
from agent.core.inference.facts import Departure
from agent.core.shadow.transitions import LogPosition
from agent.core.shadow.views import Anomaly, CommittedOffset, GroupView, Member, Position
from analyzers import windows

MAX_DEPTH = 100
"""So many containers in one another at most."""

MAX_DIGITS = 1000
"""Digits of a number."""

SETTINGS = frozenset({"settings"})

_PLAIN = (type(None), bool, int, float, str, bytes)
_CONTAINERS: dict[str, type] = {it.__name__: it for it in (list, tuple, set, frozenset, deque, dict, Counter)}
_CHANGING = (list, set, deque, dict, Counter)


STANDARD: tuple[type, ...] = (
    *(
        LogPosition,
        Anomaly,
        Cause,
        CommittedOffset,
        Condition,
        Departure,
        GroupView,
        LagLook,
        PartitionLoad,
        Member,
        Position,
        Sample,
        Severity,
        LoadWindow,
    ),
    *(windows.LostMembers, windows.LostMember, windows.RecentItems, windows.ClientIdentity, windows.DepartureCounter),
)
"""What an analyzer is given, and what is there for it to use."""


class UnsupportedValue(TypeError):
    """An analyzer holds what cannot be written: what, and where."""


def fields_of(it: object) -> dict[str, Any]:
    """The attributes of an object; of a counter of ours, as it declares them."""
    if isinstance(it, windows.DepartureCounter):
        return {name: getattr(it, name) for name in it.STATE}
    out: dict[str, Any] = dict(getattr(it, "__dict__", {}))
    for cls in type(it).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(it, name) and name not in ("__dict__", "__weakref__"):
                out[name] = getattr(it, name)
    return out


def pack(analyzer: Analyzer | ClusterAnalyzer) -> dict[str, Any]:
    """Its state by attribute. Raises `UnsupportedValue`."""
    writer = _Writer(classes_of(type(analyzer)))
    return {name: writer.write(value, name, 0) for name, value in fields_of(analyzer).items() if name not in SETTINGS}


def unpack(analyzer: Analyzer | ClusterAnalyzer, state: dict[str, Any]) -> bool:
    """Give a new analyzer its state back; False, and nothing is done, if it has other attributes than there were.

    Raises `ValueError` and its like for what `pack` did not write.
    """
    if state.keys() != fields_of(analyzer).keys() - SETTINGS:
        return False
    reader = _Reader(classes_of(type(analyzer)))
    values = {name: reader.read(value, 0) for name, value in state.items()}
    for name, value in values.items():
        object.__setattr__(analyzer, name, value)
    return True


def classes_of(cls: type) -> tuple[type, ...]:
    """The classes that an analyzer names."""
    return (*STANDARD, *getattr(cls, "state_classes", ()))


class _Writer:
    """Plain values as they are; the rest as `[kind, content]`, or `[number]` for what was written before."""

    def __init__(self, classes: tuple[type, ...]) -> None:
        self._classes = classes
        self._met: dict[int, int] = {}
        self._fields: list[dict[str, Any]] = []

    def write(self, it: Any, where: str, depth: int) -> Any:
        kind = type(it)
        if kind in _PLAIN:
            if kind is not int or -(2**63) <= it < 2**63:
                return it
            if abs(it) >= 10 ** (MAX_DIGITS - 1):
                raise UnsupportedValue(f"{where}: a number of more than {MAX_DIGITS - 1} digits")
            return ["int", str(it)]
        if depth == MAX_DEPTH:
            raise UnsupportedValue(f"{where}: more than {MAX_DEPTH} containers in one another")
        if id(it) in self._met:
            return [self._met[id(it)]]
        if it is windows._NOTHING:
            return ["nothing", None]
        name = kind.__name__
        if kind in self._classes and issubclass(kind, Enum):
            return [self._classes.index(kind), self.write(it.value, where, depth + 1)]
        changes = kind in _CHANGING or (kind in self._classes and not issubclass(kind, tuple))
        if changes:
            # What stands for all that is empty comes back as another one each time: it is changed then.
            number, is_shared = len(self._met), any(it is empty for empty in windows.EMPTY)
            self._met[-1 - number if is_shared else id(it)] = number
        if kind in self._classes:
            values: Iterable[Any] = it
            if not issubclass(kind, tuple):
                # Kept: of what is gone another would have the identity.
                self._fields.append(fields := fields_of(it))
                values = fields.items()
            return [self._classes.index(kind), self._all(values, where, depth)]
        if _CONTAINERS.get(name) is not kind:
            raise UnsupportedValue(f"{where}: {kind.__module__}.{kind.__qualname__}")
        if kind is deque:
            return [name, self._all(it, where, depth), it.maxlen]
        return [name, self._all(it.items() if isinstance(it, dict) else it, where, depth)]

    def _all(self, values: Iterable[Any], where: str, depth: int) -> list[Any]:
        return [self.write(value, where, depth + 1) for value in values]


class _Reader:
    def __init__(self, classes: tuple[type, ...]) -> None:
        self._classes = classes
        self._made: list[Any] = []

    def read(self, it: Any, depth: int) -> Any:
        if not isinstance(it, list):
            return it
        if depth > MAX_DEPTH:
            raise ValueError("containers too deep in one another")
        if len(it) == 1:
            return self._made[_number(it[0])]
        kind, content, *more = it
        if kind == "int":
            return _large(_text(content))
        if kind == "nothing":
            return windows._NOTHING
        if isinstance(kind, str):
            return self._container(_CONTAINERS[kind], content, depth, *more)
        return self._object(self._classes[_number(kind)], content, depth)

    def _container(self, kind: Any, content: Any, depth: int, maxlen: Any = None) -> Any:
        if kind not in _CHANGING:
            return kind(self._all(content, depth))
        made = deque(maxlen=maxlen) if kind is deque else kind()
        # There before what is in it, which may hold it.
        self._made.append(made)
        values = self._all(content, depth)
        if isinstance(made, dict):
            dict.update(made, values)
        elif isinstance(made, set):
            made.update(values)
        else:
            made.extend(values)
        return made

    def _object(self, cls: Any, content: Any, depth: int) -> Any:
        if issubclass(cls, Enum):
            return cls(self.read(content, depth + 1))
        if issubclass(cls, tuple):
            return cls(*self._all(content, depth))
        is_struct = issubclass(cls, Struct)
        made = cls(**dict.fromkeys(cls.__struct_fields__)) if is_struct else cls.__new__(cls)
        put = force_setattr if is_struct else object.__setattr__
        self._made.append(made)
        values = self._all(content, depth)
        if is_struct and {name for name, _ in values} != {*cls.__struct_fields__}:
            raise ValueError(f"expected the fields of {cls.__name__}")
        for name, value in values:
            if _text(name).startswith("__"):
                raise ValueError(f"{name} is no attribute of a state")
            put(made, name, value)
        return made

    def _all(self, content: Any, depth: int) -> list[Any]:
        if not isinstance(content, list):
            raise ValueError("expected a list")
        return [self.read(value, depth + 1) for value in content]


def _number(it: Any) -> int:
    if type(it) is not int or it < 0:
        raise ValueError(f"expected a number, got {it!r}")
    return it


def _text(it: Any) -> str:
    if not isinstance(it, str):
        raise ValueError(f"expected a text, got {it!r}")
    return it


def _large(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"expected a number of at most {MAX_DIGITS} digits, got {len(text)}")
    return int(text)
