"""Numbers, times and names as people say them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from agent.common.text import truncated
from agent.common.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

QUOTED = re.compile(r"(?<![^\s(“])`(.{,400}?)`(?![^\s.,;:)'…”?!])", re.DOTALL)
"""What stands between backticks. Names may hold some: what begins and ends as a word of a sentence does is quoted."""

MIN_CLAUSE_WORDS = 4
"""A clause of fewer words says too little to stand for its sentence."""

MAX_NAME = 60
"""Characters of a name in a sentence: real ones are shorter, and a hostile one may have 32,767."""


def duration(ms: int) -> str:
    """`320 ms`, `7.6 s`, `2 min 5 s`, `1 h 12 min`, `3 d 4 h`: two units at most."""
    if ms < 0:
        return "-" + duration(-ms)
    if ms < SECOND_MS:
        return f"{ms} ms"
    if ms < 59_950:
        return f"{ms / SECOND_MS:.1f} s"
    for unit_ms, small_ms, unit, small in _UNITS:
        rounded = round(ms / small_ms) * small_ms
        if rounded < unit_ms[1]:
            whole, rest = divmod(rounded, unit_ms[0])
            return f"{whole} {unit}" + (f" {rest // small_ms} {small}" if rest else "")
    return f"{round(ms / DAY_MS)} d"


_UNITS = (
    ((MINUTE_MS, HOUR_MS), SECOND_MS, "min", "s"),
    ((HOUR_MS, DAY_MS), MINUTE_MS, "h", "min"),
    ((DAY_MS, 100 * DAY_MS), HOUR_MS, "d", "h"),
)


def about(ms: int) -> str:
    """A duration as a sum is told, of which tenths of a second say nothing: `6 s`, `37 s`, `3 min 54 s`."""
    return duration(round(ms / SECOND_MS) * SECOND_MS).replace(".0 s", " s") if ms >= SECOND_MS else duration(ms)


def at_least(shown: str, is_partial: bool) -> str:
    """What is counted, where there may have been more."""
    return f"at least {shown}" if is_partial else shown


def percent_at_least(ratio: float, is_partial: bool) -> str:
    """The same of a share; "" where at least that much says nothing."""
    return "" if is_partial and ratio < 0.001 else at_least(percent(ratio), is_partial)


def duration_range(values: Iterable[int]) -> str:
    """`6.0 s`, or from the least to the greatest: `6.0 to 7.6 s`."""
    values = list(values)
    least, most = duration(min(values)), duration(max(values))
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number} to {most}" if unit == most.partition(" ")[2] and " " not in unit else f"{least} to {most}"


def count(number: int, noun: str) -> str:
    """`1 member`, `2 members`, `no members`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def percent(ratio: float) -> str:
    """`87 %`, `0.4 %`, `less than 0.1 %`."""
    hundred = 100 * ratio
    if 0 < hundred < 0.1:
        return "less than 0.1 %"
    return f"{hundred:.1f} %" if 0 < hundred < 0.95 else f"{hundred:.0f} %"


CERTAINTY_WORDS = ((1.0, "certain"), (0.9, "very likely"), (0.65, "likely"), (0.0, "a guess"))
"""What each confidence is called, from which one on. Every text has its word from here."""


def certainty(confidence: float) -> str:
    """What a confidence from 0 to 1 is called: `very likely`."""
    return next((word for least, word in CERTAINTY_WORDS if confidence >= least), CERTAINTY_WORDS[-1][1])


def percent_range(confidences: Iterable[float]) -> str:
    """`87 %`, `94 to 97 %`. What is inferred is never certain, so it does not round up to 100."""
    least, *most = sorted({min(int(100 * it + 0.5), 99) for it in confidences})
    return f"{least} to {most[-1]} %" if most else f"{least} %"


def certainty_percent(confidence: float) -> str:
    """`very likely, 96 %`: of what is inferred."""
    return f"{certainty(min(confidence, 0.99))}, {percent_range([confidence])}"


def join_words(items: Sequence[str], most: int = 4) -> str:
    """`a`, `a and b`, `a, b and c`; of more than `most`, the first and how many more."""
    if len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their key, both in the order in which they come."""
    out: dict[K, list[T]] = {}
    for item in items:
        out.setdefault(key(item), []).append(item)
    return out


def join_counted(names: Iterable[str], most: int = 4) -> str:
    """Names, the most frequent first, with how often they came where that was more than once: `a (3) and b`."""
    return join_words([name if n == 1 else f"{name} ({n})" for name, n in Counter(names).most_common()], most)


def name(text: str) -> str:
    """A name in a sentence, between backticks; `…` says that there is more of it."""
    return f"`{truncated(text, MAX_NAME)}`"


def sentence(text: str) -> str:
    """A stranger's sentence with one full stop at its end."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def first_sentence(text: str) -> str:
    """Of somebody's text the first sentence, with its full stop; "" of nothing."""
    first, stop, _ = text.strip().partition(". ")
    return sentence(first) if stop or first else ""


