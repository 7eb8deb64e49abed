"""Values that stand somewhere else: `${NAME}` in the environment, `{file: PATH}` in a file, such as a mounted secret.

A reference is the whole value; nothing is put into the middle of a text, so nothing needs an escape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST = 100_000
"""Bytes of a file that a value is read from: what is longer is a wrong path."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def referred(value: Any, environment: Mapping[str, str], directory: Path) -> str | None:
    """What a reference refers to; None where the value is none. Paths are relative to `directory`.

    Raises `ValueError` that says what is missing. Of a file one line break at the end is left out.
    """
    if isinstance(value, str):
        return variable(value, environment)
    if isinstance(value, dict) and [*value] == ["file"] and isinstance(value["file"], str):
        return _content(directory / value["file"])
    return None


def variable(text: str, environment: Mapping[str, str]) -> str | None:
    """What `${NAME}` stands for; None where the text is no such reference. Raises `ValueError`, as `referred`."""
    name = variable_name(text)
    if name is None:
        return None
    if name not in environment:
        raise ValueError(f"the environment variable {name} expected, it is not set")
    return environment[name]


def variable_name(text: str) -> str | None:
    """NAME, where the text is exactly `${NAME}`."""
    found = _VARIABLE.fullmatch(text)
    return None if found is None else found[1]


def _content(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise ValueError(f"a file of at most {LONGEST} bytes expected, {path} is longer")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"the file {path} expected: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"a text in UTF-8 expected in {path}") from None
