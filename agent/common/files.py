"""Files that are whole, and still there after a crash of the machine; and directories that nobody needs after one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def sync_directory(directory: Path) -> None:
    """Force a directory's entries to disk: names that files were given or lost."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of what is open by a path say it; of a full disk they do not by themselves."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def whole_or_not(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A temporary file beside `path`, which takes its name at the end, or goes if that is not reached.

    A link stays one: the file that it names is replaced. What is no file (a pipe, a device) is written to as it is,
    since whoever may write in its directory would replace the device itself. `mode`: less the umask. Its `OSError`s
    pass through.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    with suppress(FileNotFoundError):
        path.stat()  # of links that name each other, resolving says so otherwise in each Python
    path = path.resolve()
    handle, name = tempfile.mkstemp(prefix=".kshadow-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(mode & ~_umask())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    """A directory of one's own among the temporary ones, which is locked, and gone afterwards. What killed processes
    of this user have left under that prefix goes before it is made. Its `OSError`s pass through."""
    _sweep(prefix)
    path, handle = _made(prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _made(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        # Another process may sweep it before it is locked.
        with suppress(FileNotFoundError):
            handle = locked(path, fcntl.LOCK_EX)
            if path.is_dir():
                return path, handle
            os.close(handle)


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if path.lstat().st_uid != os.geteuid():
                continue
            handle = locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


def locked(directory: Path, how: int) -> int:
    """A directory that is open and locked, `how` as for flock: the lock ends with its process, however that ends.
    Raises `OSError`."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _umask() -> int:
    # There is no way to ask but to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
