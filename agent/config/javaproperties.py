"""Java's properties files, as `java.util.Properties` reads them. Pure.

Kafka's tools read them as bytes, which Java takes for Latin-1; other letters are `\\uXXXX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ENCODING = "latin-1"

_BLANKS = " \t\f"
_ENDS = re.compile(r"\r\n|\r|\n")
_TRAILING = re.compile(r"\\*$")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_KNOWN = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Names and values; of two equal names the last.

    Raises `ValueError` with the line of a `\\u` that lacks four digits.
    """
    out: dict[str, str] = {}
    for number, line in _logical_lines(text):
        at = _end_of_key(line)
        rest = line[at:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        try:
            out[_unescaped(line[:at])] = _unescaped(rest)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return out


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its first line; comments and blank lines are none."""
    whole, begun = "", 0
    continues = False
    for number, natural in enumerate(_ENDS.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not whole and (not line or line[0] in "#!"):
            continues = continues and bool(line)
            continue
        begun = begun if whole or continues else number
        odd = len(_TRAILING.findall(line)[0]) % 2 == 1
        whole += line[:-1] if odd else line
        continues = odd
        if not continues:
            yield begun, whole
            whole = ""
    if whole or continues:
        yield begun, whole


def _end_of_key(line: str) -> int:
    """Where the first separator stands that no backslash is before."""
    escaped = False
    for at, char in enumerate(line):
        if not escaped and char in "=: \t\f":
            return at
        escaped = char == "\\" and not escaped
    return len(line)


def _unescaped(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] != "u":
            return _KNOWN.get(escape, escape)
        if len(escape) != 5:
            raise ValueError("four hexadecimal digits expected behind \\u")
        return chr(int(escape[1:], 16))

    return _paired(_ESCAPE.sub(char, text)) if "\\" in text else text


def _paired(text: str) -> str:
    """Java's two halves of a letter as the one that they are."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
