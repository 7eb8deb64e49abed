"""Tables of history, as they lie in a directory or a bucket → views of a database.

Owns what a table may be: Parquet files parted by date (`date=2026-11-21`), or a Delta table. Looks at the schema of
each file that is read: a column that is missing or of another type is refused by its name, more columns are fine.
Must not know what is asked of the tables.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import date
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from agent.history.engine import duckdb_type, parquet, quoted
from agent.history.errors import NO_HISTORY, HistoryError, HistoryUnreachable, error_of
from agent.history.input_schema import check_columns, check_names, is_like
from agent.history.parquet_directory import DATE, DELTA_LOG, ParquetDirectory
from agent.persistence.export.filesystems import store_error_text
from agent.persistence.export.log_clock import DIRECTORY as CLOCKS
from agent.persistence.export.log_clock import LogClock, decode_clock

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


class Bounds(NamedTuple):
    """The dates (YYYY-MM-DD, both part of it) whose files are read; None: no bound."""

    first: str | None = None
    last: str | None = None


EVERY_DAY = Bounds()


def local_path(path: str) -> Path | None:
    """The path on this machine; None for one of another file system."""
    found = _SCHEME.match(path)
    if found is None:
        return Path(path)
    return Path(urlsplit(path).path) if found[1] == "file" else None


@contextmanager
def reading() -> Iterator[None]:
    """What may not be read, or cannot be, is a `HistoryError`."""
    try:
        yield
    except OSError as error:
        raise error_of(error) from None


def is_delta(path: str) -> bool:
    """Whether a Delta table is there."""
    here = local_path(path)
    if here is not None:
        return (here / DELTA_LOG).is_dir()
    with _deltalake(path) as lake:
        return bool(lake.DeltaTable.is_deltatable(_uri(path), storage_options=_storage_options(path)))


class View(NamedTuple):
    """A view of a table: its name, the columns that it must have (None: it has those that are there), and what is
    said where there is no such table."""

    name: str
    wanted: pa.Schema | None
    missing: str
    later: pa.Schema = pa.schema([])
    """Columns that are null where there are none: they came later than others."""
    needed: Collection[str] = ()
    """Where no columns are wanted: the names of those that each file has, of whatever type."""
    compared: pa.Schema = pa.schema([])
    """Those of them that questions compare, whose type goes for all files."""


@contextmanager
def open_tables(db: Any, roots: Sequence[str], views: Mapping[str, View], days: Bounds = EVERY_DAY) -> Iterator[None]:
    """Make a view of each table, named by its folder below the roots (`""`: a root is the table itself); of several
    roots all rows together. They stay as they are until the block ends. Raises `HistoryError`.
    """
    with ExitStack() as pins:
        selects: dict[str, list[str]] = {folder: [] for folder in views}
        files: dict[str, str] = {}
        with reading():
            for number, root in enumerate(roots):
                for folder, select in _open_root(db, root, views, days, number, pins, files).items():
                    selects[folder].append(select)
        pins.enter_context(_naming_damaged(files))
        for folder, view in views.items():
            db.execute(f"CREATE VIEW {quoted(view.name)} AS {' UNION ALL BY NAME '.join(selects[folder])}")
        yield


@contextmanager
def _naming_damaged(files: Mapping[str, str]) -> Iterator[None]:
    """Whose end is sound may be damaged before it, which is met as rows are read: DuckDB then says what, but not
    always in which file, and by another name than people know."""
    try:
        yield
    except Exception as error:
        if not _may_be_damage(error):
            raise
        for path, name in files.items():
            if (reason := _damage(path)) is not None:
                raise HistoryError(f"{name}: expected a Parquet file, this one is damaged: {reason}") from error
        if isinstance(error, pa.ArrowException | OSError):
            raise HistoryError(f"the tables cannot be read: {store_error_text(error)}") from error
        raise


def _may_be_damage(error: Exception) -> bool:
    """Not what is wrong with a query, nor what the system does not let be done."""
    import duckdb

    match error:
        case duckdb.ProgrammingError():
            return "Failed to read file" in str(error)
        case duckdb.OutOfMemoryException() | duckdb.DataError() | duckdb.InterruptException():
            return False
        case OSError():
            return type(error) is OSError and error.errno is None  # pyarrow's
        case _:
            return isinstance(error, duckdb.Error | pa.ArrowException)


def _damage(path: str) -> str | None:
    """What keeps the rows of a file from being read, None for nothing."""
    try:
        for _ in pq.ParquetFile(path).iter_batches():
            pass
    except (OSError, pa.ArrowException) as error:
        return store_error_text(error)
    return None


def _open_root(
    db: Any,
    root: str,
    views: Mapping[str, View],
    days: Bounds,
    number: int,
    pins: ExitStack,
    files: dict[str, str],
) -> dict[str, str]:
    """The query of each table, by its folder; `files` takes each that is read, with the name by which people know
    it."""
    places = {folder: f"{root.rstrip('/')}/{folder}" if folder else root for folder in views}
    here = None if (path := local_path(root)) is None else path.absolute()
    for folder, place in places.items():
        path = local_path(place)
        if path is not None and not path.exists():
            raise HistoryError(f"{place} is not there: {views[folder].missing}")
    delta = {folder for folder, place in places.items() if is_delta(place)}
    plain = [folder for folder in views if folder not in delta]
    out = {}
    for folder in delta:
        raw = f"{views[folder].name} of {number}"
        dataset = _delta_dataset(places[folder])
        out[folder] = _of_dataset(db, raw, dataset, {places[folder]: dataset.schema}, views[folder], days)
    if here is None:
        for folder in plain:
            raw = f"{views[folder].name} of {number}"
            dataset = _remote_dataset(places[folder], views[folder].missing)
            schemas = _remote_schemas(places[folder], dataset, days)
            out[folder] = _of_dataset(db, raw, dataset, schemas, views[folder], days)
    elif here.is_file():
        files[str(here)] = str(here)
        out = {folder: _of_files({str(here): str(here)}, view) for folder, view in views.items()}
    elif plain:
        pin = pins.enter_context(ParquetDirectory(here, tuple(plain)).pin(days.first, days.last))
        for folder in plain:
            pinned = {str(file.path): str(here / file.path.relative_to(pin.root)) for file in pin.files(folder)}
            files |= pinned
            out[folder] = _of_files(pinned, views[folder])
    return out


@reading()
def dates_of(path: str) -> list[str] | None:
    """The dates by which a table is parted, in order; None where files lie in no directory of a day. Raises
    `HistoryError`."""
    if is_delta(path):
        found = {str(it.get(DATE)) for it in _delta_table(path).partitions()}
        return None if "None" in found else sorted(found)
    here = local_path(path)
    if here is None:
        names = [re.search(rf"/{DATE}=([^/]+)/", it) for it in _remote_dataset(path, NO_HISTORY).files]
        return None if None in names else sorted({it[1] for it in names if it is not None})
    if here.is_file():
        return None
    dates = ParquetDirectory(here).dates()
    return None if None in dates else sorted(it for it in dates if it is not None)


@reading()
def clocks_of(path: str, say: Callable[[str], None]) -> list[LogClock]:
    """What the writers of a history knew. A file that says nothing is told of and passed over. Raises
    `HistoryError`."""
    found = []
    try:
        for name, body in _clock_files(path):
            try:
                found.append(decode_clock(body))
            except msgspec.MsgspecError as error:
                say(f"{name}: expected up to when time has passed: {error}: passed over")
    except ImportError as error:
        # A Delta table is read there without fsspec's client of the store.
        say(f"{path}/{CLOCKS}: up to when time has passed cannot be read: {error}")
    return found


def _clock_files(path: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents, in order."""
    here = local_path(path)
    try:
        if here is not None:
            names = [str(it) for it in (here / CLOCKS).iterdir()]
        else:
            with _asking(path):
                store, inside = _store(f"{path.rstrip('/')}/{CLOCKS}")
                names = store.ls(inside, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        last = name.rpartition("/")[2]
        if last.endswith(".json") and not last.startswith("."):
            try:
                with _asking(path):
                    body = Path(name).read_bytes() if here is not None else store.cat_file(name)
            except FileNotFoundError:
                continue  # its writer puts another one there just now
            yield name, body


def _of_dataset(db: Any, raw: str, dataset: Any, schemas: Mapping[str, pa.Schema], view: View, days: Bounds) -> str:
    """Of a dataset, with the schema of each file, or of all, by the name by which people know it."""
    wanted = _wanted(schemas, view)
    # The dataset's own schema is that of its first file: what that lacks would be null in all.
    read = {it.name: it for schema in reversed([*schemas.values()]) for it in schema}
    names = [it for it in (*wanted.names, *view.later.names) if it in read]
    parted = [dataset.schema.field(DATE)] if DATE in dataset.schema.names else []
    dataset = dataset.replace_schema(pa.schema([*(read[it] for it in names), *parted]))
    db.register(raw, dataset)
    # A Delta table may have its dates as another type; what is compared with the column itself is not read in vain.
    kind = "" if DATE in dataset.schema.names and is_like(dataset.schema.field(DATE).type, pa.string()) else "DATE "
    bounds = [f"{DATE} {sign} {kind}'{day}'" for sign, day in ((">=", days.first), ("<=", days.last)) if day]
    return (
        f"SELECT {', '.join(_columns(wanted, view.later, dataset.schema.names))}, CAST({DATE} AS DATE) AS {DATE}"
        f" FROM {quoted(raw)} WHERE {' AND '.join(bounds) or 'true'}"
    )


def _of_files(files: Mapping[str, str], view: View) -> str:
    """Of Parquet files, each with the name by which people know it."""
    # Of one schema at a time: to match columns by name DuckDB keeps the footers of all files, 200 kB each.
    alike: dict[pa.Schema, list[str]] = {}
    for path, name in files.items():
        alike.setdefault(read_schema(path, name), []).append(path)
    wanted = _wanted({files[paths[0]]: schema for schema, paths in alike.items()}, view)
    if not files:
        nulls = ", ".join(map(_null, [*wanted, *view.later]))
        return f"SELECT {nulls or 'NULL AS nothing'}, CAST(NULL AS DATE) AS {DATE} WHERE false"
    parted = all(f"/{DATE}=" in path for path in files)
    time = _TIME[_TIME[0] not in wanted.names]
    selects = []
    for schema, paths in alike.items():
        there = set(schema.names)
        at = time if time in there else "NULL"
        date = _DATE_OF_PATH if parted else f"TRY(CAST(make_timestamp({at} * 1000) AS DATE))"
        columns = _columns(pa.schema(it for it in wanted if it.name in there), view.later, there)
        selects.append(f"SELECT {', '.join([*columns, date])} AS {DATE} FROM {parquet(paths, _WITH_PATH)}")
    return " UNION ALL BY NAME ".join(selects)


def _wanted(schemas: Mapping[str, pa.Schema], view: View) -> pa.Schema:
    """The columns that are read of files, by whose names it is said what they lack."""
    if view.wanted is not None:
        for name, found in schemas.items():
            check_columns(name, found, view.wanted)
        return view.wanted
    for name, found in schemas.items():
        check_names(name, found.names, view.needed)
    return _unified(schemas, view.compared)


def _columns(wanted: pa.Schema, later: pa.Schema, there: Collection[str]) -> list[str]:
    """The columns of a query: those of `later` are null where they are not there."""
    return [*map(quoted, wanted.names), *(quoted(it.name) if it.name in there else _null(it) for it in later)]


def _null(field: Any) -> str:
    return f"CAST(NULL AS {duckdb_type_of(field.type)}) AS {quoted(field.name)}"


_PATH = "path of the file"
_WITH_PATH = f"filename = '{_PATH}'"
_DATE_OF_PATH = f"CAST(regexp_extract({quoted(_PATH)}, '.*/{DATE}=([^/]+)/', 1) AS DATE)"
"""Of the last folder of a day. DuckDB opens no file whose path is not of the days that are asked for."""

_TIME = ("at_ms", "start_ms")
"""What the date is of, in history and in rollups."""


def _unified(schemas: Mapping[str, pa.Schema], known: pa.Schema) -> pa.Schema:
    """The columns of several files, each as it is known or came first; but for the date, which is the folder's."""
    fields: dict[str, Any] = {field.name: field for field in known}
    for name, schema in schemas.items():
        for field in schema:
            first = fields.setdefault(field.name, field)
            kinds = field.type, first.type
            if not (
                is_like(*kinds)
                or is_like(*reversed(kinds))
                or any(map(pa.types.is_null, kinds))
                or all(map(pa.types.is_nested, kinds))
            ):
                there = "" if field.name in known.names else " as in other files"
                raise HistoryError(f"{name}: column {field.name}: expected {first.type}{there}, got {field.type}")
    return pa.schema([field for name, field in fields.items() if name != DATE])


def read_schema(path: str, name: str) -> pa.Schema:
    """The schema of a file. Raises `HistoryError` for one that is damaged."""
    try:
        return pq.read_schema(path)
    except PermissionError:
        raise HistoryUnreachable(f"{name}: {os.strerror(errno.EACCES)}") from None
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).partition(". ")[0].replace(path, name)
        raise HistoryError(f"{name}: expected a Parquet file, this one is damaged or none: {reason}") from None


