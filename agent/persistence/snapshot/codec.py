"""How a value of the state is written: as plain data, which msgspec checks against a type as it reads it.

`Forms.of` makes a `Form` of a type as annotations have it. Numbers, texts, bytes, enums, and frozen structs and
named tuples of such are their own plain form, so C code reads and writes them. An object of a class that declares
its state (`agent.core.state_fields`) is the tuple of its fields, by the fields' names in order. A snapshot may lie
where others can write: it is data, nothing in it names code, and what no class declares cannot come out of it.

Three things are written once for each image and by number from then on: values of `interned` classes, topics with
partitions (`Slot`), and objects of `shared` classes.
"""

from __future__ import annotations

import types
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from msgspec import Meta, Struct

from agent.core.state_fields import INTERNED, SHARED, MaxLength, StateFields, declared_state
from agent.core.wire.offset_commit_fastpath import Slot
from agent.persistence.snapshot.migrations import FORMAT, StoredFields, stored_fields

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
        self.unhashable: dict[type, list[Any]] = {}
        """Interned values without a hash, which are numbered by identity: kept here while that number counts."""
        self.shared: dict[type, dict[int, int]] = {cls: {} for cls in SHARED}
        """By class: the number of each object that was met, by its identity."""
        self.omitted: dict[str, str] = {}
        """By third-party analyzer whose state cannot be written: what it is that cannot."""

    def apart(self) -> Packing:
        """The same, in which no object of a `shared` class was met yet."""
        out = copy(self)
        out.shared = {cls: {} for cls in SHARED}
        return out


class Unpacking:
    """What was written once for an image, while the rest is unpacked."""

    def __init__(self, slots: Sequence[Slot], interned: Mapping[type, Sequence[Any]]) -> None:
        self.slots = slots
        self.interned = interned
        self.shared: dict[type, list[Any]] = {cls: [] for cls in SHARED}
        """By class: the objects that were made so far."""

    def apart(self) -> Unpacking:
        """The same, with no object made yet."""
        return Unpacking(self.slots, self.interned)


Pack = Callable[[Any, Packing], Any]
Unpack = Callable[..., Any]


def unchanged(value: Any, _: object) -> Any:
    """A value that is its own plain form."""
    return value


class Form(NamedTuple):
    """How a value is written. `plain` is the type of the plain form; unless told otherwise it is the value itself."""

    plain: Any
    layout: str
    """The same in words, down to each field: what the fingerprint is made of. Names of classes are not in it."""
    pack: Pack = unchanged
    unpack: Unpack = unchanged
    """For objects that are put together from their fields, a third argument is the one to set them in."""

    @property
    def is_plain(self) -> bool:
        """Whether values are their own plain form."""
        return self.pack is unchanged and self.unpack is unchanged


def generic(cls: type, *of: Any) -> Any:
    """A type with its parameters: `generic(list, int)` is `list[int]`."""
    return types.GenericAlias(cls, of)


