"""`kshadow context`: name clusters, and choose one."""

from __future__ import annotations

import os
from typing import Any

import click

from agent.cli.completion_candidates import ContextName
from agent.cli.config_file import unknown_key
from agent.cli.contexts_file import (
    KEYS,
    PATHS,
    SOURCES,
    ContextError,
    Contexts,
    Entry,
    changed_by_one,
    check_entry,
    check_name,
    load_contexts,
)
from agent.cli.options import FORMATS, long_name, output_option, place_options, typed
from agent.cli.output import echo, print_rows, print_value, warn
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.config.options import NameValue, Place

_COLUMNS = {
    "current": Column("CURRENT"),
    "name": Column("NAME", folds=MIN_FOLDED_WIDTH),
    "source": Column("SOURCE"),
    "where": Column("WHERE", folds=16),
    "options": Column("OPTIONS", folds=16, spare=1),
}


NAME = ContextName()


@click.group()
def context() -> None:
    """Name clusters, and choose one.

    A context names a source (--agent, --bootstrap-server or --from) and its options. It is used if nothing else names
    a source: first the one of kshadow --context NAME, then of KSHADOW_CONTEXT, then the one in use. It may name an
    agent and brokers: then queries ask the agent; run, doctor and coordinator use the brokers.

    \b
    They are kept in $KSHADOW_CONTEXTS, else in kshadow/contexts.yaml under
    $XDG_CONFIG_HOME or ~/.config, without secrets.

    \b
    Examples:
      kshadow context set prod --agent https://kshadow.prod:9308 --agent-user sre
      kshadow context set test --bootstrap-server test:9093 --command-config client.properties
      kshadow context use prod
      kshadow context list
    """


@context.command("list")
@output_option()
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """List the contexts.

    \b
    Example:
      kshadow context list -o json
    """
    contexts = load_contexts()
    current = _in_use(ctx, contexts)
    rows = [_form(name, entry, current=name == current) for name, entry in contexts.entries.items()]
    shown = map(_shown, rows) if output == "table" else rows
    print_rows(shown, output, _COLUMNS, empty="no contexts; kshadow context set NAME --agent URL makes one")


@context.command()
@click.argument("name", required=False, type=NAME)
@output_option("yaml")
@click.pass_context
def show(ctx: click.Context, name: str | None, output: str) -> None:
    """Show one context: that which is in use, or NAME.

    \b
    Example:
      kshadow context show prod
    """
    contexts = load_contexts()
    current = _in_use(ctx, contexts)
    chosen = name or current or _fail_none_in_use()
    form = _form(chosen, contexts.entry(chosen), current=chosen == current)
    if output == "table":
        print_rows([_shown(form)], output, _COLUMNS)
    else:
        print_value(form, output)


@context.command()
@click.pass_context
def current(ctx: click.Context) -> None:
    """Print the name of the context in use.

    \b
    Example:
      kshadow context current
    """
    contexts = load_contexts()
    name = _in_use(ctx, contexts) or _fail_none_in_use()
    contexts.entry(name)
    echo(name)


@context.command()
@click.argument("name", type=NAME)
def use(name: str) -> None:
    """Select the context to use.

    \b
    Example:
      kshadow context use prod
    """
    with changed_by_one() as contexts:
        contexts.entry(name)
        contexts.current = name
        contexts.save()
    echo(f"{name} is in use")
    if (named := os.environ.get("KSHADOW_CONTEXT")) not in (None, "", name):
        warn(f"(but KSHADOW_CONTEXT says {named}, and wins in this shell)")


