"""Tables as a directory of Parquet files on one machine, with a commit that loses nothing. Knows no Spark.

    <root>/[<table>/]date=2026-11-21/<label>.parquet

One file for each date and label: what is written again under a label replaces the file by a rename over it. So a
reader of any kind (pandas, DuckDB, pyarrow) that lists names and opens them later finds each, and in it a whole day
or the one before. Names go only where another label takes a day over (a rollup over a stream's batches, compaction).

How to write, of any engine:

    directory = ParquetDirectory(root)
    with directory.staging() as staging, directory.lease("kshadow history rollup") as lease:
        …  # write staging/<table>/date=2026-11-21/any-name.parquet; the table of a history is "" (no folder)
        lease.publish(staging, "rollup", replaces=of_days("2026-11-01", "2026-11-30"))

`lease` is one for all tables below a root; who comes second gets `OutputBusy`, or waits. It is held by flock, so it
ends with its process, however that ends. `publish` is one commit for all tables and days: what is staged is forced to
disk, a journal says what is to be moved, and then it is moved. A process that is killed before the journal is there
has written nothing; after it, whoever comes next (a writer, or a reader that pins) moves the rest.

How to read one state of all tables and days, while somebody writes:

    with directory.pin(first="2026-11-01", last="2026-11-30") as pin:
        pin.path("groups")   # a directory like the table's own, of hard links: it stays as it is until the block ends
        pin.files("groups")  # the same as files, each with its date and label

To pin takes a shared lock for as long as it takes to make the links; `publish` excludes it only while it moves files.
Where no links can be made (a directory that cannot be written to) the files are given under their own names.

Beside the tables lie `_lease`, `_lock` and `_journal.json`. Spark, pyarrow and pandas pass over what begins with `_`;
for DuckDB say `date=*/*.parquet`. What is staged and pinned lies in `.<root>.kshadow/` beside the root, since pyarrow
and pandas list all folders below the root, and fail where one goes meanwhile; only where that is another file system,
or cannot be written to, it lies below the root. What dead processes leave there goes with the next lease, by whether
anybody holds theirs. All of that needs a file system with flock, links and rename: a local one. The agent's sink
(`agent.persistence.export.parquet_sink`) adds files beside these without a lease: its names are its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec import Struct

from agent.common.clock import now_ms
from agent.common.files import naming, sync_directory
from agent.history.errors import HistoryError
from agent.presentation.narrative.words import iso

DATE = "date"
ENDING = ".parquet"
DELTA_LOG = "_delta_log"
"""What a directory has that is a Delta table."""

_LEASE, _LOCK, _JOURNAL = "_lease", "_lock", "_journal.json"
_STAGING, _PINS = "staging", "pins"
_BELOW = "_scratch"
_ALIVE = ".alive"
"""A file beside such a directory, locked by its process."""
_POLL_S = 0.05


def is_among_files(place: Path, directory: Path) -> bool:
    """Whether a place lies in a directory whose rows are in all files below it. A Delta table names its own."""
    return not (directory / DELTA_LOG).is_dir() and place.resolve().is_relative_to(directory.resolve())


class DataFile(NamedTuple):
    """A file of a table: `date` is the day as `2026-11-21`, None for one that lies in no folder of a day."""

    table: str
    date: str | None
    label: str
    path: Path


Replaces = Callable[[DataFile], bool]
"""Which files a commit takes the place of."""


def of_days(first: str, last: str) -> Replaces:
    """All files of a range of days, whatever their labels; `last` is part of it."""
    return lambda file: file.date is not None and first <= file.date <= last


class Holder(Struct, frozen=True):
    """Who holds a lease."""

    who: str
    pid: int
    host: str
    since_ms: int

    def __str__(self) -> str:
        return f"{self.who} (process {self.pid} on {self.host}, since {iso(self.since_ms)})"


class OutputBusy(Exception):
    """Another process writes there. `holder` is None where it has not said who it is (yet)."""

    def __init__(self, root: Path, holder: Holder | None) -> None:
        super().__init__(f"{root}: expected nobody else writing there; {holder or 'another process'} is")
        self.root, self.holder = root, holder


class CommitFailed(HistoryError):
    """A commit that cannot be made, or not be finished: what was staged is not there, or not as it must be; or what
    is there is of another format."""


class _Journal(Struct, frozen=True):
    """What a commit does: paths below the root. It says the same however often it is done."""

    moves: list[tuple[str, str]]
    removes: list[str]


class Pin(NamedTuple):
    """One state of the tables. `is_pinned`: whether it stays as it is while others write."""

    root: Path
    found: tuple[DataFile, ...]
    is_pinned: bool

    def path(self, table: str = "") -> Path:
        """The table's directory; it is there even without files."""
        return self.root / table

    def files(self, table: str = "") -> list[DataFile]:
        """The table's files, by date and label."""
        return [file for file in self.found if file.table == table]


