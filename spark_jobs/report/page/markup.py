"""HTML, and nothing of strangers' in it. What is `Markup` is markup of ours; every other text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from agent.common.sanitize import printable
from agent.presentation.markup import EMPTY, MAX_NAME, Markup, shortened
from agent.presentation.markup import name as bare_name

__all__ = ["EMPTY", "MAX_NAME", "Markup", "shortened"]

Cell = Markup | str | None
"""What stands in a table: None is not known."""

BLANK = Markup('<span title="not known" class="blank"><span class="unseen">not known</span></span>')


class Head(NamedTuple):
    """A column: `is_number` puts it to the right, `about` is shown on hover."""

    text: str
    is_number: bool = False
    about: str = ""


def NumberHead(text: str, about: str = "") -> Head:
    """A column of numbers."""
    return Head(text, is_number=True, about=about)


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


def first_of(shown: int, total: int) -> str:
    """How many of how many."""
    return f"The first {shown:,} of {total:,}" if shown < total else f"All {total:,}"


def folded(summary: str, part: Markup) -> Markup:
    """What is shown when asked for, and when printed."""
    return Markup(f"<details><summary>{html(summary)}</summary>{part}</details>")


def table(caption: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]]) -> Markup:
    """The first column that is no number names the row. Scrolls by itself where it is wide."""
    naming = next(at for at, head in enumerate(heads) if not head.is_number)
    top = "".join(_head(head) for head in heads)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{html(it)}</th>' if at == naming else f"<td{_class(heads[at])}>{html(it)}</td>"
            for at, it in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    shown = escape(printable(caption))
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{shown}"><table>'
        f"<caption><span>{shown}</span></caption>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _head(head: Head) -> str:
    about = f' title="{escape(head.about)}"' if head.about else ""
    return f'<th scope="col"{_class(head)}{about}>{html(head.text)}</th>'


def _class(head: Head) -> str:
    return ' class="number"' if head.is_number else ""
