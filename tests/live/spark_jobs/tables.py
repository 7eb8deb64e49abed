"""Rollups as rows, however they were written, to compare one way of making them with another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from agent.history.tables import ROLLED_UP, TABLES


def rows_of(
    directory: Path, until_ms: int | None = None, names: Iterable[str] = TABLES
) -> dict[str, Counter[tuple[Any, ...]]]:
    """Each table's rows; of those that end (an episode: that would show itself over) by `until_ms`, if it is told."""
    return {name: _rows(directory / name, name, until_ms) for name in names}


def _rows(directory: Path, name: str, until_ms: int | None) -> Counter[tuple[Any, ...]]:
    if not any(directory.rglob("*.parquet")):
        return Counter()
    columns = [column.name for column in ROLLED_UP[name] if column.name != "date"]
    table = ds.dataset(directory, format="parquet").to_table(columns).to_pylist()
    kept = [
        row for row in table if until_ms is None or row["end_ms"] + (600_000 if name == "episodes" else 0) <= until_ms
    ]
    return Counter(tuple(row[column] for column in columns) for row in kept)
