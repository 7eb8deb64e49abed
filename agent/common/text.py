"""Texts cut to a length; `…` says that there is more."""

from __future__ import annotations

from agent.common.sanitize import printable


def truncated(text: str, max_length: int) -> str:
    """At most `max_length` characters of a text, the `…` included."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def printable_truncated(text: str, max_length: int) -> str:
    """The same of a text made printable, whose escapes are up to ten times as long as their characters."""
    return truncated(printable(text[: max_length + 1]), max_length)
