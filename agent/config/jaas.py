"""`sasl.jaas.config`: a login module and its options, as Kafka's clients read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/ | "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)' """
    r"""| (?P<mark>[=;]) | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_KNOWN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_EXPECTED = 'a login module, required, and NAME="VALUE" options up to a ; expected'


@dataclass(frozen=True, slots=True)
class Login:
    """A module's class, and its options, which hold secrets."""

    module: str
    options: dict[str, str] = field(repr=False)

    @property
    def kind(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


def parse(text: str) -> Login:
    """The one entry. Raises `ValueError`, which quotes nothing of it."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != (";", True) or tokens[1][0].lower() not in _FLAGS:
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}")
    module, options = tokens[0][0], tokens[2:-1]
    if len(options) % 3 or any(mark != ("=", True) for mark in options[1::3]):
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}; a value with blanks or marks stands in quotes")
    names, values = options[::3], options[2::3]
    if any(is_mark for _, is_mark in (*names, *values)):
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}")
    return Login(module, {name: value for (name, _), (value, _) in zip(names, values, strict=True)})


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each with whether it is a mark."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("sasl.jaas.config: a quote is not closed")
        at = found.end()
        quoted = found["double"] if found["double"] is not None else found["single"]
        if quoted is not None:
            yield _ESCAPE.sub(_escaped, quoted), False
        elif found["mark"] or found["word"]:
            yield found[0], bool(found["mark"])


def _escaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _KNOWN.get(escape, escape)
