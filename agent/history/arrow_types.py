"""Tables' columns in pyarrow's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from agent.history.tables import Column

_ARROW: dict[str, Callable[[], Any]] = {
    "string": pa.string,
    "bigint": pa.int64,
    "int": pa.int32,
    "double": pa.float64,
    "boolean": pa.bool_,
    "date": pa.date32,
    "array<string>": lambda: pa.list_(pa.string()),
}


def arrow_schema(columns: Iterable[Column]) -> Any:
    """A table's schema in pyarrow's terms."""
    return pa.schema([(it.name, _ARROW[it.kind]()) for it in columns])
