"""HTML, and nothing of strangers' in it. What is `Markup` is markup of ours; every other text is escaped here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from agent.common.sanitize import printable
from agent.history.report.page.words import number
from agent.presentation.markup import EMPTY, MAX_NAME, Markup, shortened
from agent.presentation.markup import name as bare_name

__all__ = ["EMPTY", "MAX_NAME", "Markup", "shortened"]

Cell = Markup | str | None
"""What stands in a table: None is not known."""

BLANK = Markup('<span title="not known" class="blank"><span class="unseen">not known</span></span>')


class Column(NamedTuple):
    """A column of a table: its head, and what it shows of a row. `about` is shown on hover."""

    head: str
    show: Callable[[Any], Cell]
    about: str = ""
    is_number: bool = False
    """Numbers stand to the right."""


def numbers(head: str, show: Callable[[Any], Cell], about: str = "") -> Column:
    """A column of numbers."""
    return Column(head, show, about, is_number=True)


def field(head: str, key: str, show: Callable[[Any], str | None] = number, about: str = "") -> Column:
    """A column of numbers that shows one field of each row."""
    return numbers(head, lambda row: show(row[key]), about)


def not_known(show: Callable[[Any], int | None], rows: Sequence[Any]) -> list[Column]:
    """The column of how many rebalances a row's stopped time leaves out; none where every row's is whole."""
    if not any(map(show, rows)):
        return []
    return [numbers("Time not known", lambda row: number(show(row)), "rebalances that the stopped time leaves out")]


def group_column(shows_cluster: bool) -> Column:
    """The group that a row is of, with its cluster where there are several."""
    return Column("Group", lambda row: name(row["group"], cluster=row["cluster"], shows_cluster=shows_cluster))


def html(value: Cell) -> Markup:
    """A cell's markup."""
    if value is None:
        return BLANK
    return value if isinstance(value, Markup) else Markup(escape(printable(value)))


def name(text: str | None, *, cluster: str | None = None, shows_cluster: bool = False) -> Markup:
    """A stranger's name, which turns no text around it; with its cluster where there are several."""
    if text is None:
        return BLANK
    whole = bare_name(text)
    if shows_cluster and cluster is not None:
        return Markup(f"{whole} <small>{html(shortened(cluster))}</small>")
    return whole


def code(text: str) -> Markup:
    """What one types, in full."""
    return Markup(f"<code>{escape(printable(text))}</code>")


def join(pieces: Iterable[Cell], between: str = "") -> Markup:
    """Pieces of markup."""
    return Markup(between.join(html(piece) for piece in pieces))


def paragraph(*sentences: Cell) -> Markup:
    """Sentences; None is left out."""
    return Markup(f"<p>{join((it for it in sentences if it is not None), ' ')}</p>")


def note(*sentences: Cell) -> Markup:
    """What a section cannot tell."""
    return Markup(f'<p class="note">{join((it for it in sentences if it is not None), " ")}</p>')


def items(rows: Iterable[Cell]) -> Markup:
    """A list."""
    return Markup(f"<ul>{''.join(f'<li>{html(row)}</li>' for row in rows)}</ul>")


def section(key: str, title: str, *parts: Markup) -> Markup:
    """A part of the page with its heading."""
    return Markup(f'<section id="{key}"><h2>{html(title)}</h2>\n{join(parts, chr(10))}\n</section>')


def heading(title: str) -> Markup:
    """Within a section."""
    return Markup(f"<h3>{html(title)}</h3>")


def first_of(shown: int, total: int, noun: str) -> str:
    """How many of how many."""
    if total == 1:
        return f"The only {noun}"
    return f"The first {shown:,} of {total:,} {noun}s" if shown < total else f"All {total:,} {noun}s"


def folded(summary: str, part: Markup) -> Markup:
    """What is shown when asked for, and when printed."""
    return Markup(f"<details><summary>{html(summary)}</summary>{part}</details>")


def table(caption: str, columns: Sequence[Column], rows: Iterable[Any]) -> Markup:
    """The first column that is no number names the row. Scrolls by itself where it is wide."""
    naming = next(column for column in columns if not column.is_number)
    top = "".join(_head(column) for column in columns)
    body = "\n".join(f"<tr>{''.join(_cell(it, row, it is naming) for it in columns)}</tr>" for row in rows)
    shown = escape(printable(caption))
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{shown}"><table>'
        f"<caption><span>{shown}</span></caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _head(column: Column) -> str:
    about = f' title="{escape(column.about)}"' if column.about else ""
    return f'<th scope="col"{_class(column)}{about}>{html(column.head)}</th>'


def _cell(column: Column, row: Any, names_row: bool) -> str:
    shown = html(column.show(row))
    return f'<th scope="row">{shown}</th>' if names_row else f"<td{_class(column)}>{shown}</td>"


def _class(column: Column) -> str:
    return ' class="number"' if column.is_number else ""
