"""What files must hold to be read: each expected column, with its type. More columns are fine.

A column that is missing would read as null, and a sum over nothing known as if nothing had been: so it is refused by
its name. Files of one table differ, so each that is read is looked at, by its footer, which no engine opens twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from agent.core.events.events import SCHEMA
from agent.history.errors import HistoryError
from agent.history.rollup_reducer import Event
from agent.persistence.export.arrow import HISTORY
from agent.persistence.export.columns import ESCAPED

LATER = ("confidence", "origins", ESCAPED)
"""Columns that are read where files have them."""
OF_EVENTS = tuple(name for name in Event.__struct_fields__ if name != "member")
"""The fields of `Event` that are columns."""
READ = ("schema", "cluster", "group", *(name for name in OF_EVENTS if name not in LATER))
"""The columns of history that rollups are made of. A column that comes to be read later is missing in older files: it
must not stand here, but be read as null where its files lack it."""

EVENTS = pa.schema([HISTORY.field(name) for name in READ])
"""Those, with their types."""

EVENTS_LATER = pa.schema([HISTORY.field(name) for name in LATER])


def check_columns(where: str, found: Any, wanted: Any) -> None:
    """Raises `HistoryError` where `found` (an Arrow schema, of the file `where`) lacks a column of `wanted`, or has
    it with a type whose values are not read as they are."""
    there = {field.name: field.type for field in found}
    wrong = [
        f"expected {field.name} {field.type}, got {there.get(field.name, 'nothing')}"
        for field in wanted
        if field.name not in there or not is_like(there[field.name], field.type)
    ]
    if wrong:
        raise HistoryError(f"{where}: not the columns that are read: {'; '.join(wrong)}")


def check_names(where: str, found: Collection[str], needed: Iterable[str]) -> None:
    """Raises `HistoryError` where `found`, the columns of the file `where`, lack any of `needed`."""
    if lacking := [name for name in needed if name not in found]:
        raise HistoryError(f"{where}: not the columns that are read: there is none of {', '.join(lacking)}")


def check_newest(newest: int | None) -> None:
    """Raises `HistoryError` for events of a newer schema than this version knows.

    To pass over them would make answers that nobody sees to be wrong: so they are refused.
    """
    if newest is not None and newest > SCHEMA:
        raise HistoryError(
            f"expected events of schema version {SCHEMA}, got version {newest}, which a newer kshadow wrote: read"
            " them with that one"
        )


def is_like(came: Any, wanted: Any) -> bool:
    """Whether values of one type are read as those of the other without a change."""
    if came == wanted:
        return True
    if pa.types.is_dictionary(came):
        return is_like(came.value_type, wanted)
    if pa.types.is_string(wanted):
        return any(it(came) for it in (pa.types.is_large_string, pa.types.is_string_view))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_signed_integer(came)) and came.bit_width <= wanted.bit_width
    return False
