"""How what a stream keeps between batches is written in its checkpoint, and how what earlier releases wrote is read.

To Spark each state is opaque: one column of bytes, whose name and type never change, so no change of ours meets its
own check of state schemas. In front of the bytes stands of which version they are:

    magic (8 bytes)  version (2)  MessagePack of a Struct, by the fields' names

To change what is kept (a field of `GroupState`, of `GroupRollup` and the classes in it, or of `FindingsState`):

1. change the class; a field that comes new needs a default,
2. raise `version` of its `StateFormat`,
3. where a default is not enough (a field that is renamed, goes, or has another type), say under the new number in
   `migrations` how the plain data of the version before (dicts, lists, numbers, texts) become those of the new one,
4. `python -m tests.unit.spark_jobs.making_states` keeps a state and the layout of the new version beside those of the
   versions before; tests fail where a class changed without a version, or where a kept state is not read any more.

The mirror's state is an image of the agent's (`agent.persistence.snapshot`), which has all of this of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from agent.persistence.snapshot.errors import MALFORMED
from spark_jobs.errors import StateRefused

MAGIC = b"kshadow\x01"
_HEAD = struct.Struct(">8sH")

UNVERSIONED = 1
"""The version of what has no head: the first release wrote plain MessagePack."""

Migration = Callable[[dict[str, Any]], dict[str, Any]]

State = TypeVar("State", bound=Struct)


class StateFormat(Generic[State]):
    """Writes and reads one kind of state."""

    def __init__(self, name: str, kind: type[State], *, version: int, migrations: Mapping[int, Migration]) -> None:
        """`name` says in words whose state it is. `migrations`: by version, from the plain data of the one before."""
        self.name, self.version = name, version
        self.kind, self._migrations = kind, migrations
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def encode(self, state: State) -> bytes:
        """The bytes to keep."""
        return _HEAD.pack(MAGIC, self.version) + self._encode(state)

    def decode(self, kept: bytes) -> State:
        """What was kept, of whatever version. Raises `StateRefused`."""
        version, body = UNVERSIONED, memoryview(kept)
        if kept.startswith(MAGIC):
            if len(kept) < _HEAD.size:
                raise StateRefused(f"{self.name}: {len(kept)} bytes came, too few for a state")
            _, version = _HEAD.unpack_from(kept)
            body = body[_HEAD.size :]
        if version > self.version:
            raise StateRefused(
                f"{self.name}: expected versions up to {self.version}, got version {version}, which a newer kshadow"
                " wrote: go on with that one"
            )
        try:
            # Versions in which only fields with defaults came are read as they are.
            changes = [self._migrations[it] for it in range(version + 1, self.version + 1) if it in self._migrations]
            if not changes:
                return self._decode(body)
            plain = msgspec.msgpack.decode(body)
            for change in changes:
                plain = change(plain)
            return msgspec.convert(plain, self.kind)
        except (*MALFORMED, AttributeError) as error:
            raise StateRefused(
                f"{self.name}: version {version} cannot be read: {type(error).__name__}: {error}"
            ) from error