def duckdb_type_of(kind: Any) -> str:
    """DuckDB's name of one of pyarrow's types."""
    names = {pa.string(): "string", pa.int64(): "bigint", pa.int32(): "int", pa.date32(): "date"}
    return duckdb_type(names.get(kind, str(kind)))


@contextmanager
def _deltalake(path: str) -> Iterator[Any]:
    """The library, for what is asked of one table. Raises `HistoryError` where it is not there, or cannot read it."""
    try:
        import deltalake
    except ImportError:
        raise HistoryError(
            "expected the Python package deltalake, for Delta tables; it is not installed: install kshadow[delta]"
        ) from None
    try:
        yield deltalake
    except OSError as error:
        reason = store_error_text(error)
        is_missing = "status code 404" in reason
        raise (HistoryError if is_missing else HistoryUnreachable)(f"{path}: cannot be read: {reason}") from None
    except deltalake.exceptions.DeltaError as error:
        raise HistoryError(f"{path}: the Delta table cannot be read here: {store_error_text(error)}") from None


@contextmanager
def _asking(path: str) -> Iterator[None]:
    """What keeps a store from answering is told by the path. Its client raises what it likes: the errors of botocore
    and of HTTP clients are none of the system's."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, ImportError, HistoryError, pa.ArrowInvalid):
        raise
    except Exception as error:
        if type(error) is OSError and error.errno is None:
            raise  # pyarrow's, of a file that is damaged
        raise HistoryUnreachable(f"{path}: cannot be read: {store_error_text(error)}") from None


def _store(path: str) -> tuple[Any, str]:
    """What reads an object store, and the path in it. Raises `ImportError` where a package for it is missing."""
    import fsspec

    try:
        store: tuple[Any, str] = fsspec.url_to_fs(_uri(path))
    except ValueError as error:
        raise HistoryError(f"{path}: expected a directory or a URL that fsspec knows: {error}") from None
    return store


def _uri(path: str) -> str:
    """As delta-rs and fsspec name it: Hadoop's `s3a` is their `s3`."""
    return re.sub(r"^s3[an]:", "s3:", path)


