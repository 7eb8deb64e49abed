"""Printing: the formats, and the two streams.

Rows are printed as they come, in all formats but a table, which must see all before it knows its widths. What
strangers wrote goes through `agent.cli.text` first, whatever the format.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import StringIO
from typing import Any, NoReturn, TextIO

import click

from agent.cli.session import session_of
from agent.cli.tables import MIN_FOLDED_WIDTH, Column, fold_words, render
from agent.cli.text import cell, json_text, printable_lines
from agent.common.sanitize import printable

__all__ = [
    "Column",
    "bold",
    "cell",
    "echo",
    "errors_for_terminal",
    "line_text",
    "print_lines",
    "print_rows",
    "print_table",
    "print_value",
    "printable",
    "warn",
]

EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
"""What a shell makes of a command that Ctrl-C ended."""


class UnwritableOutput(click.ClickException):
    """Standard output takes no more: a full disk."""

    exit_code = EXIT_UNREACHABLE


@contextmanager
def errors_for_terminal() -> Iterator[None]:
    """End quietly where the reader went away (`| head`) or Ctrl-C came; make errors fit for a terminal."""
    try:
        try:
            yield
        except OSError as error:
            # Of what click prints itself, and of bytes, where Python holds nothing back (PYTHONUNBUFFERED).
            if error.errno in (errno.ENOSPC, errno.EBADF) and error.filename is None:
                _fail_write(error)
            raise
        finally:
            _flush()
    except BrokenPipeError:
        # Nothing more is said.
        _redirect_to_devnull(sys.stdout)
        _redirect_to_devnull(sys.stderr)
        raise click.exceptions.Exit(0) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    except click.ClickException as error:
        # Messages quote arguments, and those may be anything.
        text = StringIO()
        error.show(text)
        if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "group":
            text.write("kshadow groups lists those there are\n")
        _say(printable_lines(text.getvalue().expandtabs(4)))
        raise click.exceptions.Exit(error.exit_code) from None


def print_rows(
    rows: Iterable[Mapping[str, Any]], output: str, columns: Mapping[str, Column], *, empty: str = "nothing"
) -> None:
    """A list in the chosen format. `columns` are the keys that a table shows, with their headings."""
    plain = _ascii_only()
    match output:
        case "ndjson":
            for row in rows:
                echo(json_text(row, ascii_only=plain))
        case "json":
            before = "[\n  "
            for row in rows:
                # No string holds a raw line break: every one there is ours.
                _write(before + json_text(row, indent=2, ascii_only=plain).replace("\n", "\n  "))
                before = ",\n  "
            _write("[]\n" if before.startswith("[") else "\n]\n")
        case "yaml":
            any_row = False
            for row in rows:
                any_row = True
                # A list of YAML is its items' texts, one after another.
                _write(_yaml_text([row], plain))
            if not any_row:
                _write("[]\n")
        case _:
            print_table([[row.get(key) for key in columns] for row in rows], list(columns.values()), empty=empty)


def line_text(value: Any) -> str:
    """JSON on one line, as standard output can show it."""
    return json_text(value, ascii_only=_ascii_only())


def print_lines(lines: Iterable[str], *, at_once: bool) -> None:
    """Lines as they come: each `at_once`, or when enough have come together, which takes less time."""
    for line in lines:
        if at_once:
            echo(line)
        else:
            _write(line + "\n")


def print_value(value: Mapping[str, Any], output: str) -> None:
    """One thing as JSON, one line of it, or YAML."""
    plain = _ascii_only()
    if output not in ("json", "ndjson"):
        _write(_yaml_text(value, plain))
        return
    _write(json_text(value, indent=2 if output == "json" else None, ascii_only=plain) + "\n")


def _yaml_text(value: Any, ascii_only: bool) -> str:
    import yaml

    def dump(dumper: str) -> str:
        text: str = yaml.dump(
            value,
            Dumper=_yaml_dumper(dumper, ascii_only),
            sort_keys=False,
            allow_unicode=not ascii_only,
            width=_UNLIMITED_WIDTH,
        )
        return printable_lines(text)

    # libyaml takes a quarter of the time, of long texts a fiftieth. It takes no surrogates, and escapes what lies
    # beyond the first 65,536 characters: what may hold such is left to Python's dumper, which shows it.
    with suppress(AttributeError, UnicodeEncodeError):
        text = dump("CSafeDumper")
        if ascii_only or "\\U" not in text:
            return text
    return dump("SafeDumper")


_UNLIMITED_WIDTH = 1 << 30


@cache
def _yaml_dumper(name: str, ascii_only: bool) -> Any:
    """Of these classes of PyYAML's. Raises `AttributeError` where it was built without libyaml."""
    import yaml

    class Dumper(getattr(yaml, name)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # What must be escaped must stand in double quotes.
        style = None if text.isprintable() and (text.isascii() or not ascii_only) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, quoted)
    return Dumper


