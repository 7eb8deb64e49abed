"""What keeps history from being summed up, read or written, by the exit code of every command."""

from __future__ import annotations

INSTALL = "install kshadow[history]"
NO_HISTORY = "expected a table of history, as kshadow run and kshadow spark backfill write it"


class HistoryError(ValueError):
    """The input is not what was expected: the message says what was expected, what came, and where (exit code 2)."""


class HistoryUnreachable(HistoryError):
    """The system does not let it be read or written (exit code 3)."""


def error_of(error: OSError, where: str = "") -> HistoryError:
    """What an error of the system comes to, `where` it was ("": where it says itself)."""
    # Of a rename it is the place to which something goes: what goes there is ours.
    place = where or error.filename2 or error.filename
    if isinstance(error, FileExistsError):
        return HistoryError(f"{place}: expected a directory, or none yet, got a file")
    is_wrong_path = isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)
    kind = HistoryError if is_wrong_path else HistoryUnreachable
    return kind(f"{place}: {error.strerror or error}" if place else str(error.strerror or error))
