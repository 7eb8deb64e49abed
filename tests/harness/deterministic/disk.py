"""A disk that survives its machine as a disk does: what was synced, and of the rest what the seed says.

Owns the files of one machine, in a directory in memory. What the agent does to them goes through `os` and `sqlite3`
in the modules that keep things (`directory_store`, `spool`, `sink_worker`): their calls are where it may crash, be
full, or fail. After a crash of the process all that was written is there; after one of the machine, only what was
synced is sure, and the rest may be torn.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Files = dict[str, bytes]


class Disk:
    """The files of a machine. `fails` says of an operation by which error number it does, None if it works."""

    def __init__(self, root: Path, rng: random.Random, on_call: Callable[[str], None]) -> None:
        """`on_call` is called before each operation: it may never return."""
        self._root, self._random, self._on_call = root, rng, on_call
        self._lives = 0
        self.directory = root / "0"
        self.directory.mkdir(parents=True)
        self.fails: Callable[[str], int | None] = lambda what: None
        self.is_alive = True
        """Whether the process that uses it is: nothing that a dead one does reaches it."""
        self._synced: Files = {}
        self._databases: list[sqlite3.Connection] = []

    def snapshots(self) -> Path:
        """Where snapshots are."""
        return self.directory / "snapshots"

    def crash(self, *, machine: bool) -> None:
        """The process is gone, or the whole machine. What is left is there for the next process."""
        self.is_alive = False
        files = self._files()
        self._let_go()
        self._begin_with(self._left(files) if machine else files)

    def backup(self) -> Files:
        """All that is there, for `restore`."""
        return self._files()

    def restore(self, files: Files) -> None:
        """What was there once is there again, and nothing else."""
        self._begin_with(files)

    def _begin_with(self, left: Files) -> None:
        shutil.rmtree(self.directory)
        self._lives += 1
        self.directory = self._root / str(self._lives)
        self.directory.mkdir()
        for name, content in left.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._synced = dict(left)
        self.is_alive = True

    def stopped(self) -> None:
        """The process has ended by itself; all that it left is on the disk."""
        self._let_go()
        self._synced = self._files()

    def _let_go(self) -> None:
        for database in self._databases:
            sqlite3.Connection.close(database)
        self._databases.clear()

    def _files(self) -> Files:
        found = (it for it in self.directory.rglob("*") if it.is_file() and it.name not in ("lock", ".lock"))
        return {str(it.relative_to(self.directory)): it.read_bytes() for it in found}

    def _left(self, files: Files) -> Files:
        """Of each file what was synced, or what it is now, or, where it is longer than that, something between. What
        SQLite keeps in two files is of one moment."""
        out: Files = {}
        for name in sorted(files.keys() | self._synced.keys()):
            if name.endswith(("-wal", "-journal")):
                continue
            now, synced = files.get(name), self._synced.get(name)
            log_now, log_synced = files.get(f"{name}-wal", b""), self._synced.get(f"{name}-wal", b"")
            if (now, log_now) != (synced, log_synced) and self._random.random() < 0.5:
                now, log = synced, log_synced
            elif now == synced and len(log_now) > len(log_synced) and log_now.startswith(log_synced):
                size = self._random.randint(len(log_synced), len(log_now))
                log = log_now[:size] + (b"\0" * self._random.choice((0, 0, 4096)))
            else:
                log = log_now
            if now is not None:
                out[name] = now
            if log:
                out[f"{name}-wal"] = log
        return out

    def _sync(self, path: str) -> None:
        """A file, as it is or is not, is on the disk."""
        name = path.removeprefix(f"{self.directory}/")
        try:
            with open(path, "rb", buffering=0) as file:
                self._synced[name] = file.read()
        except FileNotFoundError:
            self._synced.pop(name, None)

    def damage(self, what: str) -> None:
        """Something that is on the disk is not as it was written."""
        names = [name for name in self._files() if name.startswith(what)]
        if not names:
            return
        path = self.directory / self._random.choice(sorted(names))
        content = bytearray(path.read_bytes())
        if not content:
            return
        match self._random.randrange(3):
            case 0:
                del content[self._random.randrange(len(content)) :]
            case 1:
                content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
            case _:
                path.unlink()
                return
        path.write_bytes(content)

    # In place of modules.

    def _called(self, what: str) -> None:
        self._on_call(what)
        if not self.is_alive:
            raise OSError(errno.EIO, "the process is dead")
        if (number := self.fails(what)) is not None:
            raise OSError(number, os.strerror(number))

    def os_of_store(self) -> Any:
        """`os` for the directory of snapshots: a file is on the disk once it, and then its directory, was synced."""
        synced: list[str] = []
        renamed: set[str] = set()

        def fsync(handle: int) -> None:
            self._called("snapshot fsync")
            path = os.readlink(f"/proc/self/fd/{handle}")
            if not stat.S_ISDIR(os.fstat(handle).st_mode):
                synced.append(os.path.basename(path))
                return
            for name in renamed:
                self._sync(f"{path}/{name}")
            renamed.clear()

        def rename(source: str, target: str, **more: Any) -> None:
            self._called("snapshot rename")
            assert source in synced, f"{source} takes its name before it was synced"
            synced.clear()
            os.rename(source, target, **more)
            renamed.add(target)

        def opened(path: Any, flags: int, *mode: int, **more: Any) -> int:
            if flags & os.O_CREAT and (flags & os.O_EXCL or not os.access(path, os.F_OK, **more)):
                self._called("snapshot open")
            return os.open(path, flags, *mode, **more)

        def write(handle: int, content: bytes) -> int:
            self._called("snapshot write")
            return os.write(handle, content)

        def unlink(path: Any, **more: Any) -> None:
            self._called("snapshot unlink")
            os.unlink(path, **more)
            renamed.add(str(path))

        return _proxy(os, fsync=fsync, rename=rename, open=opened, unlink=unlink, write=write)

    def os_of_sinks(self) -> Any:
        """`os` for the spool's owner, which syncs the log of the database."""

        def fsync(handle: int) -> None:
            self._called("spool fsync")
            log = os.readlink(f"/proc/self/fd/{handle}")
            self._sync(log)
            self._sync(log.removesuffix("-wal"))

        return _proxy(os, fsync=fsync)

    def sqlite(self) -> Any:
        """`sqlite3` for the spool."""
        disk = self

        class Database(sqlite3.Connection):
            def execute(self, sql: str, *more: Any) -> sqlite3.Cursor:
                if sql.startswith(("BEGIN", "COMMIT")):
                    disk._on_call(f"spool {sql}")
                    if not disk.is_alive:
                        raise sqlite3.OperationalError("the process is dead")
                    if disk.fails("spool") is not None:
                        raise _disk_full()
                return super().execute(sql, *more)

            def close(self) -> None:
                if disk.is_alive:
                    super().close()

        def connect(path: Any, **more: Any) -> sqlite3.Connection:
            database = sqlite3.connect(path, factory=Database, **more)
            self._databases.append(database)
            return database

        return _proxy(sqlite3, connect=connect)


def _disk_full() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def _proxy(module: Any, **replaced: object) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(module), **replaced})