class ParquetDirectory:
    """The tables below a root. `tables` names their folders; a history is one table without a folder of its own."""

    def __init__(self, root: Path, tables: tuple[str, ...] = ("",)) -> None:
        self.root, self.tables = root, tables

    def files(self, table: str = "", first: str | None = None, last: str | None = None) -> list[DataFile]:
        """The files there are of a table, of a range of days (both part of it) or of all, by path.

        Those that lie in no folder of a day are among them. Under a lease they are what a commit would find.
        """

        def is_asked(date: str) -> bool:
            return (first or "") <= date <= (last or date)

        return sorted(_files(table, self.root / table, None, is_asked), key=lambda it: it.path)

    def dates(self) -> set[str | None]:
        """The days of a history that have files; None where some lie in no folder of a day.

        A day that may not be read is among them: what it has is not known.
        """
        closed = set[str | None]()

        def is_open(day: str) -> bool:
            try:
                os.scandir(self.root / f"{DATE}={day}").close()
            except PermissionError:
                closed.add(day)
            return day not in closed

        return {it.date for it in _files("", self.root, None, is_open)} | closed

    def is_empty(self) -> bool:
        """Whether nothing is there but what begins with `_` or `.`. Finishes a commit that was broken off."""
        if not self.root.is_dir():
            return True
        with self._locked(fcntl.LOCK_SH):
            return all(_is_hidden(name) for name in os.listdir(self.root))

    def check_format(self) -> None:
        """Raises `CommitFailed` where a Delta table is there: its files would be taken for files of a day, and
        removed, which its log does not know; and what is written beside them nobody would read."""
        for place in dict.fromkeys((self.root, *(self.root / table for table in self.tables))):
            if (place / DELTA_LOG).is_dir():
                raise CommitFailed(
                    f"{place}: expected a directory of Parquet, or none yet, got a Delta table: write it with kshadow"
                    " spark and --format delta, or name another place"
                )

    @contextmanager
    def lease(
        self, who: str, *, wait_s: float = 0.0, on_wait: Callable[[OutputBusy], None] | None = None
    ) -> Iterator[Lease]:
        """Hold the right to write below the root: raises `OutputBusy` where another process has it after `wait_s`.

        `who` is what it is told then. `on_wait` hears once that it is waited for.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with _opened(self.root / _LEASE) as file:
            deadline = time.monotonic() + wait_s
            while not _try_lock(file):
                if time.monotonic() >= deadline:
                    raise OutputBusy(self.root, _holder(file))
                if on_wait is not None:
                    on_wait(OutputBusy(self.root, _holder(file)))
                    on_wait = None
                time.sleep(_POLL_S)
            file.seek(0)
            file.truncate()
            with naming(self.root / _LEASE):
                file.write(msgspec.json.encode(Holder(who, os.getpid(), socket.gethostname(), now_ms())))
                file.flush()
            try:
                with self._locked(fcntl.LOCK_EX):
                    self._sweep()
                yield Lease(self)
            finally:
                # Nobody reads in it who does not hold it any more.
                file.truncate(0)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A directory of one's own below the root, for what is to be published; gone afterwards. Needs no lease.

        Raises `CommitFailed` where tables of another format are there.
        """
        self.check_format()
        self.root.mkdir(parents=True, exist_ok=True)
        with self._own(_STAGING) as (path, locked):
            locked.close()
            yield path

    @contextmanager
    def pin(self, first: str | None = None, last: str | None = None) -> Iterator[Pin]:
        """The files of a range of days (both part of it), or of all, as they are at this moment, in all tables."""
        if not self.root.is_dir():
            yield Pin(self.root, (), is_pinned=False)
            return
        try:
            own = self._own(_PINS)
            path, locked = own.__enter__()
        except OSError:
            # Not to be written to: then nothing can be pinned, and a commit that was broken off not be finished.
            yield self._unpinned(first, last)
            return
        try:
            try:
                pinned = [
                    _link(file, self.root, path) for table in self.tables for file in self.files(table, first, last)
                ]
            except OSError:
                yield self._unpinned(first, last)
                return
            finally:
                locked.close()
            for table in self.tables:
                (path / table).mkdir(parents=True, exist_ok=True)
            yield Pin(path, tuple(pinned), is_pinned=True)
        finally:
            own.__exit__(None, None, None)

    def _unpinned(self, first: str | None, last: str | None) -> Pin:
        found = tuple(file for table in self.tables for file in self.files(table, first, last))
        return Pin(self.root, found, is_pinned=False)

    def _locked(self, kind: int) -> _Locked:
        """Shared: no commit moves files meanwhile. Exclusive: nobody lists them. None is half done in either."""
        locked = _Locked(self.root / _LOCK, kind)
        try:
            while (self.root / _JOURNAL).exists():
                # Its writer is dead, or it would hold the lock. To change a lock is to let go of it for a moment.
                locked.change(fcntl.LOCK_EX)
                self._finish()
                locked.change(kind)
        except BaseException:
            locked.close()
            raise
        return locked

    @contextmanager
    def _own(self, kind: str) -> Iterator[tuple[Path, _Locked]]:
        """A directory of one's own that others leave alone while this process lives, and the shared lock under which
        it was made: nobody sweeps before it is closed."""
        locked = self._locked(fcntl.LOCK_SH)
        try:
            path = self._scratch() / kind / uuid.uuid4().hex
            path.mkdir(parents=True)
            alive = _opened(path.with_suffix(_ALIVE))
            fcntl.flock(alive, fcntl.LOCK_EX)
        except BaseException:
            locked.close()
            raise
        try:
            yield path, locked
        finally:
            locked.close()
            with alive, suppress(OSError, CommitFailed), self._locked(fcntl.LOCK_SH):
                # Not before a commit of it is finished, if one was broken off by an error.
                shutil.rmtree(path, ignore_errors=True)
                path.with_suffix(_ALIVE).unlink()
            with suppress(OSError), _opened(self.root / _LOCK) as lock:
                # Who makes one holds the lock shared.
                if _try_lock(lock):
                    path.parent.rmdir()
                    path.parent.parent.rmdir()

    @property
    def pins(self) -> Path:
        """Below which everything that is pinned lies."""
        return self._scratch() / _PINS

    def _scratch(self) -> Path:
        """Where what is staged and pinned lies: on the same file system, and where no reader of the tables looks."""
        root = self.root.resolve()
        beside = self._beside()
        with suppress(OSError):
            if root.parent.stat().st_dev == root.stat().st_dev and os.access(root.parent, os.W_OK | os.X_OK):
                return beside
        return root / _BELOW

    def _beside(self) -> Path:
        root = self.root.resolve()
        return root.parent / f".{root.name}.kshadow"

    def _below(self, path: Path) -> str:
        """A path as the journal says it: seen from the root."""
        return Path(os.path.relpath(path.resolve(), self.root.resolve())).as_posix()

    def _sweep(self) -> None:
        """Remove what dead processes have left. The exclusive lock is held, so nobody is about to make one."""
        for kind in (place / kind for place in (self._beside(), self.root / _BELOW) for kind in (_STAGING, _PINS)):
            with suppress(OSError):
                for path in kind.iterdir():
                    if path.suffix == _ALIVE:
                        with suppress(OSError), _opened(path) as alive:
                            if _try_lock(alive):
                                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                                path.unlink()
                    elif not path.with_suffix(_ALIVE).exists():
                        shutil.rmtree(path, ignore_errors=True)

    def _finish(self) -> None:
        """Do what the journal says. The exclusive lock is held."""
        path = self.root / _JOURNAL
        try:
            journal = msgspec.json.decode(path.read_bytes(), type=_Journal)
        except FileNotFoundError:
            return
        except msgspec.MsgspecError as error:
            raise CommitFailed(f"{path}: expected the journal of a commit: {error}") from None
        touched: set[Path] = set()
        for staged, target in journal.moves:
            source, aim = self.root / staged, self.root / target
            aim.parent.mkdir(parents=True, exist_ok=True)
            try:
                source.replace(aim)
            except FileNotFoundError:
                # Moved by whoever began; nothing else takes it away while the journal is there.
                if not aim.exists():
                    raise CommitFailed(
                        f"{source}: expected as a commit had staged it that was broken off, it is not there: remove"
                        f" {path}, and write those days again"
                    ) from None
            touched |= {aim.parent, aim.parent.parent}
        for name in journal.removes:
            (self.root / name).unlink(missing_ok=True)
            touched.add((self.root / name).parent)
        for directory in touched:
            with suppress(FileNotFoundError):
                sync_directory(directory)
        path.unlink()
        sync_directory(self.root)