def word_count(text: str) -> int:
    """How many words a text has; a name between backticks is one, whatever it holds."""
    return len(QUOTED.sub("name", text).split())


def within_words(sentences: Iterable[str], most: int) -> str:
    """The first sentence, shortened if it has more than `most` words, and each that follows if it still fits."""
    first, *rest = (it for it in sentences if it)
    if word_count(first) > most:
        return shortened_words(first, most)
    for it in rest:
        if word_count(f"{first} {it}") <= most:
            first += f" {it}"
    return first


def shortened_words(text: str, most: int) -> str:
    """The first sentence or clause of a text that has at most `most` words, else its first words, with `…`."""
    for stop in (". ", "; ", ": "):
        start = text.split(stop)[0]
        if start != text and MIN_CLAUSE_WORDS <= word_count(start) <= most:
            return sentence(start)
    return f"{' '.join(text.split()[: most - 1])} …"


def first_sentences(text: str, most: int) -> str:
    """The first sentence of a text, and those that follow as long as all have at most `most` characters."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[^a-z])", text.strip())
    for it in rest:
        if len(first) + 1 + len(it) > most:
            break
        first += f" {it}"
    return first


def capitalized(text: str) -> str:
    """The first letter in upper case."""
    return text[:1].upper() + text[1:]


def day(at_ms: int) -> str:
    """The date of epoch milliseconds in UTC. Computed here, since who cannot read a clock cannot cheat."""
    # Days to a date of the proleptic Gregorian calendar, years begun in March (H. Hinnant, "chrono-compatible
    # low-level date algorithms"): leap days come last, and any integer has a date.
    days = at_ms // DAY_MS + 719_468
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return f"{year + 400 * era + (month <= 2):04d}-{month:02d}-{of_year - (153 * shifted + 2) // 5 + 1:02d}"


NO_TIMESTAMP_MS = -1
"""A record without a timestamp, as Kafka has it: an NDJSON line that gives none."""
UNKNOWN_TIME = "an unknown time"


def clock(at_ms: int) -> str:
    """The time of day in UTC, to the second."""
    seconds = at_ms // SECOND_MS
    return f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def iso(at_ms: int) -> str:
    """Date and time in UTC by ISO 8601, to the second."""
    return f"{day(at_ms)}T{clock(at_ms)}Z"


def timestamp(at_ms: int) -> str:
    """Date and time in UTC, to the second; of a record without a timestamp (-1) it is not known."""
    return UNKNOWN_TIME if at_ms == NO_TIMESTAMP_MS else f"{day(at_ms)} {clock(at_ms)}"


def span(first_ms: int, last_ms: int) -> str:
    """`from 10:02:31 to 10:04:00 UTC on 2026-11-21`, or with both dates."""
    if first_ms == NO_TIMESTAMP_MS:
        return "at times that the records do not have"
    if day(first_ms) == day(last_ms):
        return f"from {clock(first_ms)} to {clock(last_ms)} UTC on {day(first_ms)}"
    return f"from {timestamp(first_ms)} to {timestamp(last_ms)} UTC"


def dates(first_ms: int, last_ms: int) -> str:
    """`2026-11-21 UTC`, or from the first day to the last."""
    first, last = day(first_ms), day(last_ms)
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


class Calendar:
    """Says when, with the date only where it takes one to know."""

    def __init__(self, *at_ms: int) -> None:
        """`at_ms`: the bounds of what is told."""
        days = {day(at) for at in at_ms}
        self.day = days.pop() if len(days) == 1 else None
        """The one day of it all, or None."""

    def between(self, first_ms: int, last_ms: int) -> str:
        """`between 10:02:31 and 10:04:00`, with one date if that is all it takes."""
        last = clock(last_ms) if day(first_ms) == day(last_ms) else timestamp(last_ms)
        return f"between {self.at(first_ms)} and {last}"

    def at(self, at_ms: int) -> str:
        """`10:02:31`, or `2026-11-21 10:02:31`."""
        return clock(at_ms) if at_ms != NO_TIMESTAMP_MS and day(at_ms) == self.day else timestamp(at_ms)
