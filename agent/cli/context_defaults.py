"""What a context says to the command that is called, where nothing stronger names a source.

A context is taken whole or not at all: where the command line, the environment or the file of `--config` says which
source is asked, nothing of it counts. Its credentials are for its own cluster, and are sent to no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from agent.cli.options import long_name
from agent.cli.output import warn
from agent.cli.session import RequestedContext, session_of
from agent.config.value_source import GivenValue, GivenValues, ValueSource

if TYPE_CHECKING:
    from agent.cli.contexts_file import Contexts

_BROKERS_ONLY = ("run", "doctor")
"""Commands without `--agent` that look at a cluster that is there; others write to it, or tell others of it."""
_BROKERS_FIRST = ("coordinator",)
"""Commands that brokers can tell more than an agent."""


def remember_name(ctx: click.Context, name: str | None, in_file: str | None) -> None:
    """Keep what `--context`, its variable, or the file's `context` says."""
    if name:
        source = ctx.get_parameter_source("context") or ParameterSource.COMMANDLINE
        session_of(ctx).requested_context = RequestedContext(name, source)
    elif in_file is not None:
        session_of(ctx).requested_context = RequestedContext(in_file, ParameterSource.DEFAULT_MAP)


def requested_name(ctx: click.Context) -> str | None:
    """The name of the context asked for, if one is."""
    requested = session_of(ctx).requested_context
    return None if requested is None else requested.name


def context_defaults(
    ctx: click.Context, name: str, command: click.Command, said: Mapping[str, Any]
) -> dict[str, Any]:
    """What the context in use gives a command, by parameter; nothing where a source is named elsewhere.

    `said`: what the file says to it. Raises `click.UsageError` for a context that is asked for and is not there.
    """
    takes = {long_name(it): it for it in command.params if isinstance(it, click.Option)}
    if name not in _BROKERS_ONLY and not {"agent", "bootstrap-server"} <= takes.keys():
        return {}
    if {"-h", "--help"} & {*session_of(ctx).arguments}:
        return {}
    stronger = _source_named_elsewhere(ctx, name, command, said)
    asked = session_of(ctx).requested_context
    if stronger is not None:
        if asked is not None and asked.source is ParameterSource.COMMANDLINE:
            warn(f"(--context {asked.name} says nothing here: {stronger} names the source, and wins)")
        return {}
    values = _values_in_use(ctx, takes, brokers_first=name in _BROKERS_FIRST)
    return {str(takes[key].name): it[0] for key, it in values.items()}


def run_values(ctx: click.Context) -> GivenValues:
    """What the context in use gives to `kshadow run`, by option: typed, with where it stands."""
    from agent.cli.run_options import RUN_OPTIONS

    values = _values_in_use(ctx, RUN_OPTIONS)
    return {key: GivenValue(it[1], ValueSource.CONTEXT, it[2]) for key, it in values.items()}


def _values_in_use(
    ctx: click.Context, takes: Mapping[str, click.Option], *, brokers_first: bool = False
) -> dict[str, tuple[Any, Any, str]]:
    from agent.cli.contexts_file import load_contexts

    contexts = load_contexts()
    chosen = requested_name(ctx) or contexts.current
    return {} if chosen is None else _context_values(ctx, contexts, chosen, takes, brokers_first)


def _context_values(
    ctx: click.Context, contexts: Contexts, name: str, takes: Mapping[str, click.Option], brokers_first: bool
) -> dict[str, tuple[Any, Any, str]]:
    """By option: the value as the command line would have it, what the option makes of it, and where it stands."""
    from agent.cli.config_file import coerce
    from agent.cli.contexts_file import AGENT_KEYS, BROKER_KEYS, SOURCES

    entry = contexts.entry(name)
    in_order = ("bootstrap-server", *SOURCES) if brokers_first else SOURCES
    source = next((it for it in in_order if it in entry and it in takes), None)
    if source is None:
        return {}
    goes_with = {"agent": AGENT_KEYS, "bootstrap-server": BROKER_KEYS}.get(source, ())
    out = {}
    for key in (source, *goes_with, "output"):
        if key not in entry or key not in takes:
            continue
        where = f"{contexts.path}: {name}: {key}"
        try:
            taken = coerce(takes[key], entry[key], ctx, contexts.path.parent)
        except ValueError as error:
            raise click.UsageError(f"{where}: {error}") from None
        if taken is not None:
            out[key] = (*taken, where)
    return out


def _source_named_elsewhere(
    ctx: click.Context, name: str, command: click.Command, said: Mapping[str, Any]
) -> str | None:
    """What names a source already: an option, a variable or the file. None where nothing does."""
    # What was typed is looked at, and nothing is made of it: a file that is named may be a pipe, which is read once.
    probe = click.Context(command, info_name=name, parent=ctx, resilient_parsing=True)
    _, _, typed = command.make_parser(probe).parse_args(list(session_of(ctx).arguments))
    for parameter in command.params:
        if long_name(parameter) not in ("agent", "bootstrap-server", "from"):
            continue
        if parameter in typed:
            return f"--{long_name(parameter)}"
        if parameter.resolve_envvar_value(probe) is not None:
            return str(parameter.envvar)
        if said.get(str(parameter.name)):
            return f"the file of --config ({long_name(parameter)})"
    return None