class Forms:
    """The forms of all types in one version of the image format."""

    def __init__(self, version: int = FORMAT) -> None:
        self.version = version
        self._forms: dict[Any, Form] = {}

    def of(self, annotation: Any) -> Form:
        """How values of a type are written. Raises `TypeError` for a type that declares no state."""
        if isinstance(annotation, Form):
            return annotation
        form = self._forms.get(annotation)
        if form is None:
            form = self._forms[annotation] = self._compiled(annotation)
        return form

    def _compiled(self, annotation: Any) -> Form:
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            (mark,) = annotation.__metadata__
            form = self.of(annotation.__origin__)
            if not isinstance(mark, MaxLength):
                return form
            unpack, length = form.unpack, mark.length
            return form._replace(
                layout=f"{form.layout}<={length}", unpack=lambda value, by: deque(unpack(value, by), length)
            )
        if annotation in INTERNED:
            return self._interned(annotation)
        if (layout := self._plain_layout(annotation)) is not None:
            return Form(annotation, layout)
        if origin in (Union, types.UnionType):
            return self._optional(args)
        if origin is Counter:
            return self.mapping(Counter, args[0], int)
        if origin is dict or (origin is not None and issubclass(origin, Mapping)):
            if args[0] == Slot:
                return self._by_slot(args[1])
            return self.mapping(dict, *args)
        if origin in (list, deque, set) or (origin is tuple and args[1:] == (Ellipsis,)):
            return self._collection(origin, args[0])
        if origin is tuple:
            return _row(tuple, [self.of(it) for it in args])
        cls = origin or annotation
        declared = declared_state(cls)
        if declared is None:
            raise TypeError(f"{annotation!r} declares no state: see agent.core.state_fields")
        parameters = dict(zip(getattr(cls, "__parameters__", ()), args, strict=True))
        form = self._packed(cls, declared) if declared.packed else self.of_class(cls, parameters)
        return _by_reference(cls, form) if cls in SHARED else form

    def _plain_layout(self, annotation: Any) -> str | None:
        """The layout of a type that is its own plain form; None if something in it changes, or is written once."""
        if annotation is None or annotation is type(None):
            return "None"
        if annotation in (int, str, bytes, float, bool, Any):
            return str(annotation.__name__)
        if annotation in INTERNED or annotation in SHARED:
            return None
        if supertype := getattr(annotation, "__supertype__", None):
            return self._plain_layout(supertype)
        if (origin := get_origin(annotation)) is not None:
            inner = [self._plain_layout(it) for it in get_args(annotation) if it is not Ellipsis]
            known = [it for it in inner if it is not None]
            if len(known) < len(inner):
                return None
            if origin in (Union, types.UnionType):
                return "|".join(known)
            return f"{origin.__name__}[{','.join(known)}]" if origin in (tuple, frozenset, Mapping) else None
        if not isinstance(annotation, type) or "STATE" in annotation.__dict__:
            return None
        if issubclass(annotation, Enum):
            return "enum"
        if _frozen(annotation) is False:
            return None
        declared = declared_state(annotation)
        return None if declared is None else self._fields_layout(annotation, declared)

    def _fields_layout(self, cls: type, declared: StateFields) -> str | None:
        stored = stored_fields(cls, declared, self.version).fields
        fields = {name: self._plain_layout(kind) for name, kind in stored.items()}
        if None in fields.values():
            return None
        return f"({','.join(f'{name}:{layout}' for name, layout in fields.items())})"

    def _optional(self, args: tuple[Any, ...]) -> Form:
        (kind,) = (it for it in args if it is not type(None))
        plain, layout, pack, unpack = self.of(kind)
        return Form(
            plain | None,
            f"{layout}?",
            lambda value, to: None if value is None else pack(value, to),
            lambda value, by: None if value is None else unpack(value, by),
        )

    def mapping(self, cls: Any, key: Any, value: Any) -> Form:
        """How dicts of such keys and values are written; `of` keeps it, for types. Forms of a caller's own, which are
        others each time, are given here: there they would be kept for ever."""
        keys = self.of(key)
        assert keys.is_plain, f"{key!r} is no key"
        if get_origin(value) in (Union, types.UnionType) and type(None) not in get_args(value):
            return self._by_class(keys, get_args(value))
        plain_value, layout, pack, unpack = form = self.of(value)
        plain, layout = generic(dict, keys.plain, plain_value), f"{cls.__name__}[{keys.layout},{layout}]"
        if cls is Counter:
            return Form(plain, layout, lambda it, to: dict(it), lambda it, by: counter(it))
        if form.is_plain:
            return Form(plain, layout, lambda it, to: dict(it))
        return Form(
            plain,
            layout,
            lambda it, to: {key: pack(value, to) for key, value in it.items()},
            lambda it, by: {key: unpack(value, by) for key, value in it.items()},
        )

    def _by_class(self, keys: Form, classes: Sequence[type]) -> Form:
        """A dict of objects of several classes: a dict for each class."""
        forms = {cls: self.of(cls) for cls in classes}
        plains = [generic(dict, keys.plain, form.plain) for form in forms.values()]

        def pack(it: dict[Any, Any], to: Packing) -> Any:
            out: dict[type, dict[Any, Any]] = {cls: {} for cls in classes}
            for key, value in it.items():
                out[type(value)][key] = forms[type(value)].pack(value, to)
            return list(out.values())

        def unpack(plain: Any, by: Unpacking) -> Any:
            return {
                key: form.unpack(value, by)
                for form, part in zip(forms.values(), plain, strict=True)
                for key, value in part.items()
            }

        layout = f"dict[{keys.layout},{'/'.join(form.layout for form in forms.values())}]"
        return Form(generic(tuple, *plains), layout, pack, unpack)

    def _collection(self, cls: Any, kind: Any) -> Form:
        plain, layout, pack, unpack = form = self.of(kind)
        plain, layout = generic(list, plain), f"{cls.__name__}[{layout}]"
        if form.is_plain:
            return Form(plain, layout, lambda it, to: list(it), lambda it, by: cls(it))
        return Form(
            plain,
            layout,
            lambda it, to: [pack(value, to) for value in it],
            lambda it, by: cls([unpack(value, by) for value in it]),
        )

    def _by_slot(self, value: Any) -> Form:
        """A dict by topic and partition: two columns."""
        form, is_hashed = self.of(value), value in INTERNED and issubclass(value, tuple)
        pack, unpack = form.pack, form.unpack

        def pack_all(it: Mapping[Slot, Any], to: Packing) -> Any:
            values: Any = it.values()
            if is_hashed:
                values = map(to.interned[value].__getitem__, values)
            elif not form.is_plain:
                values = [pack(value, to) for value in values]
            return list(map(to.slots.__getitem__, it)), list(values)

        def unpack_all(plain: Any, by: Unpacking) -> dict[Slot, Any]:
            numbers, values = plain
            if is_hashed:
                values = map(by.interned[value].__getitem__, values)
            elif not form.is_plain:
                values = [unpack(value, by) for value in values]
            return dict(zip(map(by.slots.__getitem__, numbers), values, strict=True))

        columns = generic(tuple, list[Index], generic(list, form.plain))
        return Form(columns, f"by_slot[{form.layout}]", pack_all, unpack_all)

    def _interned(self, cls: type) -> Form:
        """Values by their number in a table of the image."""
        declared = declared_state(cls)
        layout = None if declared is None else self._fields_layout(cls, declared)
        assert layout is not None, f"{cls.__name__} changes"

        def by_value(value: Any, to: Packing) -> int:
            return to.interned[cls][value]

        def by_identity(value: Any, to: Packing) -> int:
            numbers = to.interned[cls]
            number = numbers.get(id(value))
            if number is None:
                number = numbers[id(value)]
                to.unhashable.setdefault(cls, []).append(value)
            return number

        pack = by_value if issubclass(cls, tuple) else by_identity
        return Form(Index, f"#{layout}", pack, lambda number, by: by.interned[cls][number])

    def _packed(self, cls: Any, declared: StateFields) -> Form:
        """Objects of a class that packs itself."""
        return Form(
            declared.packed,
            f"packed[{','.join(declared)}]",
            lambda it, to: it.pack_state(),
            lambda plain, by: cls.from_state(plain),
        )

    def of_class(
        self,
        cls: Any,
        parameters: Mapping[Any, Any] | None = None,
        *,
        special: Mapping[str, Form] | None = None,
        make: Callable[[], Any] | None = None,
    ) -> Form:
        """How objects of a class are written.

        `parameters`: the types that stand for the class's type variables. `special`: forms of fields that do not go
        by their type. `make` gives an object to set the fields in.
        """
        special, parameters, declared = special or {}, parameters or {}, declared_state(cls)
        assert declared is not None, f"{cls} declares no state"
        stored = stored_fields(cls, declared, self.version)
        if issubclass(cls, tuple):
            assert declared.keys() == stored.fields.keys(), f"{cls.__name__}: named tuples do not migrate"
            forms = [self.of(_substituted(declared[name], parameters)) for name in cls._fields]
            return _row(cls, forms, cls._fields)
        forms = [special.get(name) or self.of(_substituted(kind, parameters)) for name, kind in stored.fields.items()]
        put_together: Callable[[Any, Any, Unpacking], Any] | None = None
        restored = getattr(cls, "after_restore", None)
        is_whole = make is None and issubclass(cls, Struct)
        make = make or partial(cls.__new__, cls)

        def unpack(plain: Any, by: Unpacking, it: Any = None) -> Any:
            nonlocal put_together
            if put_together is None:
                unpacks = tuple(form.unpack for form in forms)
                put_together = _restorer(cls, stored, unpacks, is_whole=is_whole)
            if it is None and not is_whole:
                it = make()
            it = put_together(it, plain, by)
            if restored is not None:
                restored(it)
            return it

        layout = ",".join(f"{name}:{form.layout}" for name, form in zip(stored.fields, forms, strict=True))
        plain = generic(tuple, *(form.plain for form in forms))
        return Form(plain, f"({layout})", _packer([f".{name}" for name in stored.fields], forms), unpack)


