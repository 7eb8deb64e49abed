"""The spool: what waits for a sink on disk, in order, over a crash of ours or of the machine.

Owns a directory: segment files named by the sequence of their first record, the cursor (the sequence that the sink
wants next) and a lock against a second process. Knows records as bytes. Used under its owner's lock.

Records are only appended, and segments deleted when all of theirs were acknowledged. After a crash the torn end of
the last segment is cut; damage elsewhere costs the records that it hit, which are counted. A cursor that was not
stored in time costs records that are given twice, never one that is not given.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.export import cursor
from agent.export.errors import SpoolLocked, SpoolUnusable
from agent.export.segment import HEADER, Record, frame, records

log = logging.getLogger("kshadow.export")

SEGMENT_BYTES = 8 * 1024 * 1024
"""When a segment is full. It is read as one, so this is also what reading takes of memory; and what is given back of
the disk at once."""


@dataclass(slots=True)
class _Segment:
    first: int
    path: Path
    size: int


class Spool:
    """Records by sequence: `append` puts them at the end, `read` gives each once, `acknowledge` lets go of them."""

    def __init__(self, directory: Path, size_bytes: int, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open or make it; what an earlier process left is given first. Raises `SpoolLocked`, `SpoolUnusable`."""
        self._directory = directory
        self.bound_bytes = size_bytes
        self._segment_bytes = min(segment_bytes, max(size_bytes // 4, 1))
        self.error: str | None = None
        """Why the latest append or store of the cursor failed."""
        self.lost = 0
        """Records that were damaged on disk."""
        self.unsafe_end = 0
        """Records before this may not be on the disk: a sync of theirs failed."""
        self.cursor = 0
        """The sequence that the sink wants next."""
        self._segments: list[_Segment] = []
        self._end = 0  # the sequence behind the last record on disk
        self._file: int | None = None  # the last segment's, while it is appended to
        self._directory_changed = False
        self._given = 0  # the sequence behind the last record that was given
        # What is read: the segment by its first sequence; some of its bytes, where in them we are, and where in the
        # file they begin.
        self._reading: int | None = None
        self._data, self._at, self._base = b"", 0, 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolUnusable(f"spool {directory}: expected a directory to write to: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise SpoolLocked(f"spool {directory}: expected to be alone, another process writes there") from error
        try:
            self._recover()
        except OSError as error:
            os.close(self._lock)
            raise SpoolUnusable(f"spool {directory}: expected to read what is there: {error}") from error

    @property
    def has_more(self) -> bool:
        """Whether `read` has something to give, as far as is known before it is read."""
        return self._wanted < self._end

    @property
    def start(self) -> int:
        """The sequence that is given next."""
        return self._wanted

    @property
    def size_bytes(self) -> int:
        """What its segments take on disk."""
        return sum(it.size for it in self._segments)

    @property
    def end(self) -> int:
        """The sequence behind the last on disk; never less than the cursor."""
        return max(self._end, self.cursor)

    def append(self, first: int, payloads: Sequence[bytes]) -> int:
        """Append as many as there is room for, `first` being the first one's sequence; how many were.

        Where not all were, `error` says why. They are safe once `sync` returned.
        """
        self.error = None
        done = 0
        while done < len(payloads):
            if self._file is None and not self._roll(first + done):
                break
            segment = self._segments[-1]
            room = self._segment_bytes - segment.size
            left = self.bound_bytes - self.size_bytes
            frames: list[bytes] = []
            size = 0
            for number in range(done, len(payloads)):
                framed = frame(first + number, payloads[number])
                if (frames and size + len(framed) > room) or size + len(framed) > left:
                    break
                frames.append(framed)
                size += len(framed)
            if not frames:
                self.error = f"the spool is full: {self.size_bytes} of {self.bound_bytes} bytes"
                break
            if not self._write(segment, b"".join(frames)):
                break
            done += len(frames)
            self._end = first + done
            if segment.size >= self._segment_bytes:
                self._close_file()
        return done

    def read(self, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        """The next payloads from the cursor on that were not given yet, and the sequence behind them.

        At least one if there is any. The list is empty where all that is left is damaged: go on behind it.
        """
        out: list[bytes] = []
        size = 0
        while len(out) < most and (record := self._next()) is not None:
            if out and size + len(record.payload) > most_bytes:
                break
            self._at = record.end
            self._given = record.sequence + 1
            out.append(record.payload)
            size += len(record.payload)
        return out, self._given

    def peek(self) -> bytes | None:
        """The next payload, which is not given by this."""
        record = self._next()
        return None if record is None else record.payload

    def acknowledge(self, sequence: int) -> None:
        """All before `sequence` is done: store that, and delete what is not needed any more."""
        self.cursor = max(self.cursor, sequence)
        if not self._segments:
            return
        self._store_cursor()
        while self._segments and self._behind(0) <= self.cursor:
            gone = self._segments.pop(0)
            if not self._segments:
                self._close_file()
            if gone.first == self._reading:
                self._reading = None
            with suppress(OSError):
                gone.path.unlink()

    def handle(self) -> int | None:
        """A descriptor to `os.fsync` and close, so that what was appended is safe; None if all is. The lock need not
        be held for that. Raises OSError."""
        if self._directory_changed:
            _sync_directory(self._directory)
            self._directory_changed = False
        return None if self._file is None else os.dup(self._file)

    def close(self) -> None:
        """Make all safe and let go. Raises OSError where that fails."""
        try:
            self._store_cursor()
            if self._file is not None:
                os.fsync(self._file)
            _sync_directory(self._directory)
        finally:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            os.close(self._lock)

    # Reading.

    def _next(self) -> Record | None:
        """The next record, which stays the next."""
        while self._segments:
            at = next((n for n in range(len(self._segments)) if self._behind(n) > self._wanted), None)
            if at is None:
                return None
            segment = self._segments[at]
            if segment.first != self._reading:
                self._reading, self._data, self._at, self._base = segment.first, b"", 0, 0
            self._load(segment)
            for record in records(self._data, self._at):
                if record.sequence >= self._wanted:
                    self._count_lost(record.sequence)
                    return record
                self._at = record.end
            behind = self._behind(at)
            self._count_lost(behind)
            self._given = behind
        return None

    @property
    def _wanted(self) -> int:
        return max(self._given, self.cursor)

    def _load(self, segment: _Segment) -> None:
        """Have in memory what of the segment was written since it was last looked at."""
        if (known := self._base + len(self._data)) >= segment.size:
            return
        try:
            with segment.path.open("rb") as file:
                file.seek(known)
                more = file.read(segment.size - known)
        except OSError as error:
            log.error("spool segment %s cannot be read: %s", segment.path, error)
            more = b""
        self._base += self._at
        self._data, self._at = self._data[self._at :] + more, 0

    def _behind(self, number: int) -> int:
        """The sequence behind the last of a segment."""
        return self._segments[number + 1].first if number + 1 < len(self._segments) else self._end

    def _count_lost(self, found: int) -> None:
        """What is missing between what was wanted and what was found."""
        if missing := found - self._wanted:
            self.lost += missing
            self._given = found
            log.error("spool %s: %d events are damaged and lost", self._directory, missing)

    # Writing.

    def _roll(self, first: int) -> bool:
        path = self._directory / f"{first:020d}.spool"
        if self._segments and self._segments[-1].first == first:
            self._segments.pop()  # it holds a torn write and nothing else
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.error = f"a new segment: {error}"
            return False
        self._directory_changed = True
        self._segments.append(_Segment(first, path, 0))
        self._end = max(self._end, first)
        if self._write(self._segments[-1], HEADER):
            return True
        self._drop_file()
        return False

    def _write(self, segment: _Segment, data: bytes) -> bool:
        """All of it or nothing."""
        assert self._file is not None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.error = str(error)
            try:
                os.ftruncate(self._file, segment.size)
            except OSError:
                # What is behind is torn; the next record goes to a segment of its own.
                self._close_file()
            return False
        segment.size += len(data)
        return True

    def _close_file(self) -> None:
        """The segment is full: make it safe."""
        if self._file is None:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            self.error = str(error)
            self.unsafe_end = self._end
        finally:
            os.close(self._file)
            self._file = None

    def _drop_file(self) -> None:
        """A segment that not even took its header."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        with suppress(OSError):
            self._segments.pop().path.unlink()

    def _store_cursor(self) -> None:
        try:
            cursor.store(self._directory, self.cursor)
        except OSError as error:
            self.error = f"cursor: {error}"

    # After a restart.

    def _recover(self) -> None:
        self.cursor = self._given = self._end = cursor.load(self._directory)
        for path in sorted(self._directory.glob("*.spool")):
            if path.stem.isdecimal():
                self._segments.append(_Segment(int(path.stem), path, path.stat().st_size))
        self._find_end()
        if self._segments:
            self._given = max(self.cursor, self._segments[0].first)
        while self._segments and self._behind(0) <= self.cursor:
            self._segments.pop(0).path.unlink()

    def _find_end(self) -> None:
        """Cut the torn end of the last segment. A segment without a whole record is none."""
        while self._segments:
            last = self._segments[-1]
            data = last.path.read_bytes()
            end = None
            for record in records(data):
                end = record
            if end is not None:
                if end.end < last.size:
                    log.warning("spool %s: cut %d bytes of an unfinished write", last.path, last.size - end.end)
                    os.truncate(last.path, end.end)
                    last.size = end.end
                self._end = max(self._end, end.sequence + 1)
                return
            log.warning("spool %s: nothing whole in it, removed (%d bytes)", last.path, last.size)
            last.path.unlink()
            self._segments.pop()
            self._end = max(self._end, last.first)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
