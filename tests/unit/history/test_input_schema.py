"""What files must hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from agent.history.errors import HistoryError
from agent.history.input_schema import EVENTS, check_columns
from agent.persistence.export.arrow import HISTORY


def test_what_kshadow_writes_and_more() -> None:
    check_columns("a", HISTORY, EVENTS)
    check_columns("a", HISTORY.append(pa.field("of_tomorrow", pa.list_(pa.int8()))), EVENTS)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("type", pa.large_string()), ("type", pa.dictionary(pa.int32(), pa.string())), ("at_ms", pa.int32())],
)
def test_types_whose_values_are_the_same(name: str, kind: pa.DataType) -> None:
    check_columns("a", EVENTS.set(EVENTS.get_field_index(name), pa.field(name, kind)), EVENTS)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("at_ms", pa.timestamp("ms")), ("at_ms", pa.uint64()), ("at_ms", pa.string()), ("cause", pa.binary())],
)
def test_another_type_is_refused(name: str, kind: pa.DataType) -> None:
    wanted = EVENTS.field(name).type
    with pytest.raises(HistoryError, match=rf"^a/b: not the columns .*: expected {name} {wanted}, got .*$"):
        check_columns("a/b", EVENTS.set(EVENTS.get_field_index(name), pa.field(name, kind)), EVENTS)