class Lease(NamedTuple):
    """The right to write below a root."""

    directory: ParquetDirectory

    def publish(self, staging: Path, label: str, replaces: Replaces | None = None) -> int:
        """Put what is staged in place, under a label, in one commit; how many files.

        It takes the place of what `replaces` says, in all tables; unless told, of the files of the same label. A file
        of that label without a successor stays as one without rows, since who has listed it opens it next. Raises
        `CommitFailed` where staging is not there, or has several files of one day.
        """
        directory = self.directory
        replaces = replaces or (lambda file: file.label == label)
        if not staging.is_dir():
            raise CommitFailed(f"{staging}: expected what was staged, it is not there")
        with directory._locked(fcntl.LOCK_EX):
            moves = _moves(directory, staging, label)
            gone = [file for table in directory.tables for file in directory.files(table) if replaces(file)]
            removes = []
            for file in gone:
                name = file.path.relative_to(directory.root).as_posix()
                if name in moves:
                    continue
                if file.label == label:
                    moves[name] = directory._below(_without_rows(file.path, staging))
                else:
                    removes.append(name)
            for staged in moves.values():
                _sync_file(directory.root / staged)
            sync_directory(staging)
            for table in directory.tables:
                if (staging / table).is_dir():
                    # So that a table without a row is a table.
                    (directory.root / table).mkdir(parents=True, exist_ok=True)
            _write_journal(directory.root, _Journal([(old, new) for new, old in moves.items()], removes))
            directory._finish()
            return len(moves)


