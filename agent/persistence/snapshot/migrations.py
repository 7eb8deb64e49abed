"""The version of the image format, and how images of earlier versions are read.

To change what is kept of a class: change its declaration (`agent.core.state_fields`), raise `FORMAT`, and say under
the new number in `MIGRATIONS` what changed. Images of every version since `OLDEST_FORMAT` are then read: the
declarations of that version are derived by undoing the changes. `tests/unit/persistence/snapshot` holds an image and
the layout of each version, and fails where a declaration changed without a version.

A field that has another type now takes another name. Images of before an analyzer came are refused, as those of other
analyzers are.

Needs no entry: a class that is renamed or moved, an enum with one more value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agent.core.shadow.kip848 import ShareGroup
from agent.core.shadow.mirror import PartitionMirror
from agent.core.state_fields import StateFields

FORMAT = 13
"""Of the container and of the fields; also raised where images must not be used though the fields are the same."""

OLDEST_FORMAT = 12
"""Images of versions before are refused. To be raised where a change cannot be told by the table below."""


class Added(NamedTuple):
    """A field that images before do not have; `default` makes its value. In a class that is its own plain form
    (frozen, of plain values) the field's own default is taken."""

    cls: type
    field: str
    default: Callable[[], Any]


MIGRATIONS: dict[int, Sequence[Added]] = {
    13: (
        Added(PartitionMirror, "_leader_epoch", lambda: -1),
        Added(PartitionMirror, "_newest_ms", lambda: -1),
        Added(PartitionMirror, "coordinator_change", lambda: None),
        Added(ShareGroup, "_initialized", int),
        Added(ShareGroup, "_newly_initialized", int),
    ),
}
"""By the version that they came with: what changed since the version before."""


class StoredFields(NamedTuple):
    """The fields of a class in images of a version, by name, with their types then; and those that came since, with
    their defaults."""

    fields: dict[str, Any]
    added: list[tuple[str, Callable[[], Any]]]


def stored_fields(cls: type, declared: StateFields, version: int) -> StoredFields:
    """The fields of a class that declares these now."""
    fields = dict(declared)
    added: list[tuple[str, Callable[[], Any]]] = []
    for number in range(FORMAT, version, -1):
        for change in MIGRATIONS.get(number, ()):
            if change.cls is cls:
                del fields[change.field]
                added.append((change.field, change.default))
    return StoredFields(dict(sorted(fields.items())), added)
