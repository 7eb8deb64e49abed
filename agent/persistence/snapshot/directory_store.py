"""Snapshots as files of a directory, which one agent has at a time.

A file is written aside, forced to disk, and takes its name; so it is whole, and if there is no room for the new one
the old one stays. Nobody but the owner may read them: groups' and clients' names are in them.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.persistence.snapshot.store import StoreError, StoreErrorReason, checked_name

LOCK = ".lock"
_KEPT, _ASIDE = ".snapshot", ".tmp"
_REASONS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), StoreErrorReason.FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP), StoreErrorReason.DENIED),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST), StoreErrorReason.MISCONFIGURED),
    **dict.fromkeys((errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN), StoreErrorReason.UNREACHABLE),
}


class DirectoryStore:
    """A `SnapshotStore` in a directory, which is made if it is not there."""

    def __init__(self, directory: str | Path) -> None:
        """Raises `StoreError`: `in_use` if another process has it."""
        self._directory = Path(directory)
        self._handle, self._lock = self._opened()

    def load(self, names: Iterable[str]) -> dict[str, bytes | StoreError]:
        """The files of these names, of those that there are; or why one cannot be read."""
        out: dict[str, bytes | StoreError] = {}
        for name in names:
            try:
                with self._told("reading a file of"), suppress(FileNotFoundError):
                    file = os.open(checked_name(name) + _KEPT, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._handle)
                    with open(file, "rb") as stream:
                        out[name] = stream.read()
            except StoreError as error:
                out[name] = error
        return out

    def save(self, name: str, blob: bytes) -> None:
        """Write a file in place of the one that is there."""
        aside = checked_name(name) + _ASIDE
        with self._told(f"writing {name} in"):
            try:
                # One may be there that a disk did not let go of as it failed.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with open(os.open(aside, flags, 0o600, dir_fd=self._handle), "wb") as stream:
                    stream.write(blob)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.rename(aside, name + _KEPT, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside, dir_fd=self._handle)
                raise
            os.fsync(self._handle)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of these that are not there. Where the directory was deleted, or another one has the path by now: all
        of them, and from then on the one that is there, or is made, is written to."""
        with self._told("opening"):
            if not self._is_in_place():
                before = self._handle, self._lock
                self._handle, self._lock = self._opened()
                for it in before:
                    os.close(it)
            there = {*os.listdir(self._handle)}
        return [name for name in names if name + _KEPT not in there]

    def delete(self, name: str) -> None:
        """Remove a file."""
        with self._told(f"removing {name} in"), suppress(FileNotFoundError):
            os.unlink(checked_name(name) + _KEPT, dir_fd=self._handle)
            os.fsync(self._handle)

    def close(self) -> None:
        """Let another process have the directory."""
        os.close(self._lock)
        os.close(self._handle)

    def _is_in_place(self) -> bool:
        """Whether our lock still keeps others out of the directory that has the path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.lstat(self._directory / LOCK), os.fstat(self._lock))
        return False

    def _opened(self) -> tuple[int, int]:
        """What has the directory that is there now, or is made, and the lock in it."""
        with self._told("opening"):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self._told("locking"):
                lock = self._locked(handle)
                _clean(handle)
        except BaseException:
            os.close(handle)
            raise
        return handle, lock

    def _locked(self, handle: int) -> int:
        lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=handle)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            # On a full disk, too, what is kept is there to read: who has the directory is for a message only.
            with suppress(OSError):
                os.write(lock, f"{os.getpid()}\n".encode())
        except BlockingIOError as error:
            holder = os.read(lock, 20).decode("ascii", "replace").strip()
            os.close(lock)
            who = f"process {holder}" if holder.isdecimal() else "another process"
            raise StoreError(
                StoreErrorReason.IN_USE,
                f"the snapshot directory {self._directory} is in use by {who}: each agent needs one of its own",
            ) from error
        except BaseException:
            os.close(lock)
            raise
        return lock

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, StoreErrorReason.BROKEN)
            raise StoreError(reason, f"{doing} the snapshot directory {self._directory}: {error.strerror}") from error


def _clean(handle: int) -> None:
    """Remove what a process left that ended while it wrote."""
    for entry in os.listdir(handle):
        if entry.endswith(_ASIDE):
            os.unlink(entry, dir_fd=handle)
