"""The commands, a file each: parse, call one function, print.

To add one, write a file here, named after it: it defines a click command of that name, and `LISTED`, which says where
`kshadow --help` shows it. Files are read for that, not imported: what the others import would make each call slow.
"""

from __future__ import annotations

import re
from ast import literal_eval
from functools import cache
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import NamedTuple

import click

SECTIONS = (
    "Start",
    "See what is going on",
    "Find out why, and what to change",
    "Records and history",
    "Set up",
)
"""Of the help: what commands are good for, for people who look for one."""

_LISTED = re.compile(r"^LISTED = (\{.*?\})$", re.DOTALL | re.MULTILINE)


class Listing(NamedTuple):
    """What `LISTED` of a command's file says.

    `place`: the one in its section. `number`: the one among all, where there are no sections. `help`: the first line
    of the command's docstring (a test checks).
    """

    section: str
    place: int
    number: int
    help: str


@cache
def listings() -> dict[str, Listing]:
    """Each command by its name. Imports none."""
    out = {}
    for module in iter_modules(__path__):
        source = (get_data(__name__, f"{module.name}.py") or b"").decode()
        if found := _LISTED.search(source):
            out[module.name] = Listing(**literal_eval(found[1]))
    return dict(sorted(out.items(), key=lambda it: it[1].number))


def find_command(name: str) -> click.Command | None:
    """Import a command; None if there is none of this name."""
    if not name.isidentifier() or name.startswith("_"):
        return None
    module = f"{__name__}.{name}"
    try:
        command: click.Command = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None
    return command
