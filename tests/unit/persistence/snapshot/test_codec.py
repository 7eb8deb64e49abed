"""How values are written: what may be declared, and what comes back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import pytest

from agent.core.shadow.views import Member, Position
from agent.core.state_fields import MaxLength, StateFields, shared
from agent.core.wire.primitives import Uuid
from agent.persistence.snapshot.codec import Form, Packing, Unpacking, forms_of, generic
from agent.persistence.snapshot.migrations import FORMAT

form_of = forms_of(FORMAT).of


class Kind(StrEnum):
    ONE = "one"


class Point(NamedTuple):
    x: int
    y: Kind


@dataclass(frozen=True)
class Value:
    point: Point
    names: Mapping[str, tuple[int, ...]]


class Undeclared:
    pass


@shared
class Held:
    """An object that two may hold."""

    STATE: ClassVar = StateFields({"name": str})

    def __init__(self, name: str) -> None:
        self.name = name


class Holds:
    STATE: ClassVar = StateFields({"position": Position, "member": Member, "held": list[Held], "first": Held})

    def __init__(self, position: Position, member: Member, held: list[Held]) -> None:
        self.position, self.member, self.held = position, member, held
        self.first = held[0]


Item = TypeVar("Item")


@dataclass
class Box(Generic[Item]):
    """Declares itself."""

    items: list[Item] = field(default_factory=list)
    last: Item | None = None


class Even:
    """Has what follows from its state."""

    STATE: ClassVar = StateFields({"number": int})
    __slots__ = ("is_even", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.after_restore()

    def after_restore(self) -> None:
        self.is_even = self.number % 2 == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Even) and (self.number, self.is_even) == (other.number, other.is_even)

    __hash__ = None  # type: ignore[assignment]


class Packed:
    STATE: ClassVar = StateFields({"names": set[str]}, packed=str)

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def pack_state(self) -> str:
        return ",".join(sorted(self.names))

    @classmethod
    def from_state(cls, packed: str) -> Packed:
        return cls(set(packed.split(",")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packed) and self.names == other.names

    __hash__ = None  # type: ignore[assignment]


def there_and_back(form: Form, value: Any) -> Any:
    to = Packing()
    plain = msgspec.msgpack.encode(form.pack(value, to))
    checked = msgspec.msgpack.Decoder(form.plain).decode(plain)
    tables: dict[type, Any] = {Position: list(to.interned[Position]), Member: to.unhashable.get(Member, [])}
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
        (Annotated[deque[Point], MaxLength(3)], deque([Point(1, Kind.ONE)], maxlen=3)),
        (dict[tuple[str, int], int], {("t", 0): 1, ("u", 0): 2}),
        (dict[tuple[str, int], int], {}),
        (dict[tuple[str, int], Position], POSITIONS),
        (dict[tuple[str, int], list[int]], {("t", 0): [1]}),
        (Box[Point], Box([Point(1, Kind.ONE)])),
        (Box[set[int]], Box([{1}], {2})),
        (dict[str, Even], {"a": Even(1), "b": Even(2)}),
        (dict[str, Even | Packed], {"b": Packed({"x", "y"}), "a": Even(2)}),
        (list[int] | None, [1]),
        (list[int] | None, None),
    ],
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
    back = there_and_back(form_of(generic(list, Holds)), [Holds(Position(1, 2, 3), member, [one, other, one])] * 2)
    first, second = back
    assert [it.name for it in first.held] == ["a", "b", "a"]
    assert first.held[0] is first.held[2] is first.first is second.first
    assert first.member is second.member == member
    assert first.position == Position(1, 2, 3)


@pytest.mark.parametrize("number", [-1, 0, 5])
def test_an_object_that_was_not_written_is_none(number: int) -> None:
    form = form_of(Held)
    with pytest.raises(IndexError):
        form.unpack(number, Unpacking([], {}))


@pytest.mark.parametrize("annotation", [Undeclared, object, list[Undeclared], tuple[Undeclared, int]], ids=str)
def test_what_is_not_declared_is_not_written(annotation: Any) -> None:
    with pytest.raises(TypeError, match="declares no state: see"):
        form_of(annotation)


def test_a_subclass_declares_its_own_state() -> None:
    class More(Even):
        pass

    with pytest.raises(TypeError, match="declares no state: see"):
        form_of(More)


def test_a_layout_names_every_field_and_no_class() -> None:
    assert form_of(Value).layout == "(names:Mapping[str,tuple[int]],point:(x:int,y:enum))"
    assert form_of(int | None).layout == "int|None"
    assert form_of(Holds).layout.startswith("(first:&(name:str),held:list[&(name:str)],member:#(")
    assert form_of(dict[str, list[int]]).layout == "dict[str,list[int]]"
