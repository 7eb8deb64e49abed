"""SQL over the tables of history: questions alone, of these tables alone.

A database in which the tables are views is closed before a stranger's SQL runs in it: no settings can be changed, no
extension loaded, and no file read beside the tables' own. What is no question (COPY, ATTACH, INSERT, SET, …) is
refused by its kind, so nothing is written either.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from agent.history.arrow_types import arrow_schema
from agent.history.engine import database, explained, pattern
from agent.history.errors import NO_HISTORY, HistoryError
from agent.history.input_schema import READ
from agent.history.opening import View, is_delta, local_path, open_tables, reading
from agent.history.parquet_directory import DATE, ParquetDirectory
from agent.history.report.queries.views import READ as READ_OF_ROLLUPS
from agent.history.tables import STREAMED, TABLES

PORTION = 1_000
"""Rows at a time."""


class Answer(NamedTuple):
    """Columns, each with a name of its own, and rows as they come: values that JSON can say."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]


@contextmanager
def open_for_queries(history: Sequence[str], rollups: str | None, *, memory_mb: int) -> Iterator[Any]:
    """A database with the view `history`, and one of each table of rollups there is. Raises `HistoryError`."""
    with ExitStack() as stack:
        db = stack.enter_context(database(memory_mb))
        if history:
            stack.enter_context(open_tables(db, history, {"": View("history", None, NO_HISTORY, needed=READ)}))
        if rollups is not None:
            views = {
                name: View(name, _columns_if_empty(rollups, name), _NO_ROLLUPS, needed=READ_OF_ROLLUPS.get(name, ()))
                for name in _tables_of(rollups)
            }
            stack.enter_context(open_tables(db, [rollups], views))
        _close(db, [*history, *([] if rollups is None else [rollups])])
        yield db


_NO_ROLLUPS = "expected tables of rollups; kshadow history rollup or kshadow spark rollup makes them"


@reading()
def _tables_of(rollups: str) -> list[str]:
    here = local_path(rollups)
    if here is None:
        return list(TABLES)
    # A stream's output has one more; where there is none at all the first that is missed is named.
    return [name for name in STREAMED if (here / name).is_dir()] or list(TABLES)


@reading()
def _columns_if_empty(rollups: str, name: str) -> Any:
    """Of a table without rows, in which no file tells its columns: those that it will have; else None."""
    here = local_path(rollups)
    if here is None or is_delta(f"{rollups.rstrip('/')}/{name}") or ParquetDirectory(here, (name,)).files(name):
        return None
    return arrow_schema(column for column in STREAMED[name] if column.name != DATE)


def _close(db: Any, roots: Sequence[str]) -> None:
    """Let nothing in but what the views read."""
    places = [path for root in roots if (path := local_path(root)) is not None]
    pins = [ParquetDirectory(path).pins for path in places]
    known = {it for path in (*places, *pins) for it in (path.absolute(), path.resolve())}
    for setting, those in (
        ("allowed_directories", [f"{it}/" for it in known if it.is_dir()]),
        ("allowed_paths", [str(it) for it in known if it.is_file()]),
    ):
        db.execute(f"SET {setting} = ?", [[*those, *map(pattern, those)]])
    db.execute("SET enable_external_access = false")
    db.execute("SET lock_configuration = true")


def ask(db: Any, sql: str) -> Answer:
    """One question's answer. Raises `HistoryError` for what is none, or what cannot be understood."""
    import duckdb

    statements = db.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        came = ", ".join(str(it.type).rpartition(".")[2] for it in statements) or "nothing"
        raise HistoryError(f"expected one SELECT, got {came}: nothing can be changed or written here")
    asked = db.execute(statements[0])
    columns = _distinct([str(it[0]) for it in asked.description])
    return Answer(columns, _rows(asked, columns))


def _rows(asked: Any, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    import duckdb

    try:
        while some := asked.fetchmany(PORTION):
            for row in some:
                yield dict(zip(columns, map(plain, row), strict=True))
    except duckdb.Error as error:
        raise HistoryError(explained(error)) from None


def _distinct(names: Sequence[str]) -> list[str]:
    """Each name once: `count`, `count_1`."""
    out: list[str] = []
    for name in names:
        number, one = 0, name
        while one in out:
            number += 1
            one = f"{name}_{number}"
        out.append(one)
    return out


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON says it: what is no number is null, times are ISO 8601 in UTC, bytes are base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case list() | tuple():
            return [plain(it) for it in value]
        case dict():
            return {str(name): plain(it) for name, it in value.items()}
        case _:
            return str(value)
