"""`--command-config`: a file of client properties, read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

LONGEST = 1_000_000
"""Bytes of a file: what is longer holds something else."""


class CommandConfigFile(click.ParamType[Any]):
    """A file of Java's properties, as `agent.config.commandconfig.CommandConfig`."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and translate it."""
        if not isinstance(value, str):
            return value
        from agent.config.commandconfig import translate
        from agent.config.javaproperties import ENCODING, parse

        try:
            with open(value, "rb") as file:
                content = file.read(LONGEST + 1)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)
        if len(content) > LONGEST or b"\0" in content:
            self.fail(f"{value}: a text file of NAME=VALUE lines expected", param, ctx)
        try:
            java = parse(content.decode(ENCODING))
        except ValueError as error:
            self.fail(f"{value}: {error}", param, ctx)
        made = translate(value, java, _peek)
        return replace(made, warnings=(*made.warnings, *_letters(value, content)))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Files."""
        return click.Path().shell_complete(ctx, param, incomplete)


def _letters(path: str, content: bytes) -> Iterator[str]:
    """Java takes the two bytes that UTF-8 makes of ü for two letters: of a password, another one."""
    if not content.isascii():
        with suppress(UnicodeDecodeError):
            content.decode()
            yield f"{path}: is UTF-8, and read as Latin-1, as Java does; write letters beyond ASCII as \\uXXXX"


def _peek(path: str) -> bytes:
    with suppress(OSError), Path(path).open("rb") as file:
        return file.read(4096)
    return b""
