"""Printing: the four formats, and text that strangers wrote made fit for a terminal.

Group names, client ids and metadata come from anyone who may use the cluster. No control character, escape
sequence or change of direction of theirs reaches a terminal: JSON and YAML carry them escaped, tables show them so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

# Controls (C0, C1), line separators, zero-width and bidirectional marks, lone surrogates, byte order marks.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def printable(text: str) -> str:
    """Text with whatever could move a cursor or hide itself shown as an escape."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON with the same characters escaped, other letters as they are."""
    # json escapes C0 controls itself; what is left is inside strings, where the same escape is JSON's own.
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def print_rows(
    rows: Iterable[Mapping[str, Any]], output: str, columns: Mapping[str, str], *, empty: str = "nothing"
) -> None:
    """A list in the chosen format. `columns` are the keys that a table shows, with their headings."""
    match output:
        case "ndjson":
            for row in rows:
                echo(json_text(row))
        case "json":
            echo(json_text(list(rows), indent=2))
        case "yaml":
            _print_yaml(list(rows))
        case _:
            print_table([[row.get(key) for key in columns] for row in rows], list(columns.values()), empty=empty)


def print_value(value: Mapping[str, Any], output: str) -> None:
    """One thing as JSON, one line of it, or YAML."""
    match output:
        case "ndjson":
            echo(json_text(value))
        case "json":
            echo(json_text(value, indent=2))
        case _:
            _print_yaml(value)


def _print_yaml(value: Any) -> None:
    import yaml

    echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=4096), nl=False)


def print_table(rows: Sequence[Sequence[Any]], headings: Sequence[str], *, empty: str = "nothing") -> None:
    """A table: fitted to a terminal, full width and plain when piped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo(empty, err=True)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, heading in enumerate(headings):
        numeric = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    if sys.stdout.isatty():
        Console(highlight=False, soft_wrap=False).print(table)
        return
    # Piped: as wide as it needs to be, no colours, no folding.
    width = Console(width=100_000).measure(table).maximum
    Console(highlight=False, width=width, color_system=None, force_terminal=False).print(table)


def cell(value: Any) -> str:
    """A value as a table shows it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return printable(", ".join(map(str, value))) or "-"
        case dict():
            parts = (
                f"{name}[{_ranges(items)}]" if isinstance(items, list) else f"{name}={items}"
                for name, items in value.items()
            )
            return printable(" ".join(parts)) or "-"
        case _:
            return printable(str(value))


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7."""
    out: list[str] = []
    start = previous = None
    for number in [*sorted(numbers), None]:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            out.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = number
    return ",".join(out)


def when(at_ms: int | None) -> str | None:
    """Epoch milliseconds as UTC, ISO 8601; None and unknown (-1) stay None."""
    from datetime import UTC, datetime

    if at_ms is None or at_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # A timestamp that a broken client made up.
        return f"{at_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def echo(text: str, *, nl: bool = True) -> None:
    """Print to standard output; a reader that went away (`| head`) ends the command quietly."""
    try:
        click.echo(text, nl=nl)
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def warn(text: str) -> None:
    """A line on standard error."""
    click.echo(printable(text), err=True)
