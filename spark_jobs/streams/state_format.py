"""How what a stream keeps between batches is written in its checkpoint, and read again, also after an update.

To Spark each state is opaque: one column of bytes, whose name and type never change, so no change of ours meets its
own check of state schemas. In front of the bytes stands of which version they are:

    magic (8 bytes)  version (2)  MessagePack of a Struct, by the fields' names

To change what is kept (a field of `GroupState`, of `GroupRollup` and the classes in it, or of `FindingsState`):

1. change the class; a field that comes new needs a default,
2. raise `version` of its `StateFormat`,
3. `python -m tests.unit.spark_jobs.making_states` keeps a state and the layout of the new version beside that of the
   version before; tests fail where a class changed without a version, or where a kept state is not read any more.

The mirror's state is an image of the agent's (`agent.persistence.snapshot`), which has all of this of its own.
"""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from agent.persistence.snapshot.errors import MALFORMED
from spark_jobs.errors import StateRefused

MAGIC = b"kshadow\x01"
_HEAD = struct.Struct(">8sH")

State = TypeVar("State", bound=Struct)


class StateFormat(Generic[State]):
    """Writes and reads one kind of state."""

    def __init__(self, name: str, kind: type[State], *, version: int) -> None:
        """`name` says in words whose state it is."""
        self.name, self.version, self.kind = name, version, kind
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(kind).decode

    def encode(self, state: State) -> bytes:
        """The bytes to keep."""
        return _HEAD.pack(MAGIC, self.version) + self._encode(state)

    def decode(self, kept: bytes) -> State:
        """What was kept; where an older version lacks fields, they have their defaults. Raises `StateRefused`."""
        if not kept.startswith(MAGIC) or len(kept) < _HEAD.size:
            raise StateRefused(f"{self.name}: {len(kept)} bytes came that are no state, or one of an early build")
        _, version = _HEAD.unpack_from(kept)
        if version > self.version:
            raise StateRefused(
                f"{self.name}: expected versions up to {self.version}, got version {version}, which a newer kshadow"
                " wrote: go on with that one"
            )
        try:
            return self._decode(memoryview(kept)[_HEAD.size :])
        except MALFORMED as error:
            raise StateRefused(
                f"{self.name}: version {version} cannot be read: {type(error).__name__}: {error}"
            ) from error
