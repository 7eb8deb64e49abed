"""Text that strangers wrote, made fit for a terminal; values as tables show them.

Group names, client ids and metadata come from anyone who may use the cluster. No control character, escape
sequence or change of direction of theirs reaches a terminal: JSON and YAML carry them escaped, tables show them so.
Owns no output stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from agent.common.sanitize import printable
from agent.common.text import printable_truncated, runs

MAX_TEXT = 256
"""Characters of one name that a table shows. Kafka's own names are shorter; a hostile one may have 32,767."""
MAX_LIST = 1024
"""Characters of a list that a table shows: an assignment of many topics."""

# Plain ASCII is spared Python's own idea of what is printable.
_MAYBE_UNPRINTABLE = re.compile(r"[^\x20-\x7e\n]")


def printable_lines(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def json_text(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON with the same characters escaped, other letters as they are unless `ascii_only`."""
    text = _encoder(indent, ascii_only).encode(value)
    # json escapes C0 controls itself. What is left stands inside strings, where the escape is JSON's own.
    return _MAYBE_UNPRINTABLE.sub(_json_escape, text)


@cache
def _encoder(indent: int | None, ascii_only: bool) -> json.JSONEncoder:
    """To make one takes as long as to write a short line by it."""
    separators = None if indent is not None else (",", ":")
    return json.JSONEncoder(ensure_ascii=ascii_only, indent=indent, separators=separators)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    if char.isprintable():
        return char
    # json's own escape: a pair of surrogates beyond the first 65,536. It leaves DEL, which is ASCII, as it is.
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]


def cell(value: Any) -> str:
    """A value as a table shows it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return printable_truncated(", ".join(map(str, value)), MAX_LIST) or "-"
        case dict():
            parts = (
                f"{name}[{_number_ranges(items)}]" if isinstance(items, list) else f"{name}={items}"
                for name, items in value.items()
            )
            return printable_truncated(" ".join(parts), MAX_LIST) or "-"
        case _:
            return printable_truncated(str(value), MAX_TEXT)


def _number_ranges(numbers: Sequence[Any]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7; what are no numbers one by one."""
    if not all(isinstance(number, int) for number in numbers):
        return ",".join(map(str, numbers))
    return ",".join(runs(numbers))


def iso_time(at_ms: int | None) -> str | None:
    """Epoch milliseconds as UTC, ISO 8601; None and unknown (-1) are None."""
    from datetime import UTC, datetime

    if at_ms is None or at_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # A timestamp that a broken client made up.
        return f"{at_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}Z"
