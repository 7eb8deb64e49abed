"""How values are written: what may be declared, and what comes back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import pytest

from agent.shadow.views import Member, Position
from agent.snapshot import states as _states  # noqa: F401  # members and positions are interned there
from agent.snapshot.forms import Form, Packing, Unpacking, at_most, by_slot, declare, form_of, generic, layout_of
from agent.wire.primitives import Uuid


class Kind(StrEnum):
    ONE = "one"


class Point(NamedTuple):
    x: int
    y: Kind


@dataclass(frozen=True)
class Value:
    point: Point
    names: Mapping[str, tuple[int, ...]]


@dataclass
class Changes:
    items: list[int] = field(default_factory=list)


class Held:
    """An object that two may hold."""

    def __init__(self, name: str) -> None:
        self.name = name


class Holds:
    def __init__(self, position: Position, member: Member, held: list[Held]) -> None:
        self.position, self.member, self.held = position, member, held
        self.first = held[0]


declare(Held, {"name": str}, shared=True)
HOLDS = declare(Holds, {"position": Position, "member": Member, "held": list[Held], "first": Held})


def there_and_back(form: Form, value: Any) -> Any:
    to = Packing()
    plain = msgspec.msgpack.encode(form.pack(value, to))
    checked = msgspec.msgpack.Decoder(form.plain).decode(plain)
    tables: dict[type, Any] = {Position: list(to.interned[Position]), Member: to.kept.get(Member, [])}
    return form.unpack(checked, Unpacking(list(to.slots), tables))


POSITIONS = {("t", 0): Position(1, 2, 3), ("t", 1): Position(1, 2, 3)}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int | None, None),
        (Kind, Kind.ONE),
        (Value, Value(Point(1, Kind.ONE), {"a": (1, 2)})),
        (Uuid, Uuid(bytes(16))),
        (dict[Point, int], {Point(1, Kind.ONE): 2}),
        (dict[str, list[int]], {"a": [1]}),
        (Counter[Kind], Counter({Kind.ONE: 2})),
        (deque[int], deque([1, 2])),
        (set[str], {"a"}),
        (tuple[list[int], ...], ([1], [2])),
        (tuple[str, set[int]], ("a", {1})),
        (tuple[str, int], ("a", 1)),
        (frozenset[tuple[str, int]], frozenset({("a", 1)})),
        (at_most(Point, 3), deque([Point(1, Kind.ONE)], maxlen=3)),
        (by_slot(int), {("t", 0): 1, ("u", 0): 2}),
        (by_slot(int), {}),
        (by_slot(Position), POSITIONS),
        (by_slot(list[int]), {("t", 0): [1]}),
        (list[int] | None, [1]),
        (list[int] | None, None),
    ],
    ids=lambda it: getattr(it, "layout", str(it)),
)
def test_it_comes_back_as_what_it_was(annotation: Any, value: Any) -> None:
    back = there_and_back(form_of(annotation), value)
    assert back == value
    assert type(back) is type(value)


def test_what_changes_is_copied() -> None:
    """An image is encoded while the state goes on."""
    for annotation, value in ((dict[str, int], {"a": 1}), (list[int], [1]), (Counter[str], Counter(a=1))):
        packed = form_of(annotation).pack(value, Packing())
        assert packed is not value
    nested = {"a": [1]}
    packed = form_of(dict[str, list[int]]).pack(nested, Packing())
    nested["a"].append(2)
    assert packed == {"a": [1]}


def test_what_is_held_twice_is_one() -> None:
    member = Member("m", "c", "h")
    one, other = Held("a"), Held("b")
    back = there_and_back(generic_list(), [Holds(Position(1, 2, 3), member, [one, other, one])] * 2)
    first, second = back
    assert [it.name for it in first.held] == ["a", "b", "a"]
    assert first.held[0] is first.held[2] is first.first is second.first
    assert first.member is second.member == member
    assert first.position == Position(1, 2, 3)


def generic_list() -> Form:
    return form_of(generic(list, HOLDS))


@pytest.mark.parametrize("number", [-1, 0, 5])
def test_an_object_that_was_not_written_is_none(number: int) -> None:
    form = form_of(Held)
    with pytest.raises(IndexError):
        form.unpack(number, Unpacking([], {}))


@pytest.mark.parametrize("annotation", [Changes, object, list[Changes], "Changes", tuple[Changes, int]], ids=str)
def test_what_is_not_declared_is_not_written(annotation: Any) -> None:
    with pytest.raises(TypeError, match="is not declared: see"):
        form_of(annotation)


def test_a_layout_names_every_field() -> None:
    assert form_of(Value).layout == "Value(point:Point(x:int,y:Kind(one)),names:Mapping[str,tuple[int,Ellipsis]])"
    assert layout_of(int | None) == "int|NoneType"
    assert "&Held(name)[str]" in HOLDS.layout
    assert form_of(dict[str, list[int]]).layout == "dict[str,list[int]]"
