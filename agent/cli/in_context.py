"""What a context says to the command that is called, where nothing stronger names a source.

A context is taken whole or not at all: where the command line, the environment or the file of `--config` says which
source is asked, nothing of it counts. Its credentials are for its own cluster, and are sent to no other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.output import warn
from agent.config.given import Rank, Value, Values

if TYPE_CHECKING:
    from agent.cli.contexts import Contexts

_NAMED = "kshadow.context"
_REST = "kshadow.rest"
_VALUES = "kshadow.context.values"

_BROKERS_ONLY = ("run", "doctor", "coordinator")
"""Commands without `--agent` that look at a cluster that is there; others write to it, or tell others of it."""


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    source: ParameterSource


def remember_name(ctx: click.Context, name: str | None, in_file: str | None) -> None:
    """What `--context`, its variable, or the file's `context` says."""
    if name:
        ctx.meta[_NAMED] = _Named(name, ctx.get_parameter_source("context") or ParameterSource.COMMANDLINE)
    elif in_file is not None:
        ctx.meta[_NAMED] = _Named(in_file, ParameterSource.DEFAULT_MAP)


def named(ctx: click.Context) -> str | None:
    """The context asked for, if one is."""
    found: _Named | None = ctx.meta.get(_NAMED)
    return None if found is None else found.name


def remember_rest(ctx: click.Context, arguments: list[str]) -> None:
    """What stands behind the command's name."""
    ctx.meta[_REST] = list(arguments)


def context_defaults(
    ctx: click.Context, name: str, command: click.Command, said: Mapping[str, Any]
) -> dict[str, Any]:
    """What the context in use gives a command, by parameter; nothing where a source is named elsewhere.

    `said`: what the file says to it. Raises `click.UsageError` for a context that is asked for and is not there.
    """
    takes = {_long(it): it for it in command.params if isinstance(it, click.Option)}
    if name not in _BROKERS_ONLY and not {"agent", "bootstrap-server"} <= takes.keys():
        return {}
    if {"-h", "--help"} & {*ctx.meta.get(_REST, [])}:
        return {}
    stronger = _stronger(ctx, name, command, said)
    asked: _Named | None = ctx.meta.get(_NAMED)
    if stronger is not None:
        if asked is not None and asked.source is ParameterSource.COMMANDLINE:
            warn(f"(--context {asked.name} says nothing here: {stronger} names the source, and wins)")
        return {}
    contexts = _contexts()
    chosen = asked.name if asked is not None else contexts.current
    if chosen is None:
        return {}
    values = _typed(ctx, contexts, chosen, takes)
    if name == "run":
        # The agent's settings are taken typed, with where they come from.
        ctx.meta[_VALUES] = {key: Value(it[1], Rank.CONTEXT, it[2]) for key, it in values.items()}
    return {str(takes[key].name): it[0] for key, it in values.items()}


def run_values(ctx: click.Context, takes: Mapping[str, click.Option], given: Values, file: Values) -> Values:
    """What the context gives to `kshadow run`, by option; nothing where something stronger names the brokers."""
    if any(values["bootstrap-server"].is_given for values in (given, file) if "bootstrap-server" in values):
        return {}
    found: Values | None = ctx.meta.get(_VALUES)
    if found is None:
        contexts = _contexts()
        chosen = named(ctx) or contexts.current
        values = {} if chosen is None else _typed(ctx, contexts, chosen, takes)
        found = {key: Value(it[1], Rank.CONTEXT, it[2]) for key, it in values.items()}
    return found


def _contexts() -> Contexts:
    from agent.cli.contexts import Unfit, load, path_of

    try:
        return load(path_of(os.environ))
    except Unfit as error:
        raise click.UsageError(str(error)) from None


def _typed(
    ctx: click.Context, contexts: Contexts, name: str, takes: Mapping[str, click.Option]
) -> dict[str, tuple[Any, Any, str]]:
    """By option: the value as the command line would have it, what the option makes of it, and where it stands."""
    from agent.cli.contexts import OF_AGENT, OF_BROKERS, SOURCES, Unfit
    from agent.cli.settings import taken_as

    try:
        entry = contexts.entry(name)
    except Unfit as error:
        raise click.UsageError(str(error)) from None
    source = next((it for it in SOURCES if it in entry and it in takes), None)
    if source is None:
        return {}
    goes_with = {"agent": OF_AGENT, "bootstrap-server": OF_BROKERS}.get(source, ())
    out = {}
    for key in (source, *goes_with, "output"):
        if key not in entry or key not in takes:
            continue
        where = f"{contexts.path}: {name}: {key}"
        try:
            taken = taken_as(takes[key], entry[key], ctx, contexts.path.parent)
        except ValueError as error:
            raise click.UsageError(f"{where}: {error}") from None
        if taken is not None:
            out[key] = (*taken, where)
    return out


def _stronger(ctx: click.Context, name: str, command: click.Command, said: Mapping[str, Any]) -> str | None:
    """What names a source already: an option, a variable or the file. None where nothing does."""
    probe = command.make_context(name, list(ctx.meta.get(_REST, [])), parent=ctx, resilient_parsing=True)
    for parameter in command.params:
        if _long(parameter) not in ("agent", "bootstrap-server", "from"):
            continue
        assert parameter.name is not None, "a parameter has a name"
        source = probe.get_parameter_source(parameter.name)
        if source is ParameterSource.COMMANDLINE:
            return f"--{_long(parameter)}"
        if source is ParameterSource.ENVIRONMENT and probe.params.get(parameter.name):
            return str(parameter.envvar)
        if said.get(parameter.name):
            return f"the file of --config ({_long(parameter)})"
    return None


def _long(parameter: click.Parameter) -> str:
    return next((flag[2:] for flag in parameter.opts if flag.startswith("--")), "")