def _substituted(annotation: Any, parameters: Mapping[Any, Any]) -> Any:
    """A type with its variables replaced."""
    if isinstance(annotation, TypeVar):
        return parameters[annotation]
    variables = getattr(annotation, "__parameters__", ())
    return annotation[tuple(parameters[it] for it in variables)] if variables and get_args(annotation) else annotation


def _packer(parts: Sequence[str], forms: Sequence[Form]) -> Pack:
    """Makes the tuple of an object's parts, each in its form. `parts`: what stands behind the object to name them.

    A list would be a burden for the garbage collector, a tuple of numbers and texts is none. Compiled as `_restorer`
    is, since it is done under the lock: an image has forty objects of each group of one member."""
    pack_it: Pack | None = None

    def pack(it: Any, to: Packing) -> Any:
        nonlocal pack_it
        if pack_it is None:
            known = {f"p{number}": form.pack for number, form in enumerate(forms)}
            values = (
                f"it{part}" if form.is_plain else f"p{number}(it{part}, to)"
                for number, (part, form) in enumerate(zip(parts, forms, strict=True))
            )
            pack_it = eval(f"lambda it, to: ({''.join(f'{value}, ' for value in values)})", known)
        return pack_it(it, to)

    return pack


def _changed_fields(forms: Sequence[Form]) -> list[tuple[int, Unpack]]:
    return [(number, form.unpack) for number, form in enumerate(forms) if not form.is_plain]


