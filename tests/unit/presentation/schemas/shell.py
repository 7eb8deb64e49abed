"""As much of a shell as the page's recipes need: pipelines of kshadow and jq, both in this process, and `>`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jq

from tests.unit.cli.running import kshadow


class Ran(NamedTuple):
    """What the last of a pipeline printed, the exit code of each, and what they said."""

    out: str
    codes: tuple[int, ...]
    said: str


def pipelines(text: str) -> Iterator[list[str]]:
    """Each command line's words, with `|` and `>` among them."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="|>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for word in lexer:
        if word.strip("\n"):
            words.append(word)
        elif words:
            yield words
            words = []
    if words:
        yield words


def run(words: Sequence[str], places: Mapping[str, str]) -> Ran:
    """One of them. `places`: what stands for the paths of the page."""
    out, codes, said, to = "", [], "", None
    words = [_placed(word, places) for word in words]
    if len(words) > 1 and words[-2] == ">":
        *words, _, to = words
    for command in _split(words):
        name, *arguments = command
        if name == "kshadow":
            # Others may be at the usual port.
            result = kshadow(*arguments, stdin=out, env={"KSHADOW_LISTEN": "127.0.0.1:0"})
            out, said = result.stdout, said + result.stderr
            codes.append(result.exit_code)
        else:
            assert name == "jq", command
            out, code = _jq(arguments, out)
            codes.append(code)
    if to is not None:
        Path(to).write_text(out, encoding="utf-8")
    return Ran(out, tuple(codes), said)


def _placed(word: str, places: Mapping[str, str]) -> str:
    for place, here in places.items():
        word = word.replace(place, here)
    return word


def _split(words: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    for word in words:
        if word == "|":
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _jq(arguments: Sequence[str], text: str) -> tuple[str, int]:
    flags: set[str] = set()
    given: dict[str, Any] = {}
    left = list(arguments)
    program: str | None = None
    while left:
        word = left.pop(0)
        if word == "--slurpfile":
            name, path = left.pop(0), left.pop(0)
            given[name] = jq.compile(".").input_text(Path(path).read_text(encoding="utf-8")).all()
        elif word.startswith("-"):
            flags.add(word)
        else:
            assert program is None, "one program"
            program = word
    assert program is not None
    assert flags <= {"-s", "-r", "-c", "-n", "-e"}, flags
    made = jq.compile(program, args=given)
    if "-n" in flags:
        results = made.input_value(None).all()
    else:
        results = made.input_text(text, slurp="-s" in flags).all()
    shown = [it if "-r" in flags and isinstance(it, str) else json.dumps(it, ensure_ascii=False) for it in results]
    failed = "-e" in flags and (not results or results[-1] in (None, False))
    return "".join(f"{it}\n" for it in shown), int(failed)