def _delta_dataset(path: str) -> Any:
    table = _delta_table(path)
    with _deltalake(path):
        return table.to_pyarrow_dataset()


def _delta_table(path: str) -> Any:
    """Where it is on an object store, by the usual variables of the environment (AWS_REGION, …)."""
    with _deltalake(path) as lake:
        return lake.DeltaTable(_uri(path), storage_options=_storage_options(path))


def _storage_options(path: str) -> dict[str, str] | None:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint and path.startswith("s3") and not endpoint.startswith(("http://", "https://")):
        # delta-rs panics at it.
        raise HistoryError(f"{path}: AWS_ENDPOINT_URL: expected http://HOST:PORT or https://…, got {endpoint!r}")
    # delta-rs asks for this beside the address; the others take the address for it.
    is_plain = endpoint.startswith("http:")
    return {"allow_http": "true"} if is_plain and "AWS_ALLOW_HTTP" not in os.environ else None


def _remote_dataset(path: str, missing: str) -> Any:
    try:
        with _asking(path):
            filesystem, inside = _store(path)
            # Of a directory that was listed before, its client would say that a newer file is none.
            filesystem.invalidate_cache()
            return ds.dataset(inside, filesystem=filesystem, format="parquet", partitioning=_BY_DATE)
    except FileNotFoundError:
        raise HistoryError(f"{path} is not there: {missing}") from None
    except (ImportError, OSError, pa.ArrowInvalid) as error:
        raise HistoryError(f"{path}: {error}") from None


def _remote_schemas(path: str, dataset: Any, days: Bounds) -> dict[str, pa.Schema]:
    """The schema of each file of some days; where they have none, that of the dataset."""
    _, inside = _store(path)
    asked = [] if days.first is None else [ds.field(DATE) >= date.fromisoformat(days.first)]
    asked += [] if days.last is None else [ds.field(DATE) <= date.fromisoformat(days.last)]
    within = reduce(and_, asked) if asked and DATE in dataset.schema.names else None

    def schema_of(fragment: Any) -> tuple[str, pa.Schema]:
        name = f"{path.rstrip('/')}{fragment.path.removeprefix(inside.rstrip('/'))}"
        try:
            with _asking(name):
                return name, fragment.physical_schema
        except (OSError, pa.ArrowInvalid) as error:
            raise HistoryError(f"{name}: expected a Parquet file, this one is damaged or none: {error}") from None

    # Each is a request or two, which take their time.
    with ThreadPoolExecutor(REQUESTS) as pool:
        return dict(pool.map(schema_of, dataset.get_fragments(within))) or {path: dataset.schema}


REQUESTS = 16
"""At a time."""

_BY_DATE = ds.partitioning(pa.schema([(DATE, pa.date32())]), flavor="hive")
