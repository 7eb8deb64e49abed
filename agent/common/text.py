"""Texts cut to a length, and lists to a number; what is cut off is said."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agent.common.sanitize import printable


def truncated(text: str, max_length: int) -> str:
    """At most `max_length` characters of a text, the `…` included."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def printable_truncated(text: str, max_length: int) -> str:
    """The same of a text made printable, whose escapes are up to ten times as long as their characters."""
    return truncated(printable(text[: max_length + 1]), max_length)


def named(names: Collection[str], most: int) -> str:
    """Names of strangers for a log, sorted and quoted, each of 200 characters at most; beyond `most`, how many."""
    shown = ", ".join(repr(it[:200]) for it in sorted(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def runs(numbers: Iterable[int]) -> list[str]:
    """`0-3`, `7` for 0, 1, 2, 3, 7: runs of numbers, in order."""
    out: list[list[int]] = []
    for it in sorted(numbers):
        if out and it == out[-1][1] + 1:
            out[-1][1] = it
        else:
            out.append([it, it])
    return [str(first) if first == last else f"{first}-{last}" for first, last in out]
