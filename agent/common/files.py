"""Files that are whole, and still there after a crash of the machine."""

from __future__ import annotations

import os
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
def whole_or_not(path: Path) -> Iterator[BinaryIO]:
    """A temporary file beside `path`, which takes its name at the end, or goes if that is not reached.

    A link stays one: the file that it names is replaced. What is no file (a pipe, a device) is written to as it is,
    since whoever may write in its directory would replace the device itself. Its `OSError`s pass through.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()
    handle, name = tempfile.mkstemp(prefix=".kshadow-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    # There is no way to ask but to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
