"""The settings of `kshadow run`, from click's parameters and the file: where the two come together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agent.cli.run_options import RUN_OPTIONS
from agent.cli.session import ConfigFile, session_of
from agent.config.resolving import EffectiveValues, FileOptions, resolve
from agent.config.settings import ClusterSettings, RunSettings
from agent.config.value_source import GivenValue, GivenValues, InvalidSettings, ValueSource

_SOURCES = {
    ParameterSource.COMMANDLINE: ValueSource.COMMAND_LINE,
    ParameterSource.ENVIRONMENT: ValueSource.ENVIRONMENT,
}


def run_settings(ctx: click.Context) -> RunSettings:
    """The settings that `kshadow run` was called with. A usage error says everything that cannot be."""
    with usage_errors():
        given = given_values(ctx)
        return settings_in_force(given, file_options(ctx, given))[1]


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn settings that cannot be into a usage error that says everything."""
    try:
        yield
    except InvalidSettings as error:
        raise click.UsageError("\n".join(error.problems)) from None


def cluster_settings(ctx: click.Context, name: str | None) -> ClusterSettings | None:
    """One of the clusters that the file names, as `kshadow run` would read it with the options that came beside
    `--cluster`; None if it names none.
    """
    loaded = session_of(ctx).config_file
    if loaded is None or not loaded.run.clusters:
        return None
    names = ", ".join(loaded.run.clusters)
    if name is None:
        raise click.UsageError(f"--cluster is needed: {loaded.path} has {names}")
    if name not in loaded.run.clusters:
        raise click.UsageError(f"--cluster: expected one of {names}, got {name}")
    with usage_errors():
        settings = settings_in_force({k: v for k, v in given_values(ctx).items() if k != "cluster"}, loaded.run)[1]
    return next(it for it in settings.clusters if it.name == name)


def rereader(ctx: click.Context) -> tuple[Path, Callable[[], RunSettings]] | None:
    """The file, and what reads it again under the same command line and environment; None without a file.

    Raises `InvalidSettings` then.
    """
    loaded = session_of(ctx).config_file
    if loaded is None or loaded.read_again is None:
        return None
    given = given_values(ctx)
    # Contexts are for people: one that is changed later changes no agent that runs.
    return loaded.path, partial(_read_again, loaded.read_again, given, _context_options(ctx, given))


def _read_again(read: Callable[[], ConfigFile], given: GivenValues, below: GivenValues) -> RunSettings:
    again = read()
    if again.problems:
        raise InvalidSettings(tuple(again.problems))
    return settings_in_force(given, FileOptions({**below, **again.run.options}, again.run.clusters))[1]


def file_options(ctx: click.Context, given: GivenValues) -> FileOptions:
    """What the file says to `kshadow run`, over what the context in use does."""
    loaded = session_of(ctx).config_file
    file = FileOptions() if loaded is None else loaded.run
    return FileOptions({**_context_options(ctx, given), **file.options}, file.clusters)


def _context_options(ctx: click.Context, given: GivenValues) -> GivenValues:
    """What the context in use says; nothing where something stronger says which brokers."""
    session = session_of(ctx)
    file = FileOptions() if session.config_file is None else session.config_file.run
    named = [values["bootstrap-server"].is_given for values in (given, file.options) if "bootstrap-server" in values]
    return {} if file.clusters or any(named) else session.read_context()


def given_values(ctx: click.Context) -> GivenValues:
    """What the command line and the environment say."""
    out: GivenValues = {}
    for name, option in RUN_OPTIONS.items():
        assert option.name is not None, "a parameter has a name"
        source = ctx.get_parameter_source(option.name)
        if source in _SOURCES:
            value = ctx.params[option.name]
            where = str(option.envvar) if source is ParameterSource.ENVIRONMENT else _flag(option, value)
            out[name] = GivenValue(value, _SOURCES[source], where)
    return out


def settings_in_force(
    values: GivenValues, file: FileOptions | None, *, needs_brokers: bool = True
) -> tuple[EffectiveValues, RunSettings]:
    """What is in force. Raises `InvalidSettings`."""
    effective, settings = resolve(values, file or FileOptions(), needs_brokers=needs_brokers)
    problems = [text for values in effective.clusters.values() for text in _late_problems(values)]
    if problems:
        raise InvalidSettings(tuple(dict.fromkeys(problems)))
    return effective, settings


def _flag(option: click.Option, value: Any) -> str:
    flags = option.secondary_opts if value is False and option.secondary_opts else option.opts
    return next(flag for flag in flags if flag.startswith("--"))


def _late_problems(values: GivenValues) -> list[str]:
    """What only those know who will use it: which analyzers and time zones there are."""
    from agent.cli.options import choose_analyzers
    from agent.kafka.source.errors import SourceMisconfigured
    from agent.kafka.source.time_zones import time_zone

    names, tuned, zone = (values[name] for name in ("analyzers", "tune", "broker-log-timezone"))
    out = []
    try:
        choose_analyzers(names.value, tuned.value, (names.place, tuned.place))
    except click.UsageError as error:
        out.append(error.message)
    try:
        time_zone(zone.value)
    except SourceMisconfigured as error:
        out.append(f"{zone.place}: {error}")
    return out
