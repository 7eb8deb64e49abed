"""What can be wrong with a piece of a segment file.

Owns the words for it: problems travel in the stream of records, in place, and are no exceptions. Refuses to
know how a problem is found, and what a command makes of it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from msgspec import Struct


class ProblemKind(StrEnum):
    """What is wrong with a piece of a segment."""

    TORN = "torn"  # the file ends inside a batch: a crash, or a copy of a file that is being written
    PADDING = "padding"  # zeros to the end of the file: preallocated, no data lost
    CRC = "crc"
    GARBAGE = "garbage"  # no batch begins here
    OFFSET = "offset"  # an offset that cannot be in this segment, or that goes back
    RECORDS = "records"  # the batch is whole but its records cannot be taken out
    OVERSIZED = "oversized"  # the batch is whole, and larger unpacked than may be
    UNREADABLE = "unreadable"  # the file cannot be opened or read


class SegmentProblem(Struct, frozen=True):
    """A piece of a segment that could not be read; what precedes it was, and what follows if `skipped_bytes`
    ends before the file does.

    `position` is the byte in the file at which the piece begins, `offset` the base offset that stands there,
    None if there is no sense in it. `message` says what was expected and what came.
    """

    kind: ProblemKind
    path: Path
    partition: int
    position: int
    offset: int | None
    skipped_bytes: int
    message: str

    @property
    def harmless(self) -> bool:
        """Whether no record can have been lost."""
        return self.kind is ProblemKind.PADDING

    def __str__(self) -> str:
        at = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.path}: byte {self.position}{at}: {self.kind}: {self.message}"