def _unpack_all(forms: Sequence[Form]) -> Unpack:
    changed = _changed_fields(forms)
    if not changed:
        return unchanged

    def unpack(plain: Any, by: Unpacking) -> Any:
        out = list(plain)
        for number, one in changed:
            out[number] = one(out[number], by)
        return out

    return unpack


def _frozen(cls: type) -> bool | None:
    """Whether objects of a class stay as they are made; None where the class does not say."""
    if issubclass(cls, Struct):
        return cls.__struct_config__.frozen
    parameters = getattr(cls, "__dataclass_params__", None)
    return None if parameters is None else parameters.frozen


def _restorer(
    cls: type, stored: StoredFields, unpacks: Sequence[Unpack], *, is_whole: bool
) -> Callable[[Any, Any, Unpacking], Any]:
    """Puts an object together from its plain form: one that `is_whole`, a struct, is made of its fields; in any
    other, which is given, they are set, also where it is frozen.

    It is compiled: several times as fast as a loop, and an image has a million fields. That takes a tenth of a
    millisecond: not before it is needed."""
    values = {
        name: f"v{number}" if unpack is unchanged else f"u{number}(v{number}, by)"
        for number, (name, unpack) in enumerate(zip(stored.fields, unpacks, strict=True))
    }
    values |= {name: f"d{number}()" for number, (name, _) in enumerate(stored.added)}
    lines = [
        "def put_together(it, plain, by):",
        f"    ({''.join(f'v{number}, ' for number in range(len(unpacks)))}) = plain",
    ]
    if is_whole:
        lines.append(f"    return cls({', '.join(f'{name}={value}' for name, value in values.items())})")
    else:
        line = "    put(it, {!r}, {})" if _frozen(cls) else "    it.{} = {}"
        lines += [line.format(name, value) for name, value in values.items()]
        lines.append("    return it")
    known: dict[str, Any] = {"cls": cls, "put": object.__setattr__}
    known |= {f"u{number}": unpack for number, unpack in enumerate(unpacks)}
    known |= {f"d{number}": default for number, (_, default) in enumerate(stored.added)}
    exec("\n".join(lines), known)
    put_together: Callable[[Any, Any, Unpacking], Any] = known["put_together"]
    return put_together


def row_maker(cls: type) -> Callable[[Any], Any]:
    """Makes tuples of a class from values that msgspec has counted: without a call of Python code, as `_make` is."""
    return tuple if cls is tuple else partial(tuple.__new__, cls)


def _row(cls: Any, forms: Sequence[Form], names: Sequence[str] = ()) -> Form:
    """Tuples and named tuples of fixed fields."""
    unpack_all, make = _unpack_all(forms), row_maker(cls)
    labels = names or [""] * len(forms)
    layout = ",".join(f"{name}:{form.layout}" for name, form in zip(labels, forms, strict=True))
    plain = generic(tuple, *(form.plain for form in forms))
    pack = _packer([f"[{number}]" for number in range(len(forms))], forms)
    return Form(plain, f"({layout})", pack, lambda value, by: make(unpack_all(value, by)))


def _by_reference(cls: type, form: Form) -> Form:
    """Objects that were met before as their number."""
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


@cache
def forms_of(version: int) -> Forms:
    """The forms of a version, made once."""
    return Forms(version)


def counter(counts: dict[Any, int]) -> Counter[Any]:
    """A counter of what was counted; its own way is ten times as long."""
    out: Counter[Any] = Counter.__new__(Counter)
    dict.update(out, counts)
    return out
