"""Secrets: where they stand instead of in a file, and how none is printed.

A value may stand somewhere else: `${NAME}` in the environment, `{file: PATH}` in a file, such as a mounted secret.
Such a reference is the whole value; nothing is put into the middle of a text, so nothing needs an escape. Values of
properties whose names say that they are secret are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 100_000
"""Bytes of a file that a value is read from: what is longer is a wrong path."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def resolve_reference(value: Any, environment: Mapping[str, str], directory: Path) -> str | None:
    """What a reference refers to; None where the value is none. Paths are relative to `directory`.

    Raises `ValueError` that says what is missing. Of a file one line break at the end is left out.
    """
    if isinstance(value, str):
        return resolve_variable(value, environment)
    if isinstance(value, dict) and [*value] == ["file"] and isinstance(value["file"], str):
        return _content(directory / value["file"])
    return None


def resolve_variable(text: str, environment: Mapping[str, str]) -> str | None:
    """What `${NAME}` stands for; None where the text is no reference. Raises `ValueError` where it is not set, or no
    text."""
    name = variable_name(text)
    if name is None:
        return None
    if name not in environment:
        raise ValueError(f"expected the environment variable {name}, it is not set")
    if not is_utf8(environment[name]):
        raise ValueError(f"expected a text in UTF-8 in the environment variable {name}")
    return environment[name]


def is_utf8(text: str) -> bool:
    """Whether what came from a command line or a variable is text: else Python has put surrogates into it, at which
    Kafka's client ends with an error of Python's own."""
    return not re.search("[\ud800-\udfff]", text)


def variable_name(text: str) -> str | None:
    """NAME, where the text is exactly `${NAME}`."""
    found = _VARIABLE.fullmatch(text)
    return None if found is None else found[1]


def _content(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"expected a file of at most {MAX_FILE_BYTES} bytes, {path} is longer")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"expected the file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"expected a text in UTF-8 in {path}") from None


HIDDEN = "<hidden>"

_SECRET = re.compile("password|passphrase|secret|key|jaas|token|credential", re.IGNORECASE)
_LOCATION_SUFFIXES = (".location", ".url", ".file", ".id", ".type", ".keytab")
"""How names end that say where a secret is, or what kind of one it is."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY_OF_URL = re.compile(r"(://[^?\s]*\?)\S+")


def is_secret(name: str) -> bool:
    """Whether a property of this name may hold a secret."""
    return bool(_SECRET.search(name))


def holds_secret(name: str) -> bool:
    """Whether a property of this name is itself a secret, and not the place of one: what no file should hold."""
    return is_secret(name) and not name.lower().endswith(_LOCATION_SUFFIXES)


def redact(value: str) -> str:
    """Any other text: credentials in a URL are left out, and its query, which may be a signature."""
    return _QUERY_OF_URL.sub(rf"\1{HIDDEN}", _USER_IN_URL.sub(f"{HIDDEN}@", value))


def redact_properties(properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Properties as they may be printed, in their order."""
    return {name: HIDDEN if is_secret(name) else redact(value) for name, value in properties}