def _moves(directory: ParquetDirectory, staging: Path, label: str) -> dict[str, str]:
    """Target → staged file, both below the root."""
    out: dict[str, str] = {}
    for table in directory.tables:
        for file in _files(table, staging / table, None, lambda day: True):
            day = () if file.date is None else (f"{DATE}={file.date}",)
            target = Path(table, *day, f"{label}{ENDING}").as_posix()
            if target in out:
                raise CommitFailed(f"{file.path.parent}: expected one file of a day, got several")
            out[target] = directory._below(file.path)
    return out


def _files(table: str, directory: Path, date: str | None, is_asked: Callable[[str], bool]) -> Iterator[DataFile]:
    """Those below a directory, of the days that are asked for: no other day's directory is looked into."""
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if _is_hidden(entry.name):
            continue
        if entry.is_dir():
            day = entry.name.removeprefix(f"{DATE}=") if entry.name.startswith(f"{DATE}=") else date
            if day is None or day == date or is_asked(day):
                yield from _files(table, Path(entry.path), day, is_asked)
        elif entry.name.endswith(ENDING):
            yield DataFile(table, date, entry.name.removesuffix(ENDING), Path(entry.path))


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _link(file: DataFile, root: Path, into: Path) -> DataFile:
    target = into / file.path.relative_to(root)
    # A symbolic link says from where it lies what it leads to.
    source = os.path.realpath(file.path) if file.path.is_symlink() else file.path
    try:
        os.link(source, target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
    return file._replace(path=target)


def _without_rows(path: Path, staging: Path) -> Path:
    """Stage a file with the columns of another and no rows."""
    from pyarrow import parquet

    target = staging / f"{uuid.uuid4().hex}{ENDING}"
    parquet.write_table(parquet.read_schema(path).empty_table(), target)
    return target


def _write_journal(root: Path, journal: _Journal) -> None:
    path = root / _JOURNAL
    partial = path.with_suffix(".partial")
    with naming(partial):
        partial.write_bytes(msgspec.json.encode(journal))
    _sync_file(partial)
    partial.replace(path)
    sync_directory(root)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


class _Locked:
    """A lock that is held until it is closed."""

    def __init__(self, path: Path, kind: int) -> None:
        self._file = _opened(path)
        fcntl.flock(self._file, kind)

    def change(self, kind: int) -> None:
        fcntl.flock(self._file, kind)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> None:
        """Nothing to give."""

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: Path) -> IO[bytes]:
    """To lock: others must find the same file, so it is never replaced."""
    return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b", buffering=0)


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[bytes]) -> Holder | None:
    try:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=Holder)
    except msgspec.MsgspecError:
        return None
