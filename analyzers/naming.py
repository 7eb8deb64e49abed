"""Names of strangers in findings' texts: few, and none long. Whoever shows them makes them fit for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

NAME_CHARACTERS = 64
NAMED = 3
"""How many of many are named."""


def clipped(name: str) -> str:
    """A name, cut where it is longer than `NAME_CHARACTERS`."""
    return name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"


def listed(names: Iterable[str], most: int = NAMED) -> str:
    """The first names in their order, and how many more there are."""
    given = list(names)
    rest = len(given) - most
    shown = [clipped(name) for name in given[:most]]
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([*([", ".join(shown[:-1])] if shown[1:] else []), *shown[-1:]])


def counted(count: int, noun: str) -> str:
    """`1 member`, `2 members`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
