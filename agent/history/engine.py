"""DuckDB, as every command here runs it: bounded memory, spill beside it, nothing downloaded, nothing of ours seen.

Owns the connection's settings and the names of types. Must not know what is asked.
"""

from __future__ import annotations

import atexit
import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.common.files import scratch_directory
from agent.common.workers import usable_cores
from agent.history.errors import INSTALL, HistoryError
from agent.history.tables import Column

DEFAULT_MEMORY_MB = 1024
"""Of DuckDB itself; what does not fit is spilled to disk."""

SCRATCH = "kshadow-history-"
"""What directories for what does not fit, or waits to be sorted, are called."""


_DUCKDB = {"string": "VARCHAR", "bigint": "BIGINT", "int": "INTEGER", "array<string>": "VARCHAR[]"}


def duckdb_type(kind: str) -> str:
    """DuckDB's name of a column's type (`agent.history.tables.Column.kind`)."""
    return _DUCKDB.get(kind, kind.upper())


@contextmanager
def database(memory_mb: int = DEFAULT_MEMORY_MB, *, keeps_order: bool = False) -> Iterator[Any]:
    """An empty database in memory, with a directory for what does not fit. Raises `HistoryError` without DuckDB.

    `keeps_order`: rows come in the order of the files, which takes more memory where there are many.

    Errors of DuckDB that come out of the block are `HistoryError`s, those that say that memory or disk are used up
    among them.
    """
    try:
        import duckdb
    except ImportError:
        raise HistoryError(f"expected the Python package duckdb, it is not installed: {INSTALL}") from None
    _collect_at_exit()
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_mb}MB",
        "threads": usable_cores(),
        "preserve_insertion_order": keeps_order,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        # A name in SQL is a table's, never a variable of this program.
        "python_enable_replacements": False,
    }
    try:
        with (
            scratch_directory(SCRATCH) as spill,
            duckdb.connect(":memory:", config={**config, "temp_directory": str(spill)}) as connection,
        ):
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            # Divided by nothing is null.
            connection.execute("SET ieee_floating_point_ops = false")
            connection.execute("SET error_on_division_by_zero = false")
            yield connection
    except duckdb.Error as error:
        raise HistoryError(explained(error)) from error


def _collect_at_exit() -> None:
    """DuckDB's bindings say on standard error what is left of them when Python ends: let all of it go. The command
    line spares itself that (`agent.cli.main`)."""
    atexit.unregister(gc.freeze)
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)


def explained(error: Exception) -> str:
    """What an error of DuckDB says, without its pointers into the SQL, and what to do where that is known."""
    text = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if type(error).__name__ == "OutOfMemoryException":
        return f"{text}: give more with --memory, or room for what does not fit with TMPDIR"
    return text


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def columns_of(table: Sequence[Column]) -> str:
    """The columns of a table, in its order and types, to be selected."""
    return ", ".join(f"CAST({quoted(it.name)} AS {duckdb_type(it.kind)}) AS {quoted(it.name)}" for it in table)


def rows(db: Any, sql: str) -> list[dict[str, Any]]:
    """What a query gives, all of it."""
    asked = db.execute(sql)
    names = [it[0] for it in asked.description]
    return [dict(zip(names, row, strict=True)) for row in asked.fetchall()]


def one_row(db: Any, sql: str) -> dict[str, Any]:
    """Of a query that has exactly one row, this."""
    (row,) = rows(db, sql)
    return row


def parquet(files: Iterable[Path | str], *options: str) -> str:
    """The rows of Parquet files, in SQL. What the directories above them are called (`cluster=prod`) is no column."""
    names = f"[{', '.join(text(pattern(it)) for it in files)}]"
    return f"read_parquet({', '.join([names, 'hive_partitioning = false', *options])})"


def pattern(path: Path | str) -> str:
    """A path as SQL takes it, which is a pattern there."""
    return re.sub(r"[][*?]", r"[\g<0>]", str(path))
