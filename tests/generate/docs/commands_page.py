"""`docs/reference/commands.md`: every command, from its own declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

import click

from agent.cli.main import cli
from tests.generate.docs.markdown import anchor, code, fenced, prose, table

SHARED_BY = 5
"""An option that so many commands have, with the same words, is told of once."""

HEAD = """\
# Commands

Every command with its options, as `kshadow COMMAND --help` prints them. The settings of `kshadow run` have
[their own page](options.md).

Every option has an environment variable, and a key in the file of `kshadow --config FILE`: its long name without
the leading dashes. The command line overrides the environment, and the environment the file.

Exit codes: 0 done, 1 a problem in the data (described on standard error), 2 wrong usage, 3 no broker or agent
reached, or a missing right.
"""


class Leaf(NamedTuple):
    """A command, with the words that call it."""

    path: tuple[str, ...]
    command: click.Command
    context: click.Context

    @property
    def options(self) -> list[click.Option]:
        """Its options, as its help lists them."""
        return [it for it in self.command.params if isinstance(it, click.Option) and not it.hidden]


def commands() -> list[Leaf]:
    """Every command, groups before what is in them, as `--help` lists them."""
    return list(_within(("kshadow",), cli, None))


def _within(path: tuple[str, ...], command: click.Command, parent: click.Context | None) -> Iterator[Leaf]:
    context = click.Context(command, info_name=path[-1], parent=parent, **command.context_settings)
    yield Leaf(path, command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, f"{name} is listed, and there"
            if not found.hidden:
                yield from _within((*path, name), found, context)


def page() -> str:
    """The whole page."""
    every = commands()
    told_of = [leaf for leaf in every[1:] if leaf.path != ("kshadow", "run")]
    count = Counter(_row(leaf, option) for leaf in told_of for option in leaf.options)
    # In the order in which they are met.
    shared = {row: None for row, times in count.items() if times >= SHARED_BY}
    parts = [HEAD, _list(every), "## kshadow\n", *_body(every[0], ())]
    for leaf in every[1:]:
        parts += [f"{'#' * len(leaf.path)} {' '.join(leaf.path)}\n", *_body(leaf, shared)]
    parts += ["## Shared options\n", "Each command above lists those that it has.\n", _options(list(shared))]
    return "\n".join(parts)


def _list(every: list[Leaf]) -> str:
    top = [leaf for leaf in every if len(leaf.path) == 2]
    rows = ([f"[{' '.join(it.path)}](#{anchor(' '.join(it.path))})", prose(_first_line(it.command))] for it in top)
    return table(("command", "does"), rows)


def _first_line(command: click.Command) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _body(leaf: Leaf, shared: Collection[tuple[str, ...]]) -> Iterator[str]:
    for paragraph in (leaf.command.help or "").split("\n\n"):
        # A backspace marks what is not to be wrapped.
        lines = paragraph.strip(" \n").split("\n")
        if lines[0].strip() == "\b":
            yield _unwrapped(lines[1:])
        elif paragraph.strip():
            yield prose(paragraph) + "\n"
    pieces = leaf.command.collect_usage_pieces(leaf.context)
    yield fenced(" ".join(("Usage:", *leaf.path, *pieces)))
    if leaf.path == ("kshadow", "run"):
        yield "Its options: [options.md](options.md).\n"
        return
    rows = [_row(leaf, option) for option in leaf.options]
    if own := [row for row in rows if row not in shared]:
        yield _options(own)
    if others := [_long(option) for option, row in zip(leaf.options, rows, strict=True) if row in shared]:
        names = ", ".join(code(name) for name in others)
        yield f"And these [shared options](#shared-options): {names}.\n"


def _long(option: click.Option) -> str:
    return next((flag for flag in option.opts if flag.startswith("--")), option.opts[0])


def _unwrapped(lines: list[str]) -> str:
    heading = lines[0].strip() if lines[0].rstrip().endswith(":") else None
    block = lines[1:] if heading else lines
    if heading is None and not any("  " in line.strip() for line in block):
        # Sentences, which only a terminal's lines should not part.
        return prose(" ".join(block)) + "\n"
    indent = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    text = fenced("\n".join(line[indent:] for line in block))
    return f"{prose(heading)}\n\n{text}" if heading else text


def _row(leaf: Leaf, option: click.Option) -> tuple[str, ...]:
    extra = option.get_help_extra(leaf.context)
    flags = ", ".join(code(flag) for flag in option.opts)
    if option.secondary_opts:
        flags += " / " + ", ".join(code(flag) for flag in option.secondary_opts)
    if not option.is_flag and not option.count:
        flags += " " + code(option.make_metavar(leaf.context))
    default = "required" if option.required else code(extra["default"]) if extra.get("default") else ""
    variable = ", ".join(code(it) for it in extra.get("envvars", ()))
    limits = f" ({code(extra['range'])})" if extra.get("range") else ""
    return flags, default, variable, prose(option.help or "") + limits


def _options(rows: list[tuple[str, ...]]) -> str:
    return table(("option", "default", "variable", "what"), rows)
