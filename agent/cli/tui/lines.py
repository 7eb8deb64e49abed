"""Lines of styled text, as wide as they are told to be: pieces of text, each with the name of one of `styles`.

Widths are columns of a terminal, in which a letter may take two. Texts are printable already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from agent.common.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

Piece = tuple[str, str]
"""A text, and the name of its style; an empty name is none."""
Line = tuple[Piece, ...]

BLOCKS = "▁▂▃▄▅▆▇█"


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly so many columns; `…` says that there is more."""
    if width <= 0:
        return ""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    space = " " * (width - length)
    return space + text if right else text + space


def wrap(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns, broken at blanks where there are some."""
    out: list[str] = []
    line = ""
    for word in text.split(" "):
        candidate = f"{line} {word}" if line else word
        if cell_len(candidate) <= width:
            line = candidate
            continue
        if line:
            out.append(line)
        while cell_len(word) > width > 1:
            head = set_cell_size(word, width).rstrip(" ")
            out.append(head)
            word = word[len(head) :]
        line = word
    return [*out, line] if line or not out else out


def wrapped(first: Sequence[Piece], text: str, width: int, style: str = "", indent: int | None = None) -> list[Line]:
    """Pieces, then a text that goes on below, `indent` columns from the left: below itself unless told."""
    used = sum(cell_len(piece) for piece, _ in first)
    indent = used if indent is None else indent
    if width - used < 16:
        # Too little room beside the pieces: the text begins below them.
        return [clipped(first, width), *(((" " * 2, ""), (it, style)) for it in wrap(text, max(width - 2, 2)))]
    head, *more = wrap(text, width - used)
    rest = wrap(" ".join(more), max(width - indent, 2)) if more else []
    return [(*first, (head, style)), *(((" " * indent, ""), (it, style)) for it in rest)]


def clipped(pieces: Sequence[Piece], width: int) -> Line:
    """Pieces as far as there is room."""
    out: list[Piece] = []
    for text, style in pieces:
        length = cell_len(text)
        if length > width:
            return (*out, (fitted(text, width), style)) if width > 0 else tuple(out)
        out.append((text, style))
        width -= length
    return tuple(out)


def justified(left: Sequence[Piece], right: Sequence[Piece], width: int) -> Line:
    """Pieces at both ends of a line; where there is no room for all, the left ones are cut."""
    # One column between them.
    room = max(width - sum(cell_len(text) for text, _ in right) - bool(right), 0)
    line = clipped(left, room)
    space = room - sum(cell_len(text) for text, _ in line) + bool(right)
    return (*line, (" " * space, ""), *right)


def short_number(value: int | None) -> str:
    """A number in at most five columns: `999`, `12.3k`, `4.5M`; `-` where it is not known."""
    if value is None:
        return "-"
    if abs(value) < 10_000:
        return str(value)
    for unit in "kMGTPE":
        value_f = value / 1000
        if abs(value_f) < 999.5 or unit == "E":
            return f"{value_f:.1f}{unit}" if abs(value_f) < 99.95 else f"{value_f:.0f}{unit}"
        value = round(value_f)
    raise AssertionError("the last unit takes all")


def short_age(ms: int | None) -> str:
    """How long ago, in at most four columns: `5s`, `12m`, `3h`, `40d`; `-` where it is not known."""
    if ms is None:
        return "-"
    for unit_ms, unit, most in ((SECOND_MS, "s", 100), (MINUTE_MS, "m", 100), (HOUR_MS, "h", 48)):
        if ms < most * unit_ms:
            return f"{max(ms, 0) // unit_ms}{unit}"
    return f"{min(ms // DAY_MS, 999)}d"


def sparkline(points: Iterable[tuple[int, int | None]], width: int, height: int = 1) -> list[str]:
    """Bars over time, from the oldest point to the newest, in so many lines; a gap where nothing is known.

    Each column is the most of its time. Zero is the lowest block: it is known.
    """
    known = list(points)
    if not known or width <= 0:
        return [" " * max(width, 0)] * height
    first, last = known[0][0], known[-1][0]
    used = min(width, len(known))
    columns: list[int | None] = [None] * width
    gaps = sorted(after[0] - before[0] for before, after in pairwise(known))
    usual_ms = gaps[len(gaps) // 2] if gaps else 0
    before: tuple[int, int] | None = None
    for at_ms, value in known:
        if value is None:
            before = None
            continue
        at = round((at_ms - first) / (last - first) * (used - 1)) if last > first else 0
        columns[at] = max(columns[at] or 0, value)
        # Looks are not quite as regular as columns: only where some are missing nothing is known.
        if before is not None and at_ms - before[0] <= 3 * usual_ms:
            columns[before[1] + 1 : at] = [columns[before[1]]] * max(at - before[1] - 1, 0)
        before = at_ms, at
    most = max((value for value in columns if value is not None), default=0)
    steps = height * len(BLOCKS)
    levels = [None if it is None else 1 if most == 0 else max(1, round(it / most * steps)) for it in columns]
    out = []
    for row in range(height - 1, -1, -1):
        floor = row * len(BLOCKS)
        out.append("".join(_block(level, floor) for level in levels))
    return out


def _block(level: int | None, floor: int) -> str:
    if level is None or level <= floor:
        return " "
    return BLOCKS[min(level - floor, len(BLOCKS)) - 1]
