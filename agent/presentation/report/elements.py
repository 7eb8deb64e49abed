"""Pieces of the page: tables, numbers, figures, badges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.presentation.markup import Markup, escape, join, prose
from agent.presentation.narrative.words import at_least, duration

UNKNOWN = "not known"


def counted(number: int, is_partial: bool) -> str | None:
    """A number, where there may have been more: that there were at least 0 says nothing."""
    return None if is_partial and not number else at_least(f"{number:,}", is_partial)


def stopped_time(stopped_ms: int | None, is_partial: bool) -> str | None:
    """The same of stopped partition time; None where nothing is known of it."""
    if stopped_ms is None or (is_partial and not stopped_ms):
        return None
    return at_least(duration(stopped_ms), is_partial)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Markup:
    """`#` before a head: numbers, to the right; `~`: words, which wrap. The first column names the row.

    It scrolls by itself where it is wide, by keyboard too.
    """
    said = escape(caption)
    kinds = [_KINDS.get(head[0], "") for head in heads]
    top = "".join(
        f'<th scope="col"{kind}>{escape(head.lstrip("#~"))}</th>' for head, kind in zip(heads, kinds, strict=True)
    )
    body = "\n".join(_row(row, kinds) for row in rows)
    shown = f"<table><caption>{said}</caption><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return scroll_box(said, shown)


_KINDS = {"#": ' class="number"', "~": ' class="words"'}


def _row(row: Sequence[str | None], kinds: Sequence[str]) -> str:
    first, *rest = row
    cells = "".join(f"<td{kind}>{_cell(it)}</td>" for it, kind in zip(rest, kinds[1:], strict=True))
    return f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>'


def _cell(value: str | None) -> Markup:
    return Markup("<small>?</small>") if value is None else escape(value)


def numbers(pairs: Iterable[tuple[str, str | None, str, bool]]) -> Markup:
    """Headline numbers: what, how much (None is not known), a word about it, and whether it is bad."""
    return Markup(f"<dl>{''.join(_number(*pair) for pair in pairs)}</dl>")


def _number(what: str, value: str | None, about: str, is_bad: bool) -> str:
    small = f"<small>{escape(about)}</small>" if about else ""
    kind = ' class="bad"' if is_bad else ""
    return f"<div><dt>{escape(what)}</dt><dd{kind}>{escape(UNKNOWN if value is None else value)}{small}</dd></div>"


def figure(wide: str, narrow: str, caption: str, below: Markup = Markup("")) -> Markup:  # noqa: B008
    """A drawing in two widths, of which the page shows the one that fits."""
    return Markup(
        f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
        f"<figcaption>{escape(caption)}</figcaption>{below}</figure>"
    )


def details(summary: str, inside: str) -> Markup:
    """What is shown when it is asked for, and on paper."""
    return Markup(f"<details><summary>{escape(summary)}</summary>{inside}</details>")


def scroll_box(label: str, inside: str) -> Markup:
    """A wide thing in a box of its own."""
    return Markup(f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inside}</div>')


def paragraphs(texts: Sequence[str], kind: str = "") -> Markup:
    """One as a paragraph, several as a list."""
    if len(texts) == 1 and not kind:
        return Markup(f"<p>{prose(texts[0])}</p>")
    klass = f' class="{kind}"' if kind else ""
    return Markup(f"<ul{klass}>{''.join(f'<li>{prose(text)}</li>' for text in texts)}</ul>")


def badge(severity: str, text: str | None = None) -> Markup:
    """A severity in its colour, and in words."""
    kind = severity if severity in ("critical", "warning", "info") else "info"
    return Markup(f'<span class="badge {kind}">{escape(text or severity)}</span>')


def section(key: str, title: str, *parts: str, kind: str = "") -> Markup:
    """A part of the page under its heading."""
    klass = f' class="{kind}"' if kind else ""
    return Markup(
        f'<section id="{key}"{klass} aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(title)}</h2>\n'
        f"{join(map(Markup, parts), chr(10))}\n</section>"
    )
