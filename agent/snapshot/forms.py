"""How a value of the state is written: its plain form, which msgspec checks against a type as it reads it.

`form_of` makes a `Form` of a type as annotations have it. Numbers, texts, bytes, enums, and frozen dataclasses and
named tuples of such are their own plain form, so C code reads and writes them. Classes that hold state are declared
(`declare`), field by field; each is a plain tuple of its fields. A snapshot may lie where others can write: it is
data, nothing in it names code, and what it does not declare cannot come out of it.

Three things are written once for each image and by number from then on: values that are everywhere (`Interned`),
topics with partitions (`SLOT`), and objects that are held in two places and change (`shared`).
"""

from __future__ import annotations

import dataclasses
import types
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

Slot = tuple[str, int]
"""A topic's name and a partition of it."""

Index = Annotated[int, Meta(ge=0)]
"""A place in a table."""


class Numbered(dict[Any, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: Hashable) -> int:
        number = self[key] = len(self)
        return number


class Packing:
    """What is written once for an image, collected while the rest is packed."""

    def __init__(self) -> None:
        self.slots = Numbered()
        self.interned: dict[type, Numbered] = {cls: Numbered() for cls in INTERNED}
        self.kept: dict[type, list[Any]] = {}
        """Values without a hash, which are numbered by identity: so that they stay while they are."""
        self.shared: dict[type, dict[int, int]] = {cls: {} for cls in SHARED}
        """By class: the objects that were met, by identity, and their numbers."""


class Unpacking:
    """What was written once for an image, while the rest is unpacked."""

    def __init__(self, slots: Sequence[Slot], interned: dict[type, Sequence[Any]]) -> None:
        self.slots = slots
        self.interned = interned
        self.shared: dict[type, list[Any]] = {cls: [] for cls in SHARED}
        """By class: the objects that were made so far."""


Pack = Callable[[Any, Packing], Any]
Unpack = Callable[[Any, Unpacking], Any]


def same(value: Any, _: object) -> Any:
    """A value that is its own plain form."""
    return value


def counter(it: dict[Any, int]) -> Counter[Any]:
    """A counter of what was counted; its own way is ten times as long."""
    out: Counter[Any] = Counter.__new__(Counter)
    dict.update(out, it)
    return out


class Form(NamedTuple):
    """How a value is written. `plain` is the type of the plain form; unless told otherwise it is the value itself."""

    plain: Any
    layout: str
    """The same in words, down to each field: what the fingerprint is made of."""
    pack: Pack = same
    unpack: Unpack = same

    @property
    def is_same(self) -> bool:
        """Whether nothing is to be done."""
        return self.pack is same and self.unpack is same


class State(NamedTuple):
    """A class that holds state, and the fields that it is."""

    cls: type
    fields: tuple[str, ...]


STATES: dict[type, State] = {}
"""Every class that was declared."""

SHARED: set[type] = set()
"""Those whose objects may be held in two places, and come back as one."""

INTERNED: set[type] = set()
"""Classes whose values are everywhere, and written once for each image."""

_FORMS: dict[Any, Form] = {}


def generic(cls: type, *of: Any) -> Any:
    """A type with its parameters: `generic(list, int)` is `list[int]`."""
    return types.GenericAlias(cls, of)


def form_of(annotation: Any) -> Form:
    """How values of a type are written. Raises `TypeError` for a type that nobody declared."""
    if isinstance(annotation, Form):
        return annotation
    form = _FORMS.get(annotation)
    if form is None:
        form = _FORMS[annotation] = _compiled(annotation)
    return form


def _compiled(annotation: Any) -> Form:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _optional(args)
    if origin in (dict, Mapping) or (origin is not None and issubclass(origin, Mapping)):
        return _mapping(Counter if origin is Counter else dict, *_of_mapping(origin, args))
    if origin in (list, deque, set):
        return _collection(origin, args[0])
    if origin is tuple and not is_plain(annotation):
        return _tuple(args)
    if is_plain(annotation):
        return Form(annotation, layout_of(annotation))
    raise TypeError(f"{annotation!r} is not declared: see agent.snapshot.states")


def _of_mapping(origin: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
    return (args[0], int) if origin is Counter else (args[0], args[1])


def is_plain(annotation: Any) -> bool:
    """Whether a type is its own plain form: nothing in it changes, and nothing in it is declared."""
    known = _FORMS.get(annotation)
    if known is not None:
        return known.is_same
    if annotation in (int, str, bytes, float, bool, None, type(None), Any):
        return True
    if supertype := getattr(annotation, "__supertype__", None):
        return is_plain(supertype)
    if (origin := get_origin(annotation)) is not None:
        is_value = origin in (tuple, frozenset, Mapping, Union, types.UnionType)
        return is_value and all(it is Ellipsis or is_plain(it) for it in get_args(annotation))
    if not isinstance(annotation, type):
        return False
    if issubclass(annotation, Enum):
        return True
    if dataclasses.is_dataclass(annotation) and not annotation.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return False
    return _is_value(annotation) and all(map(is_plain, fields_of(annotation).values()))


def _is_value(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def fields_of(cls: type) -> dict[str, Any]:
    """The fields of a dataclass or named tuple, and their types."""
    hints = get_type_hints(cls)
    names = (it.name for it in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else cls._fields  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


def layout_of(annotation: Any) -> str:
    """A plain type in words, the same in every version of Python."""
    if get_origin(annotation) in (Union, types.UnionType):
        return "|".join(map(layout_of, get_args(annotation)))
    if get_origin(annotation) is not None:
        return f"{get_origin(annotation).__name__}[{','.join(map(layout_of, get_args(annotation)))}]"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return f"{annotation.__name__}({','.join(str(it.value) for it in annotation)})"
    if isinstance(annotation, type) and _is_value(annotation):
        inner = ",".join(f"{name}:{layout_of(kind)}" for name, kind in fields_of(annotation).items())
        return f"{annotation.__name__}({inner})"
    return getattr(annotation, "__name__", str(annotation))


def _optional(args: tuple[Any, ...]) -> Form:
    (kind,) = (it for it in args if it is not type(None))
    form = form_of(kind)
    plain, layout, pack, unpack = form
    if form.is_same:
        return Form(plain | None, f"{layout}?")
    return Form(
        plain | None,
        f"{layout}?",
        lambda value, to: None if value is None else pack(value, to),
        lambda value, by: None if value is None else unpack(value, by),
    )


def _mapping(cls: Any, key: Any, value: Any) -> Form:
    keys, values = form_of(key), form_of(value)
    layout = f"{cls.__name__}[{keys.layout},{values.layout}]"
    pack, unpack = values.pack, values.unpack
    assert keys.is_same, f"{key!r} is no key: see by_slot"
    plain = generic(dict, keys.plain, values.plain)
    if cls is Counter:
        return Form(plain, layout, lambda it, to: dict(it), lambda it, by: counter(it))
    if values.is_same:
        return Form(plain, layout, lambda it, to: it.copy() if type(it) is dict else dict(it))
    return Form(
        plain,
        layout,
        lambda it, to: {key: pack(value, to) for key, value in it.items()},
        lambda it, by: {key: unpack(value, by) for key, value in it.items()},
    )


def _collection(cls: Any, kind: Any) -> Form:
    form = form_of(kind)
    plain, layout = generic(list, form.plain), f"{cls.__name__}[{form.layout}]"
    pack, unpack = form.pack, form.unpack
    if form.is_same:
        return Form(plain, layout, lambda it, to: list(it), lambda it, by: cls(it))
    return Form(
        plain,
        layout,
        lambda it, to: [pack(value, to) for value in it],
        lambda it, by: cls([unpack(value, by) for value in it]),
    )


def _tuple(args: tuple[Any, ...]) -> Form:
    if args[1:] == (Ellipsis,):
        return _collection(tuple, args[0])
    forms = tuple(map(form_of, args))
    get = [f"it[{number}]" for number in range(len(forms))]
    return _compiled_row("tuple", forms, get, lambda values: f"return ({', '.join(values)},)", {})


def _compiled_row(
    name: str,
    forms: Sequence[Form],
    get: Sequence[str],
    build: Callable[[Sequence[str]], str],
    names: Mapping[str, Any],
) -> Form:
    """Fixed fields. `get` are the expressions that take each out of `it`; `build` makes the statements that put the
    values of such expressions together and return that.

    Compiled, as dataclasses are, from what is declared here and nowhere else: an image has a million fields.
    """
    plain = generic(tuple, *(form.plain for form in forms))
    scope: dict[str, Any] = dict(names)
    packed, unpacked = [], []
    for number, (form, expression) in enumerate(zip(forms, get, strict=True)):
        scope[f"pack{number}"], scope[f"unpack{number}"] = form.pack, form.unpack
        packed.append(expression if form.is_same else f"pack{number}({expression}, to)")
        unpacked.append(f"v{number}" if form.is_same else f"unpack{number}(v{number}, by)")
    arguments = "".join(f"v{number}, " for number in range(len(forms)))
    body = build(unpacked).replace("\n", "\n    ")
    source = (
        f"def pack(it, to):\n    return ({''.join(f'{it}, ' for it in packed)})\n"
        f"def unpack(plain, by):\n    ({arguments}) = plain\n    {body}\n"
    )
    exec(source, scope)
    return Form(plain, f"{name}[{','.join(form.layout for form in forms)}]", scope["pack"], scope["unpack"])


# Classes that hold state.


def declare(
    cls: type,
    fields: Mapping[str, Any],
    *,
    shared: bool = False,
    make: Callable[[], Any] | None = None,
) -> Form:
    """Say which fields of a class are its state, and of which types they are.

    `make` gives an object to set them in, where there is more to one than they. `shared`: its objects may be held in
    two places.
    """
    STATES[cls] = State(cls, tuple(fields))
    form = state_form(cls, fields, make)
    if shared:
        SHARED.add(cls)
        form = _by_reference(cls, form)
    _FORMS[cls] = form
    return form


def state_form(cls: Any, fields: Mapping[str, Any], make: Callable[[], Any] | None = None) -> Form:
    """How objects with these fields are written."""
    forms = tuple(map(form_of, fields.values()))
    parameters: Any = getattr(cls, "__dataclass_params__", None)

    def build(values: Sequence[str]) -> str:
        if issubclass(cls, tuple):
            return f"return cls({', '.join(values)})"
        is_frozen = parameters is not None and parameters.frozen
        put = "put(it, {!r}, {})" if is_frozen else "it.{} = {}"
        return "\n".join(["it = make()", *map(put.format, fields, values), "return it"])

    scope = {"cls": cls, "make": make or partial(cls.__new__, cls), "put": object.__setattr__}
    return _compiled_row(
        f"{cls.__name__}({','.join(fields)})", forms, [f"it.{name}" for name in fields], build, scope
    )


def _by_reference(cls: type, form: Form) -> Form:
    pack_it, unpack_it = form.pack, form.unpack

    def pack(value: Any, to: Packing) -> Any:
        met = to.shared[cls]
        number = met.get(id(value))
        if number is not None:
            return number
        met[id(value)] = len(met)
        return pack_it(value, to)

    def unpack(value: Any, by: Unpacking) -> Any:
        made = by.shared[cls]
        if isinstance(value, int):
            if value < 0:
                raise IndexError(f"object {value} of {cls.__name__}")
            return made[value]
        it = unpack_it(value, by)
        made.append(it)
        return it

    # No `Index`: with a tuple and a bounded number in one union msgspec 0.22 crashes.
    return Form(form.plain | int, f"&{form.layout}", pack, unpack)


def intern(cls: type) -> Form:
    """Write values of a class once for each image, and by number from then on. They must not change."""
    inner = form_of(cls)
    assert inner.is_same, f"{cls.__name__} changes"
    has_hash = issubclass(cls, tuple)

    def pack(value: Any, to: Packing) -> int:
        if has_hash:
            return to.interned[cls][value]
        numbers = to.interned[cls]
        number = numbers.get(id(value))
        if number is None:
            number = numbers[id(value)]
            to.kept.setdefault(cls, []).append(value)
        return number

    INTERNED.add(cls)
    form = _FORMS[cls] = Form(Index, f"#{inner.layout}", pack, lambda number, by: by.interned[cls][number])
    return form


# Topics with partitions.


def by_slot(value: Any) -> Form:
    """A dict by topic and partition: two columns."""
    form = form_of(value)
    pack, unpack, is_table = form.pack, form.unpack, value in INTERNED

    def pack_all(it: Mapping[Slot, Any], to: Packing) -> Any:
        if not it:
            return (), ()
        values: Any = it.values()
        if is_table:
            values = map(to.interned[value].__getitem__, values)
        elif not form.is_same:
            values = [pack(value, to) for value in values]
        return list(map(to.slots.__getitem__, it)), list(values)

    def unpack_all(it: Any, by: Unpacking) -> dict[Slot, Any]:
        numbers, values = it
        if is_table:
            values = map(by.interned[value].__getitem__, values)
        elif not form.is_same:
            values = [unpack(value, by) for value in values]
        return dict(zip(map(by.slots.__getitem__, numbers), values, strict=True))

    columns = generic(tuple, list[Index], generic(list, form.plain))
    return Form(columns, f"by_slot[{form.layout}]", pack_all, unpack_all)


def at_most(kind: Any, length: int) -> Form:
    """A deque that keeps so many."""
    plain, layout, pack, unpack = form_of(generic(deque, kind))
    return Form(plain, f"{layout}<={length}", pack, lambda it, by: deque(unpack(it, by), length))