def _remove_variables(command: click.Command) -> None:
    """What is kept must have been said here: a variable that stands by chance is no part of it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            parameter.envvar, parameter.show_envvar = None, False
            if parameter.name == "properties":
                # As it was given: a reference is kept, not what it refers to.
                parameter.type = NameValue("property", "NAME=VALUE")
            elif parameter.name == "command_config":
                parameter.type = Place(dir_okay=False)


@context.command("set")
@click.argument("name", type=NAME)
@place_options
@click.option("--output", metavar="FORMAT", type=click.Choice(FORMATS), help="How to print.")
@click.option("--unset", multiple=True, metavar="OPTION", help="Forget this option, such as agent-user. Repeatable.")
@click.pass_context
def set_(ctx: click.Context, /, name: str, unset: tuple[str, ...], **_: Any) -> None:
    """Create or change a context.

    Options that are not given stay unchanged. The first context is in use at once. Give a secret as a reference,
    -X sasl.password='${KAFKA_PASSWORD}', which is looked up in the environment each time, or in the --command-config
    file.

    \b
    Examples:
      kshadow context set prod --agent http://kshadow.prod:9308
      kshadow context set prod --bootstrap-server prod:9093 --command-config client.properties
      kshadow context set prod --unset agent
    """
    with changed_by_one() as contexts:
        check_name(name)
        is_new = name not in contexts.entries
        entry = dict(contexts.entries.get(name, {}))
        given = _given(ctx)
        for key in (it.removeprefix("--") for it in unset):
            if key not in KEYS:
                raise ContextError(f"--unset: {unknown_key(key, KEYS)}")
            entry.pop(key, None)
        for key, value in given.items():
            if key == "property":
                value = {**entry.get("property", {}), **dict(value)}
            entry[key] = os.path.abspath(value) if key in PATHS and value != "-" else value
        if is_new and not given:
            raise ContextError(f"expected --agent URL, --bootstrap-server HOST:PORT or --from PATH: where is {name}?")
        contexts.entries[name] = check_entry(entry)
        first = contexts.current is None
        if first:
            contexts.current = name
        contexts.save()
    echo(f"{name} is {'made' if is_new else 'changed'}" + (", and in use" if first else "") + f": {contexts.path}")


_remove_variables(set_)


def _given(ctx: click.Context) -> Entry:
    out: Entry = {}
    for parameter in ctx.command.params:
        assert parameter.name is not None, "a parameter has a name"
        key = long_name(parameter)
        if key in KEYS and typed(ctx, parameter.name):
            out[key] = ctx.params[parameter.name]
    return out


@context.command()
@click.argument("name", type=NAME)
@click.argument("new")
def rename(name: str, new: str) -> None:
    """Rename a context.

    \b
    Example:
      kshadow context rename prod prod-eu
    """
    with changed_by_one() as contexts:
        contexts.entry(name)
        if check_name(new) in contexts.entries:
            raise ContextError(f"there is a context {new!r}; kshadow context delete {new} removes it")
        contexts.entries = {new if it == name else it: entry for it, entry in contexts.entries.items()}
        contexts.current = new if contexts.current == name else contexts.current
        contexts.save()
    echo(f"{name} is {new} now")


@context.command()
@click.argument("name", type=NAME)
def delete(name: str) -> None:
    """Delete a context.

    \b
    Example:
      kshadow context delete test
    """
    with changed_by_one() as contexts:
        contexts.entry(name)
        del contexts.entries[name]
        was_used = contexts.current == name
        contexts.current = None if was_used else contexts.current
        contexts.save()
    echo(f"{name} is gone")
    if was_used and contexts.entries:
        warn(f"(none is in use now; kshadow context use {next(iter(contexts.entries))} chooses one)")


def _in_use(ctx: click.Context, contexts: Contexts) -> str | None:
    from agent.cli.context_defaults import requested_name

    return requested_name(ctx) or contexts.current


def _fail_none_in_use() -> str:
    raise click.UsageError("no context is in use; kshadow context use NAME chooses one, kshadow context list has all")


def _form(name: str, entry: Entry, *, current: bool) -> dict[str, Any]:
    source = next((it for it in SOURCES if it in entry), None)
    return {
        "name": name,
        "current": current,
        "source": source,
        "where": None if source is None else str(entry[source]),
        "options": {key: value for key, value in entry.items() if key != source},
    }


def _shown(form: dict[str, Any]) -> dict[str, Any]:
    options = []
    for key, value in form["options"].items():
        options += (
            [f"{name}={item}" for name, item in value.items()] if isinstance(value, dict) else [f"{key}={value}"]
        )
    return {**form, "current": "*" if form["current"] else "", "options": options}
