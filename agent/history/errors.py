"""What keeps history from being summed up or read: exit code 2 in every command."""

from __future__ import annotations


class HistoryError(ValueError):
    """The input is not what was expected: the message says what was expected, what came, and where."""