def print_table(rows: Sequence[Sequence[Any]], headings: Sequence[Column | str], *, empty: str = "nothing") -> None:
    """A table: fitted to a terminal, full width and plain when piped. `empty` says that there is no row."""
    if not rows:
        warn(empty)
        return
    wide = _is_wide()
    columns = [
        Column(heading, folds=MIN_FOLDED_WIDTH) if isinstance(heading, str) else heading for heading in headings
    ]
    if not wide:
        shown = [at for at, column in enumerate(columns) if not column.wide]
        columns, rows = [columns[at] for at in shown], [[row[at] for at in shown] for row in rows]
    numeric = [
        all(row[at] is None or (isinstance(row[at], int | float) and not isinstance(row[at], bool)) for row in rows)
        for at in range(len(columns))
    ]
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal and not wide else None
    texts = [[_with_unit(value, column.unit) for value, column in zip(row, columns, strict=True)] for row in rows]
    lines, left_out = render(columns, texts, numeric=numeric, width=width, style=bold)
    for line in lines:
        _write(line + "\n")
    if left_out:
        warn(f"(no room at {width} columns for {', '.join(left_out)}; a wider terminal or -o wide shows all)")


COMMAS_FROM = 10_000
"""Numbers from here on are easier to read with commas."""


def _with_unit(value: Any, unit: str) -> str:
    if unit and isinstance(value, int) and not isinstance(value, bool):
        if unit == "ms" and value >= 0:
            from agent.presentation.narrative.words import duration

            return duration(value)
        if unit == "count" and abs(value) >= COMMAS_FROM:
            return f"{value:,}"
    return cell(value)


def _is_wide() -> bool:
    """Whether `-o wide` was asked for."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and session_of(ctx).wide


def bold(text: str) -> str:
    """A heading, bold on a terminal that shows it and may."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _ascii_only() -> bool:
    """Whether standard output can hold ASCII only for sure: then formats use their escapes."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "") not in ("utf8", "utf8sig")


def echo(text: str, *, nl: bool = True) -> None:
    """Print to standard output, at once."""
    _write(text + "\n" if nl else text)
    _flush()


def _write(text: str) -> None:
    """Print to standard output when enough has come together, and at the end."""
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail_write(error)
    except UnicodeEncodeError:
        # A table on a terminal of another encoding; JSON and YAML have escapes of their own.
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _fail_write(error)


def _fail_write(error: OSError) -> NoReturn:
    _redirect_to_devnull(sys.stdout)
    why = error.strerror or str(error) or type(error).__name__
    raise UnwritableOutput(f"cannot write the output: {why}") from None


def _redirect_to_devnull(stream: TextIO) -> None:
    """Send it nowhere: Python would complain again when it flushes at exit."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


MAX_TEXT_WIDTH = 100
"""Columns of a text: longer lines are hard to read."""
MIN_TEXT_WIDTH = 20
"""Cells of a text at the least: a narrower terminal breaks lines by itself."""


def echo_text(text: str, first: str = "", rest: str = "", *, widest: int = MAX_TEXT_WIDTH) -> None:
    """Print sentences, folded for a terminal: `first` stands before the first line, `rest` before the others."""
    shown = printable(text)
    lines = [shown]
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size().columns, widest) - len(rest)
        lines = fold_words(shown, max(width, MIN_TEXT_WIDTH))
    for at, line in enumerate(lines):
        echo((rest if at else first) + line)


def warn(text: str) -> None:
    """A line on standard error."""
    _say(printable(text) + "\n")


def _say(text: str) -> None:
    """Print to standard error. Where that takes no more, the exit code tells all the same what happened."""
    try:
        click.echo(text, err=True, nl=False)
    except OSError:
        _redirect_to_devnull(sys.stderr)
