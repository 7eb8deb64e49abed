"""The command lines in pages: found, and parsed by the commands that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from agent.cli.main import cli
from tests.generate.docs.commands_page import commands

_FENCED = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|\n)(?:\s*\n)((?:(?:    |\t).*\n|\s*\n)+)")
_CALL = re.compile(r"^(?:.*\| )?\$? ?(kshadow .*)$")
_OPTION_SPAN = re.compile(r"`(--[a-z][a-z-]+)[ =]([^`\s]+)`")
_SPAN = re.compile(r"`(kshadow [^`\n]+)`")


def calls(page: Path) -> Iterator[str]:
    """Each line of a block of code that calls kshadow, up to what it is piped into."""
    text = page.read_text(encoding="utf-8")
    blocks = [match[2] for match in _FENCED.finditer(text)]
    blocks += [match[1] for match in _INDENTED.finditer(_FENCED.sub("\n", text))]
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if match := _CALL.match(line.strip()):
                yield " ".join(match[1].split(" | ")[0].split(" # ")[0].split())


def spans(page: Path) -> Iterator[str]:
    """Each call that a sentence names; they may leave out what is needed, and name several (`config show|check`)."""
    for match in _SPAN.finditer(_FENCED.sub("\n", page.read_text(encoding="utf-8"))):
        yield match[1].replace("\\|", "|")


def parse(text: str) -> None:
    """Parse it down to its options' values. Raises what click raises."""
    command, context, arguments = _command(shlex.split(text))
    with command.make_context(command.name, arguments, parent=context):
        # What it opened is closed as the context ends.
        pass


def check_span(text: str) -> str | None:
    """What of it does not exist: a command, or an option of it; None if all does."""
    for words in _alternatives(text.replace(",", " ").split()):
        try:
            command, _, arguments = _command(words)
        except click.UsageError as error:
            return error.message
        known = {flag for it in command.params for flag in (*it.opts, *it.secondary_opts)} | {"-h", "--help"}
        for word in arguments:
            if word.startswith("-") and len(word) > 1 and word.split("=")[0] not in known:
                return f"{command.name} has no option {word}"
    return None


def option_spans(page: Path) -> Iterator[tuple[str, str]]:
    """Each option that a sentence names with a value of it, not with a word that stands for one (`--shard I/N`)."""
    for name, value in _OPTION_SPAN.findall(_FENCED.sub("\n", page.read_text(encoding="utf-8"))):
        if not re.search(r"[A-Z…{]", value):
            yield name, value


def check_option(name: str, value: str) -> str | None:
    """Why no command takes this value for its option of that name; None if one does, or if none has that option."""
    refused = None
    for leaf in commands():
        for option in leaf.options:
            if name in option.opts and not option.is_flag:
                try:
                    option.type.convert(value, option, leaf.context)
                except click.BadParameter as error:
                    refused = error.message
                else:
                    return None
    return refused


def _alternatives(words: list[str]) -> list[list[str]]:
    for at, word in enumerate(words):
        if "|" in word and word[0].islower() and not words[at - 1].startswith("-"):
            return [[*words[:at], one, *words[at + 1 :]] for one in word.split("|")]
    return [words]


def _command(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    command: click.Command = cli
    context = click.Context(cli, info_name="kshadow", **cli.context_settings)
    arguments = words[1:]
    while isinstance(command, click.Group) and arguments:
        if arguments[0].startswith("-"):
            # The top's own: `kshadow --config FILE run`.
            if arguments[0] != "--config" or len(arguments) < 3:
                return command, context, arguments
            arguments = arguments[2:]
            continue
        if not arguments[0].islower():
            # `COMMAND` stands for any.
            return command, context, []
        found = command.get_command(context, arguments[0])
        if found is None:
            raise click.UsageError(f"no such command: {arguments[0]}")
        command, arguments = found, arguments[1:]
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=command.name, parent=context, **command.context_settings)
    return command, context, arguments
