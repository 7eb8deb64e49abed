"""Tables: rows of text, fitted to a width.

Where there is a width to keep, spare columns are left out first, the least wanted before the others, and then
columns that may be folded are; numbers and times are not. Without one (a pipe) every column is as wide as it needs
to be. No line ends in blanks. Knows neither terminals nor what the text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

COLUMN_GAP = 2
"""Blanks between two columns."""
MIN_FOLDED_WIDTH = 12
"""The narrowest that folding commonly makes a column."""
INDENT = "    "
"""Before sentences under their row."""

_BREAK_AFTER = ",;:/.-_=]}"


class Column(Struct, frozen=True):
    """A heading and what may be done to its column to make a table fit.

    `folds`: the narrowest that it is folded to before spare columns are left out instead; 0 is not folded.
    `spare`: the column with the greatest is left out first; one with 0 never is. `wide`: only in a wide table.
    `unit`: what its numbers are, for people: `ms` of a duration, or `count`, which has commas where it is long.
    `below`: of sentences, which stand under their row where the column would be narrower than this.
    """

    heading: str
    folds: int = 0
    spare: int = 0
    wide: bool = False
    unit: str = ""
    below: int = 0


def with_cluster(columns: Mapping[str, Column], groups: Iterable[Mapping[str, object]]) -> Mapping[str, Column]:
    """The columns, and before that of the group its cluster's, where `groups` are those of an agent of several."""
    if all(row.get("cluster") is None for row in groups):
        return columns
    out = {}
    for key, column in columns.items():
        if key == "group":
            out["cluster"] = Column("CLUSTER", folds=MIN_FOLDED_WIDTH)
        out[key] = column
    return out


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Sequence[bool],
    width: int | None,
    style: Callable[[str], str] = str,
) -> tuple[list[str], list[str]]:
    """The lines of a table, headings (through `style`) first, and the headings of the columns that were left out.

    `numeric` columns stand to the right. `width` None: as wide as it needs to be.
    """
    natural = [
        max([_cell_width(column.heading), *(_cell_width(row[at]) for row in rows)])
        for at, column in enumerate(columns)
    ]
    under: list[int] = []
    if width is None:
        shown = dict(enumerate(natural))
    else:
        beside = _total_width(wide for column, wide in zip(columns, natural, strict=True) if not column.below)
        under = [
            at
            for at, column in enumerate(columns)
            if column.below and not column.spare and min(natural[at], column.below) > width - beside - COLUMN_GAP
        ]
        # What might be spared of the sentences is, where not even the others have room beside their row.
        gone = [at for at, column in enumerate(columns) if column.below and (at in under or (under and column.spare))]
        natural = [0 if at in gone else wide for at, wide in enumerate(natural)]
        # Columns that say nothing go before those that do.
        says = [any(row[at] not in ("", "-") for row in rows) for at in range(len(columns))]
        shown = _fit(columns, natural, says, width, without=gone)
    lines = [style(line) for line in _row_lines([column.heading for column in columns], shown, numeric)]
    for row in rows:
        lines.extend(_row_lines(row, shown, numeric))
        for at in under:
            lines.extend(INDENT + line for line in fold_words(row[at], max((width or 0) - len(INDENT), 1)))
    return lines, [column.heading for at, column in enumerate(columns) if at not in shown and at not in under]


def _fit(
    columns: Sequence[Column], natural: Sequence[int], says: Sequence[bool], width: int, without: Sequence[int] = ()
) -> dict[int, int]:
    """The columns that are shown, each with its width."""
    least = [
        min(wide, max(_cell_width(column.heading), column.folds)) if column.folds else wide
        for column, wide in zip(columns, natural, strict=True)
    ]
    shown = [at for at in range(len(columns)) if at not in without]
    order = sorted(shown, key=lambda at: (says[at], -columns[at].spare))
    for at in order:
        if _total_width(least[at] for at in shown) <= width:
            break
        if columns[at].spare:
            shown.remove(at)
    # A terminal that is too narrow for what cannot be left out: fold all.
    every = _total_width(least[at] for at in shown) > width
    folded = [at for at in shown if every or columns[at].folds]
    widths = {at: natural[at] for at in shown}
    left = width - _total_width(0 if at in folded else natural[at] for at in shown)
    for index, at in enumerate(sorted(folded, key=lambda at: natural[at])):
        widths[at] = max(1, min(natural[at], left // (len(folded) - index)))
        left -= widths[at]
    return widths


def _total_width(widths: Iterable[int]) -> int:
    widths = list(widths)
    return sum(widths) + COLUMN_GAP * (len(widths) - 1)


def _row_lines(row: Sequence[str], shown: dict[int, int], numeric: Sequence[bool]) -> list[str]:
    """One row as one line, or as several where a cell is folded."""
    folded = [(fold(row[at], wide), wide, numeric[at]) for at, wide in shown.items()]
    lines = []
    for index in range(max(len(parts) for parts, _, _ in folded)):
        cells = [_padded(parts[index] if index < len(parts) else "", wide, right) for parts, wide, right in folded]
        lines.append((" " * COLUMN_GAP).join(cells).rstrip(" "))
    return lines


def row_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row as one line, in columns of at least these widths."""
    padded = [_padded(text, width, False) for text, width in zip(cells, widths, strict=True)]
    return (" " * COLUMN_GAP).join(padded).rstrip(" ")


def fold(text: str, width: int) -> list[str]:
    """A text in pieces of at most `width` terminal cells, cut behind a blank, or else a mark, where one is near."""
    pieces = []
    while _cell_width(text) > width:
        cut = _fitting_characters(text, width)
        blank = cut if text[cut : cut + 1] == " " else text.rfind(" ", cut // 2, cut)
        if blank >= 0 and _UNIT.match(text, blank + 1):
            # A number stays with its unit where there is another blank.
            before = text.rfind(" ", cut // 2, blank)
            blank = before if before >= 0 else blank
        at = blank + 1 or max(text.rfind(mark, cut // 2, cut) for mark in _BREAK_AFTER) + 1 or cut
        pieces.append(text[:at].rstrip(" "))
        text = text[at:].lstrip(" ")
    return [*pieces, text] if text or not pieces else pieces


def fold_words(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` cells, cut at blanks where words are not too long for that; a number is kept
    together with its unit."""
    lines: list[str] = []
    for word in _WORDS.split(text):
        *full, rest = fold(word, width)
        if lines and not full and _cell_width(lines[-1]) + 1 + _cell_width(rest) <= width:
            lines[-1] += f" {rest}"
        else:
            lines += [*full, rest]
    return lines


_UNIT = re.compile(r"(?:%|ms|s|min|h|d)(?:[^a-z]|$)")
_WORDS = re.compile(rf" (?!{_UNIT.pattern})")


def _fitting_characters(text: str, width: int) -> int:
    """How many characters of a text fit; one at least."""
    from rich.cells import get_character_cell_size

    wide = 0
    for at, char in enumerate(text):
        wide += get_character_cell_size(char)
        if wide > width:
            return max(at, 1)
    return len(text)


def _padded(text: str, width: int, right: bool) -> str:
    padding = " " * (width - _cell_width(text))
    return padding + text if right else text + padding


def _cell_width(text: str) -> int:
    """Terminal cells: two for an East Asian wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
