"""The spool: what waits for a sink on disk, in order, over a crash of ours or of the machine.

Owns a directory: a SQLite database in WAL mode (events by sequence, each with its CRC-32; the sequence that the sink
wants next; the sequence behind the last event) and a lock against a second process. Knows events as bytes. Used
under its owner's lock.

SQLite replaced segment files of our own, for less code at a price. Measured side by side in turns, on two cores that
were busy with other work, 100,000 and 200,000 events of 500 to 1,500 bytes in portions of 1,000: put 30,000 to 91,000
a second (segments 73,000 to 258,000: SQLite writes each twice, to its log and to its file), drained 37,000 to 110,000
(segments 28,000 to 89,000), the slowest portion 30 to 400 ms (18 to 65).

After a kill -9 nothing that was appended is lost; after a crash of the machine nothing that was synced. A damaged
page costs the events on it, which are counted; a database that cannot be opened at all is kept aside, with a line in
the log, and what was in it cannot be counted. Where its file was deleted or moved what is written to it is safe with
nobody, though SQLite tells no error: it is copied to where it belongs. Its file shrinks when all events are
acknowledged; until then what is freed is used again.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from zlib import crc32

from agent.common.files import sync_directory
from agent.persistence.export.errors import SpoolLocked, SpoolUnusable
from analyzers.formatting import count_text

log = logging.getLogger("kshadow.export")

PAGE_BYTES = 4096
_ROW_BYTES = 24
"""What an event takes beside its payload, about."""

_FIRST = "locking_mode=EXCLUSIVE"
"""Before anything is read: then there is no shared memory file, so network file systems will do, and a full disk."""
_OF_NEW = (f"page_size={PAGE_BYTES}", "auto_vacuum=INCREMENTAL")
"""To set these where they are set already is a write."""
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",  # safe from corruption; `handle` makes safe from loss
    "journal_size_limit=4194304",
    "cache_size=-4096",
)
_TABLES = """
CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, crc INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS bounds (wanted INTEGER NOT NULL, end INTEGER NOT NULL);
INSERT INTO bounds SELECT 0, 0 WHERE NOT EXISTS (SELECT * FROM bounds);
"""
_INSERT = "INSERT OR REPLACE INTO events VALUES (?, ?, ?)"
_SELECT = "SELECT sequence, crc, payload FROM events WHERE sequence "


class NoSpool:
    """Where there is no directory for a `Spool`: takes nothing, and has nothing."""

    is_durable = has_more = False
    bound_bytes = sys.maxsize
    start = end = lost = unsafe_end = size_bytes = 0
    error: str | None = None

    def append(self, first: int, payloads: Sequence[bytes]) -> int:
        """None is taken."""
        return 0

    def read(self, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        """There are none."""
        return [], 0

    def peek(self) -> bytes | None:
        """There is none."""
        return None

    def acknowledge(self, sequence: int) -> None:
        """There is nothing to let go of."""

    def handle(self) -> int | None:
        """There is nothing to sync."""
        return None

    def close(self) -> None:
        """Nothing is open."""


class Spool:
    """Events by sequence: `append` puts them at the end, `read` gives each once, `acknowledge` lets go of them."""

    is_durable = True

    def __init__(self, directory: Path, size_bytes: int) -> None:
        """Open or make it; what an earlier process left is given first. `size_bytes` bounds the database; its log
        may take some 4 MiB more. Raises `SpoolLocked`, `SpoolUnusable`."""
        self._directory, self._path = directory, directory / "spool.sqlite"
        self._wal = directory / "spool.sqlite-wal"
        self.bound_bytes = size_bytes
        self.error: str | None = None
        """Why the latest write failed; None if it did not, or if there is room again since nothing waits."""
        self.lost = 0
        """Events that were damaged on disk."""
        self.unsafe_end = 0
        """Events before this sequence may not be on the disk: a sync of theirs failed."""
        self.size_bytes = 0
        """What the events take on disk."""
        self.wanted = 0
        """The sequence that the sink wants next."""
        self._end = self._given = 0  # behind the last event on disk, and behind the last that was given
        self._is_damaged = False
        try:
            self._lock = self._enter()
        except OSError as error:
            raise SpoolUnusable(f"spool {directory}: expected a directory to write to: {error}") from error
        try:
            self._open()
            sync_directory(directory)
        except (OSError, sqlite3.Error) as error:
            os.close(self._lock)
            raise SpoolUnusable(f"spool {directory}: expected a database to read and write: {error}") from error

    @property
    def has_more(self) -> bool:
        """Whether `read` has something to give, as far as is known before it is read."""
        return self.start < self._end

    @property
    def start(self) -> int:
        """The sequence that is given next."""
        return max(self._given, self.wanted)

    @property
    def end(self) -> int:
        """The sequence behind the last on disk; never less than what the sink wants next."""
        return max(self._end, self.wanted)

    def append(self, first: int, payloads: Sequence[bytes]) -> int:
        """Append as many as there is room for, `first` being the first one's sequence; how many were.

        Where not all were, `error` says why. They are safe from a crash of the machine once `handle` was synced.
        """
        try:
            self._put_back()
        except (OSError, sqlite3.Error, SpoolLocked) as error:
            self.error = str(error)
            return 0
        self.error = None
        room, count = self.bound_bytes - self.size_bytes, 0
        while count < len(payloads) and (room := room - len(payloads[count]) - _ROW_BYTES) >= 0:
            count += 1
        if count < len(payloads):
            self.error = f"the spool is full: {self.size_bytes} of {self.bound_bytes} bytes"
        rows = [(first + number, crc32(it), it) for number, it in enumerate(payloads[:count])]
        return count if rows and self._write(_INSERT, rows, first + count) else 0

    def read(self, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        """The next payloads that were not given yet, at most so many and of so many bytes, and the sequence behind
        them.

        At least one if there is any. The list is empty where all that is left is damaged: go on behind it.
        """
        out: list[bytes] = []
        size = 0
        while not out and self.has_more:
            for found, payload in self._whole(most):
                size += len(payload)
                if out and size > most_bytes:
                    break
                self._count_lost(found)
                self._given = found + 1
                out.append(payload)
            if not out:
                self._count_lost(self._end)
        return out, self._given

    def peek(self) -> bytes | None:
        """The next payload, which is not given by this."""
        return next((payload for _, payload in self._whole(1)), None) if self.has_more else None

    def acknowledge(self, sequence: int) -> None:
        """All before `sequence` is done: store that, and free its room."""
        if sequence <= self.wanted:
            return
        self.wanted = sequence
        if not self._end:
            return
        if self._is_damaged and self.wanted >= self._end:
            try:
                self._start_anew()
            except (OSError, sqlite3.Error) as error:
                self.error = str(error)
        elif self.size_bytes or self.wanted < self._end:
            self._write("DELETE FROM events WHERE sequence < ?", [(sequence,)], self._end)

    def handle(self) -> int | None:
        """A descriptor to `os.fsync` and close, so that what was appended is safe; None if all is. The owner's lock
        need not be held for that. Raises OSError."""
        try:
            self._put_back()
        except (sqlite3.Error, SpoolLocked) as error:
            raise OSError(str(error)) from error
        with suppress(FileNotFoundError):
            return os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        return None

    def close(self) -> None:
        """Let go; the database is synced by that. There is nothing to read from now on: it would pass for damaged."""
        self._end = self.start
        with suppress(sqlite3.Error):
            self._database.close()
        os.close(self._lock)

    # Reading.

    def _whole(self, most: int) -> Iterator[tuple[int, bytes]]:
        """Sequence and payload of the next events that are not damaged."""
        try:
            for sequence, crc, payload in self._database.execute(
                f"{_SELECT} >= ? ORDER BY sequence LIMIT ?", (self.start, most)
            ):
                if crc32(payload) == crc:
                    yield sequence, payload
                else:
                    self._is_damaged = True
        except sqlite3.DatabaseError as error:
            self._note_damage(error)
            yield from self._one_by_one()

    def _one_by_one(self) -> Iterator[tuple[int, bytes]]:
        """The next event that is on no damaged page."""
        for sequence in range(self.start, self._end):
            with suppress(sqlite3.DatabaseError):
                for _, crc, payload in self._database.execute(f"{_SELECT} = ?", (sequence,)):
                    if crc32(payload) == crc:
                        yield sequence, payload
                        return

    def _note_damage(self, error: sqlite3.DatabaseError) -> None:
        if not self._is_damaged:
            log.error("spool %s: %s", self._directory, error)
        self._is_damaged = True

    def _count_lost(self, found: int) -> None:
        """What is missing between what was wanted and what was found."""
        if missing := found - self.start:
            self.lost += missing
            self._given = found
            log.error("spool %s: damaged and lost: %s", self._directory, count_text(missing, "event"))

    # Writing.

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]], end: int) -> bool:
        """Change the events and the bounds in one transaction; whether it was done, or `error` says why not."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(statement, rows)
            database.execute("UPDATE bounds SET wanted = ?, end = ?", (self.wanted, end))
            database.execute("COMMIT")
            self._end = end
            if self.wanted >= end:
                self.error = None  # of what took up the room
                database.execute("PRAGMA incremental_vacuum").fetchall()
            self._measure()
        except sqlite3.DatabaseError as error:
            is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            self.error = str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) if is_full else str(error)
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            if not isinstance(error, sqlite3.OperationalError):
                self._note_damage(error)
            return False
        return True

    def _measure(self) -> None:
        pages, free = (
            self._database.execute(f"PRAGMA {it}").fetchone()[0] for it in ("page_count", "freelist_count")
        )
        self.size_bytes = (pages - free) * PAGE_BYTES if self.wanted < self._end else 0

    # Where it lies.

    def _enter(self) -> int:
        """Make the directory where it is not there, and keep other processes out; the descriptor that does. Raises
        OSError, `SpoolLocked`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
            raise SpoolLocked(
                f"spool {self._directory}: expected to be alone, another process writes there"
            ) from error
        return lock

    def _put_back(self) -> None:
        """Where its files were deleted or moved: put them there again, with all that they hold, synced. Raises
        OSError, `sqlite3.Error`, `SpoolLocked`; what is on disk is as before then, and safe with nobody."""
        database = _identity(self._path)
        is_alone = _identity(self._directory / "lock") == os.fstat(self._lock)[1:3]
        if is_alone and (database, _identity(self._wal)) == self._opened:
            return
        if not is_alone:
            lock = self._enter()
            os.close(self._lock)
            self._lock = lock
        if database is None:
            copy = self._directory / "spool.copy"
            copy.unlink(missing_ok=True)
            with closing(sqlite3.connect(copy)) as target:
                self._database.backup(target)
            self._database.close()  # which removes a log by its name, so before there is another one of that name
            copy.rename(self._path)
        elif database == self._opened[0]:
            self._database.close()  # which writes the log to the database
        else:
            raise FileExistsError(errno.EEXIST, "another spool lies where ours was deleted or moved", str(self._path))
        wanted, given = self.wanted, self._given
        self._connect()
        sync_directory(self._directory)
        self.wanted, self._given, self.unsafe_end = wanted, given, 0
        log.warning("spool %s: its files were deleted or moved; what they hold is there again", self._directory)

    # After a restart.

    def _open(self) -> None:
        try:
            self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            log.error("spool %s is damaged, kept aside as spool.damaged; its events are lost: %s", self._path, error)
            self._start_anew(self._directory / "spool.damaged")

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        self._database.execute(f"PRAGMA {_FIRST}").fetchall()
        is_new = self._database.execute("PRAGMA page_count").fetchone() == (0,)
        for pragma in (*_OF_NEW, *_PRAGMAS) if is_new else _PRAGMAS:
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        self._database.executescript(_TABLES)
        self.wanted, self._end = self._database.execute("SELECT wanted, end FROM bounds").fetchone()
        self._given = self.wanted
        self._measure()
        self._opened = _identity(self._path), _identity(self._wal)

    def _start_anew(self, aside: Path | None = None) -> None:
        """Another database in place of one that is damaged."""
        wanted, end = self.wanted, self._end
        self._database.close()
        if aside is not None:
            self._path.replace(aside)
        for suffix in ("", "-wal", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._connect()
        sync_directory(self._directory)
        self.wanted = self._given = wanted
        self._end, self._is_damaged = end, False


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is there, whatever its name: inode and device; None where none is."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_dev
