"""Text log files: whole, with their rotated siblings, or followed as they grow.

Owns files, rotation, compression and the ends of lines; knows nothing of what lines say.
"""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agent.kafka.source.errors import SourcePathError

LONGEST_LINE = 1 << 20
"""Bytes of a line beyond this are dropped: lists of removed members are the longest that are of use."""

MOST_AT_START = 1 << 28
"""Of a longer file that is followed, only so many bytes at its end are read at the start."""

_CHUNK = 1 << 18

ADVICE = (
    "Kafka writes server.log to the directory logs of its installation, or to LOG_DIR; in a container the log is the "
    "standard output, and the runtime's file of it will do"
)


def broker_log_file(path: Path) -> Path:
    """The log that a PATH means: the file itself, or `server.log` in a directory. Raises `SourcePathError`."""
    try:
        if path.is_dir():
            if not (path / "server.log").exists():
                raise SourcePathError(f"{path}: expected a broker's log or a directory with a server.log; {ADVICE}")
            path = path / "server.log"
        if path.exists() and not path.is_file():
            # To open a pipe would wait for its writer.
            raise SourcePathError(f"{path}: expected a broker's log, a file; {ADVICE}")
        with path.open("rb"):
            return path
    except OSError as error:
        raise SourcePathError(
            f"{path}: expected a broker's log that can be read: {error.strerror}; {ADVICE}"
        ) from error


def with_siblings(path: Path) -> list[Path]:
    """A log and what was rotated away from it (`server.log.2026-11-21-10`, `server.log.1.gz`), oldest first.

    By modification time: names count up in some appenders and down in others.
    """
    siblings = [it for it in path.parent.glob(f"{glob.escape(path.name)}.*") if it.is_file()]
    return [*sorted(siblings, key=lambda it: (it.stat().st_mtime_ns, it.name)), path]


def lines_of(path: Path) -> Iterator[str]:
    """Every line of a file, compressed or not. Raises `SourcePathError`; a file cut short ends where it does."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file: BinaryIO = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
            splitter = LineSplitter()
            try:
                while chunk := file.read(_CHUNK):
                    yield from splitter.split(chunk)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                pass
            yield from splitter.rest()
    except OSError as error:
        raise SourcePathError(f"{path}: expected a broker's log that can be read: {error.strerror}") from error


class LineSplitter:
    """Bytes to lines. A line that is not whole waits for the rest, up to `LONGEST_LINE`."""

    def __init__(self) -> None:
        self._partial = b""

    def split(self, chunk: bytes) -> Iterator[str]:
        """The lines that are whole with this chunk."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._append(piece)
            yield self._take()
        self._append(rest)

    def rest(self) -> Iterator[str]:
        """The last line, if it lacks its end."""
        if self._partial:
            yield self._take()

    def _append(self, piece: bytes) -> None:
        self._partial += piece[: LONGEST_LINE - len(self._partial)]

    def _take(self) -> str:
        line, self._partial = self._partial, b""
        return line.decode("utf-8", "replace").rstrip("\r")


def _open_at_once(path: str, flags: int) -> int:
    """A pipe that has taken the name would wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


class FileTail:
    """Follows a file by name, as `tail -F`: through rotation by renaming or truncation, and while it is away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        """Why the file cannot be read now; what was rotated away is read to its end before."""
        self._file: BinaryIO | None = None
        self._splitter = LineSplitter()

    def lines(self) -> Iterator[str]:
        """The lines that came since the last call."""
        while True:
            if self._file is None and not self._open():
                return
            yield from self._read()
            if not self._is_stale():
                return
            # What the writer still had to write before it let go of the file.
            yield from self._read()
            yield from self._splitter.rest()
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        self._splitter = LineSplitter()
        try:
            self._file = open(self.path, "rb", opener=_open_at_once)  # noqa: SIM115
            excess = os.fstat(self._file.fileno()).st_size - MOST_AT_START
            if excess > 0:
                self._file.seek(excess)
                self._file.readline(LONGEST_LINE)
        except OSError as error:
            self._give_up(error)
            return False
        self.problem = None
        return True

    def _give_up(self, error: OSError) -> None:
        """It cannot be read; the next call begins anew."""
        self.problem = error.strerror
        self.close()

    def _read(self) -> Iterator[str]:
        assert self._file is not None, "opened before"
        try:
            while chunk := self._file.read(_CHUNK):
                yield from self._splitter.split(chunk)
        except OSError as error:
            self._give_up(error)

    def _is_stale(self) -> bool:
        """Whether the name means another file by now, or the file was cut; a missing one is waited for."""
        if self._file is None:
            return False
        try:
            held, read = os.fstat(self._file.fileno()), self._file.tell()
        except OSError as error:
            # ESTALE: a server of files has forgotten it.
            self._give_up(error)
            return False
        try:
            named = self.path.stat()
        except OSError as error:
            self.problem = error.strerror
            return False
        self.problem = None
        return (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino) or held.st_size < read
