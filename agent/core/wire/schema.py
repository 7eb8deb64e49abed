"""A message is a frozen struct, and the struct is its own schema.

Each field says its wire type and, where they matter, the versions that have it (`since`, `until`), from
which version it may be null, and its tag. `read` and `write` for one version are compiled from that on first
use and kept. The rules for tagged fields are KIP-482's: unknown tags are kept in `unknown_tags` and written
back, a tagged field at its default is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from msgspec import Struct, StructMeta

from agent.common.interning import Interner
from agent.core.wire import primitives as p
from agent.core.wire.errors import Invalid, TrailingBytes, Truncated, WireError

_DEFAULT: Any = object()

MOST_REPEATED_BYTES = 1_000
"""What is longer is not looked up among values that were read before."""

MOST_REPEATED = 4_096
"""So many values of a field, or messages of a kind, are known at a time."""

MOST_REPEATED_MESSAGE_BYTES = 200
"""Messages that take more are each read."""


class WireType(Struct, frozen=True):
    """A wire type; its codec depends on whether the version is flexible and the field nullable."""

    name: str
    of: WireType | None = None
    struct: type[Message] | None = None


INT8 = WireType("int8")
INT16 = WireType("int16")
UINT16 = WireType("uint16")
INT32 = WireType("int32")
INT64 = WireType("int64")
UUID = WireType("uuid")
STRING = WireType("string")
BYTES = WireType("bytes")


def array(of: WireType | type[Message]) -> WireType:
    """An array of a type or of a nested message; its Python form is a tuple."""
    return WireType("array", of=of if isinstance(of, WireType) else nested(of))


def nested(message: type[Message]) -> WireType:
    """A nested message."""
    return WireType("struct", struct=message)


class FieldSpec(Struct, frozen=True):
    """What a field's declaration says beyond its Python type. `nullable` is the first version that may be null.

    `repeats`: most messages have one of few values, which are kept as one object each."""

    type: WireType
    since: int = 0
    until: int | None = None
    nullable: int | None = None
    tag: int | None = None
    repeats: bool = False

    def in_version(self, version: int) -> bool:
        """Whether `version` has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


def wire(
    type: WireType,
    *,
    since: int = 0,
    until: int | None = None,
    nullable: int | None = None,
    tag: int | None = None,
    default: Any = _DEFAULT,
    repeats: bool = False,
) -> Any:
    """Declare a field. `default` is what a version without the field, or without its tag, stands for.

    Left out, it is what Kafka's generated classes start with: zero, an empty text, no elements.
    """
    if default is _DEFAULT:
        default = _ZERO_VALUES[type.name]
    return _Declared(FieldSpec(type, since, until, nullable, tag, repeats), default)


_ZERO_VALUES = dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), 0) | {
    "uuid": p.ZERO_UUID,
    "string": "",
    "bytes": b"",
    "array": (),
    "struct": None,
}


class _Declared(NamedTuple):
    """What `wire` says of a field."""

    spec: FieldSpec
    default: Any


class MessageMeta(StructMeta):
    """Keeps what the fields of a message declare: a struct has only their defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        """The class, with its fields' declarations as `WIRE`, by name."""
        fields = {field: it for field, it in namespace.items() if isinstance(it, _Declared)}
        defaults = {field: it.default for field, it in fields.items()}
        return super().__new__(cls, name, bases, {**namespace, **defaults, "WIRE": fields}, **options)


