"""What findings' texts are made of: names, counts, durations.

Names are strangers': few, and none long. Whoever shows them makes them fit for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from agent.common import text

NAME_CHARACTERS = 64
NAMES_IN_SENTENCE = 3
"""How many of many are named in a sentence."""
NAMES_IN_NUMBERS = 5
"""How many a list in `numbers` holds."""


def truncated(name: str) -> str:
    """A name, cut where it is longer than `NAME_CHARACTERS`."""
    return text.truncated(name, NAME_CHARACTERS)


def list_text(names: Iterable[str], most: int = NAMES_IN_SENTENCE) -> str:
    """The first names in their order, and how many more there are: one for each thing, so some may come twice."""
    given = list(names)
    rest = len(given) - most
    shown = [truncated(name) for name in given[:most]]
    if rest > 0:
        return f"{', '.join(shown)} and {rest:,} more"
    return " and ".join([*([", ".join(shown[:-1])] if shown[1:] else []), *shown[-1:]])


def names_text(names: Iterable[str]) -> str:
    """The first names in their order, none twice, and how many more there are."""
    return list_text(dict.fromkeys(map(truncated, names)))


def distinct_names(names: Iterable[str]) -> list[str]:
    """Names for `numbers`, none twice."""
    return list(dict.fromkeys(map(truncated, names)))[:NAMES_IN_NUMBERS]


def count_text(count: int, noun: str) -> str:
    """`1 member`, `1,200 members`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_UNITS = ((172_800_000, 86_400_000, "days"), (3_600_000, 3_600_000, "h"), (60_000, 60_000, "min"))


def duration_text(ms: float) -> str:
    """A duration in words, two digits or so."""
    for least_ms, unit_ms, name in _UNITS:
        if ms >= least_ms:
            return f"{_digits(ms / unit_ms)} {name}"
    return f"{_digits(ms / 1000)} s"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def round_up_to_seconds_ms(ms: int) -> int:
    """Rounded up to whole seconds: for settings that are advised."""
    return -(-ms // 1000) * 1000


@lru_cache(maxsize=256)
def milliseconds(seconds: float) -> int:
    """A setting's seconds as whole milliseconds; the same object for all groups."""
    return round(seconds * 1000)
