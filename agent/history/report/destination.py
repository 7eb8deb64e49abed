"""Where a page and its summary go. A report knows paths; what they are on is the business of whoever makes one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol

from agent.common.files import whole_or_not
from agent.history.errors import error_of


class Destination(Protocol):
    """Files, by path. Raises `HistoryError` where one cannot be written."""

    def write(self, path: str, content: bytes) -> None:
        """The whole file in place of what was there, or nothing of it; directories are made."""

    def remove_others(self, path: str) -> None:
        """What else an earlier run left in the directory of a file: names for which `is_of_earlier_run`."""


def is_of_earlier_run(name: str) -> bool:
    """Whether a table's directory has a file of that name from a run before, Spark's own files among them."""
    return name.endswith((".parquet", ".parquet.crc")) or name in ("_SUCCESS", "._SUCCESS.crc")


class LocalFiles(Destination):
    """This machine's."""

    def write(self, path: str, content: bytes) -> None:
        """Beside it first, then in its place."""
        file = Path(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_or_not(file) as whole:
                whole.write(content)
        except OSError as error:
            raise error_of(error, path) from None

    def remove_others(self, path: str) -> None:
        """Directories, and files that are no table's, stay."""
        file = Path(path)
        for other in file.parent.iterdir():
            if other.name != file.name and other.is_file() and is_of_earlier_run(other.name):
                with suppress(OSError):
                    other.unlink()
