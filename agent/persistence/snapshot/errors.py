"""What can be wrong with a snapshot."""

from __future__ import annotations

from enum import StrEnum


class RefusalReason(StrEnum):
    """Why a snapshot is of no use here."""

    CORRUPT = "corrupt"
    OTHER_FORMAT = "other_format"
    OTHER_LAYOUT = "other_layout"
    OTHER_SETTINGS = "other_settings"
    OTHER_CLUSTER = "other_cluster"
    OTHER_TOPIC = "other_topic"
    OTHER_PARTITION = "other_partition"
    OFFSET_GONE = "offset_gone"
    TOO_OLD = "too_old"
    DATED_AHEAD = "dated_ahead"
    UNREADABLE = "unreadable"


class SnapshotRefused(ValueError):
    """A snapshot that is not used; the message says what was expected and what came."""

    def __init__(self, kind: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = kind


class UnwritableState(ValueError):
    """A state holds a value that an image cannot: of an analyzer that others wrote, since all else is declared."""


MALFORMED = (ValueError, LookupError, TypeError, ArithmeticError, AssertionError, RecursionError, MemoryError)
"""What bytes that are not what they should be can come to while they are read. msgspec's errors are ValueErrors."""