class Message(Struct, frozen=True, kw_only=True, gc=False, metaclass=MessageMeta):
    """Base of all messages. `flexible` is the first version with compact forms and tags, None for never."""

    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible: ClassVar[int | None] = None
    WIRE: ClassVar[dict[str, _Declared]]

    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields of a newer Kafka: `(tag, bytes)`, ascending."""

    @classmethod
    def read(cls, buffer: bytes, at: int, version: int) -> tuple[Self, int]:
        """Read one message of `version` from `at`; returns it and the position behind it."""
        return _codec(cls, version)[0](buffer, at)

    @classmethod
    def read_whole(cls, buffer: bytes, at: int, version: int) -> Self:
        """Read one message that must end where the buffer ends; raises `TrailingBytes` if it does not."""
        message, end = cls.read(buffer, at, version)
        if end != len(buffer):
            raise TrailingBytes(f"{cls.__name__} ends at byte {end}, {len(buffer) - end} bytes follow")
        return message

    @staticmethod
    def end_of(buffer: bytes, at: int) -> int:
        """Where the message that begins there would end. A class that has this is one whose messages come again and
        again, to the byte: they are read once. Raises `struct.error` where the bytes end first."""
        raise NotImplementedError

    def write(self, out: bytearray, version: int) -> None:
        """Append this message as `version` would write it; fields the version lacks are left out."""
        _codec(type(self), version)[1](out, self)


def field_specs(message: type[Message]) -> list[tuple[str, FieldSpec, Any]]:
    """The wire fields of a message in order: name, spec, default."""
    return [(name, *declared) for name, declared in message.WIRE.items()]


def is_flexible(message: type[Message], version: int) -> bool:
    """Whether `version` of the message has compact forms and tagged fields."""
    return message.flexible is not None and version >= message.flexible


_NUMBERS = {
    "int8": (p.read_int8, p.write_int8),
    "int16": (p.read_int16, p.write_int16),
    "uint16": (p.read_uint16, p.write_uint16),
    "int32": (p.read_int32, p.write_int32),
    "int64": (p.read_int64, p.write_int64),
    "uuid": (p.read_uuid, p.write_uuid),
}


def _field_codec(
    kind: WireType, version: int, *, compact: bool, nullable: bool, tagged: bool = False
) -> tuple[p.Reader, p.Writer]:
    match kind.name:
        case "string":
            return p.string_codec(compact=compact, nullable=nullable)
        case "bytes":
            return p.bytes_codec(compact=compact, nullable=nullable)
        case "array":
            assert kind.of is not None, "an array has an element type"
            element = _field_codec(kind.of, version, compact=compact, nullable=False)
            return p.array_codec(element, compact=compact, nullable=nullable)
        case "struct":
            assert kind.struct is not None, "a struct has a message class"
            codec = _codec(kind.struct, version)
            return _nullable_struct(codec, tagged=tagged) if nullable else codec
        case name:
            return _NUMBERS[name]


def _nullable_struct(codec: tuple[p.Reader, p.Writer], *, tagged: bool) -> tuple[p.Reader, p.Writer]:
    # A nullable struct says first whether it is there; Kafka writes 1 for that. For null, Kafka's generator
    # writes the byte -1 (read: below 0), but in a tagged field the varint 0.
    read_struct, write_struct = codec
    read_presence, null = (p.read_uvarint, 0) if tagged else (p.read_int8, -1)

    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        presence, after = read_presence(buffer, at)
        return (None, after) if presence <= null else read_struct(buffer, after)

    def write(out: bytearray, value: Any) -> None:
        p.write_int8(out, null if value is None else 1)
        if value is not None:
            write_struct(out, value)

    return read, write


_CODECS: dict[tuple[type[Message], int], tuple[p.Reader, p.Writer]] = {}


def _codec(message: type[Message], version: int) -> tuple[p.Reader, p.Writer]:
    codec = _CODECS.get((message, version))
    if codec is None:
        codec = _CODECS[message, version] = _compile(message, version)
    return codec


def _compile(message: type[Message], version: int) -> tuple[p.Reader, p.Writer]:
    compact = is_flexible(message, version)
    plain: list[tuple[int, str, p.Reader, p.Writer]] = []
    tagged: dict[int, tuple[int, str, p.Reader, p.Writer]] = {}
    defaults: list[Any] = []
    for index, (name, spec, default) in enumerate(field_specs(message)):
        defaults.append(default)
        if not spec.in_version(version):
            continue
        nullable = spec.nullable is not None and version >= spec.nullable
        read, write = _field_codec(
            spec.type, version, compact=compact, nullable=nullable, tagged=spec.tag is not None
        )
        if spec.repeats:
            read = _as_one_object(read)
        if spec.tag is None:
            plain.append((index, name, read, write))
        else:
            tagged[spec.tag] = (index, name, read, write)

    def read_message(buffer: bytes, at: int) -> tuple[Message, int]:
        values = defaults.copy()
        name = ""
        try:
            for index, name, read, _ in plain:  # noqa: B007 - name is for the except below
                values[index], at = read(buffer, at)
            if not compact:
                return message(*values), at
            if at < len(buffer) and buffer[at] == 0:  # no tags: nearly every message
                return message(*values), at + 1
            name = "tags"
            unknown, at = _read_tags(buffer, at, tagged, values)
        except WireError as error:
            error.prepend_path(name)
            raise
        return message(*values, unknown_tags=unknown), at

    def write_message(out: bytearray, value: Any) -> None:
        for _, name, _, write in plain:
            write(out, getattr(value, name))
        if compact:
            _write_tags(out, value, tagged, defaults)

    has_end = message.end_of is not Message.end_of
    return _read_once(read_message, message.end_of) if has_end else read_message, write_message


def _read_once(read: p.Reader, end_of: Callable[[bytes, int], int]) -> p.Reader:
    known: dict[bytes, Message] = {}

    def read_one(buffer: bytes, at: int) -> tuple[Message, int]:
        try:
            end = end_of(buffer, at)
        except struct.error:
            return read(buffer, at)  # it says what is wrong
        if end - at > MOST_REPEATED_MESSAGE_BYTES:
            return read(buffer, at)
        raw = buffer[at:end]
        message = known.get(raw)
        if message is None:
            message, end = read(buffer, at)
            if len(known) >= MOST_REPEATED:
                known.clear()
            known[raw] = message
        return message, end

    return read_one


def _as_one_object(read: p.Reader) -> p.Reader:
    one_object: Interner[Any] = Interner(MOST_REPEATED)

    def read_one(buffer: bytes, at: int) -> tuple[Any, int]:
        value, end = read(buffer, at)
        return (one_object[value] if end - at <= MOST_REPEATED_BYTES else value), end

    return read_one


_Tagged = dict[int, tuple[int, str, p.Reader, p.Writer]]


def _read_tags(
    buffer: bytes, at: int, tagged: _Tagged, values: list[Any]
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    count, at = p.read_uvarint(buffer, at)
    unknown: list[tuple[int, bytes]] = []
    previous = -1
    for _ in range(count):
        start = at
        tag, at = p.read_uvarint(buffer, at)
        size, at = p.read_uvarint(buffer, at)
        if tag <= previous:
            raise Invalid(f"tag {tag} at byte {start} follows tag {previous}; tags ascend")
        previous = tag
        end = at + size
        if end > len(buffer):
            raise Truncated(f"tag {tag} of {size} bytes expected at byte {at}, {len(buffer) - at} left")
        if tag not in tagged:
            unknown.append((tag, buffer[at:end]))
            at = end
            continue
        index, name, read, _ = tagged[tag]
        values[index], used = read(buffer, at)
        if used != end:
            raise Invalid(f"tag {tag} ({name}) declares {size} bytes at byte {at}, its value takes {used - at}")
        at = end
    return tuple(unknown), at


def _write_tags(out: bytearray, value: Any, tagged: _Tagged, defaults: list[Any]) -> None:
    fields: list[tuple[int, bytes]] = list(value.unknown_tags)
    for tag, (index, name, _, write) in tagged.items():
        item = getattr(value, name)
        if item != defaults[index]:
            body = bytearray()
            write(body, item)
            fields.append((tag, bytes(body)))
    p.write_uvarint(out, len(fields))
    for tag, raw in sorted(fields):
        p.write_uvarint(out, tag)
        p.write_uvarint(out, len(raw))
        out += raw
