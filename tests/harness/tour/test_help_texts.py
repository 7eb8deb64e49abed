"""Help texts: of every command and subcommand there is a description, each option says what it is for, and each
example is a command line that is taken. Those that need no broker are run by tests/unit/cli/test_help.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from agent.cli.commands import LISTINGS
from agent.cli.main import cli

TOP = click.Context(cli, info_name="kshadow", **cli.context_settings)
EXAMPLE = re.compile(r"^ +kshadow (.*)$", re.MULTILINE)


def commands() -> Iterator[tuple[str, click.Context, click.Command]]:
    """Each command and subcommand, by what is typed for it."""
    for name in LISTINGS:
        command = cli.get_command(TOP, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=TOP)
        yield name, context, command
        if isinstance(command, click.Group):
            for under, subcommand in command.commands.items():
                yield f"{name} {under}", click.Context(subcommand, info_name=under, parent=context), subcommand


ALL = {name: (context, command) for name, context, command in commands()}


def examples() -> Iterator[tuple[str, str]]:
    """Each example, and in whose help it stands."""
    for name, (_, command) in ALL.items():
        for text in EXAMPLE.findall(command.help or ""):
            yield name, text


EXAMPLES = list(examples())


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_it_is_for(name: str) -> None:
    _, command = ALL[name]
    assert command.help
    assert re.match(r"[A-Z].*[.]$", command.help.splitlines()[0]), command.help
    assert [text for where, text in EXAMPLES if where == name], "no example"


@pytest.mark.parametrize("name", ALL)
def test_each_option_says_what_it_is_for(name: str) -> None:
    context, command = ALL[name]
    said = command.get_help(context)
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        assert option.help, option.name
        # It may begin with a setting's name of Kafka's; a default in brackets stands at the end, as click's own.
        assert re.match(r"(?:[A-Z]|[a-z_]+[._]).*(?:\.|\]\.?)$", option.help, re.DOTALL), (option.name, option.help)
        assert max(option.opts, key=len) in said


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=lambda it: str(it)[:60])
def test_examples_are_taken(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.split(r" \| | > | < ", text)[0])
    assert " ".join(words).startswith(name), "an example of another command"
    for word in words:
        if re.fullmatch(r"[a-z-]+\.[a-z]+", word):
            Path(word).touch()
    # A group of commands is asked for one of its own.
    typed = max((it for it in ALL if " ".join([*words, ""]).startswith(f"{it} ")), key=len)
    context, command = ALL[typed]
    assert context.parent is not None
    path = typed.split()
    with command.make_context(path[-1], words[len(path) :], parent=context.parent):
        pass
