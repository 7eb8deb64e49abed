"""The settings of `kshadow run`, from click's parameters and the file: where the two come together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agent.cli.config_file import read_config_file
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
    loaded = session_of(ctx).config_file
    try:
        return settings_in_force(given_values(ctx), file_values(ctx, loaded))[1]
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
        raise click.UsageError(f"--cluster: one of {names} expected, {name} came")
    try:
        settings = settings_in_force({k: v for k, v in given_values(ctx).items() if k != "cluster"}, loaded.run)[1]
    except InvalidSettings as error:
        raise click.UsageError("\n".join(error.problems)) from None
    return next(it for it in settings.clusters if it.name == name)


def rereader(ctx: click.Context) -> tuple[Path, Callable[[], RunSettings]] | None:
    """The file, and what reads it again under the same command line and environment; None without a file.

    Raises `InvalidSettings` then.
    """
    loaded = session_of(ctx).config_file
    if loaded is None:
        return None
    path, top, values = loaded.path, ctx.find_root(), given_values(ctx)
    # Contexts are for people: one that is changed later changes no agent that runs.
    below = _of_context(ctx, loaded, values)
    group = top.command
    assert isinstance(group, click.Group)

    def read() -> RunSettings:
        again = read_config_file(path, group, top)
        if again.problems:
            raise InvalidSettings(tuple(again.problems))
        return settings_in_force(values, _layered(below, again.run))[1]

    return path, read


def file_values(ctx: click.Context, loaded: ConfigFile | None, values: GivenValues | None = None) -> FileOptions:
    """What the file says to `kshadow run`, over what the context in use does."""
    below = _of_context(ctx, loaded, given_values(ctx) if values is None else values)
    return _layered(below, FileOptions() if loaded is None else loaded.run)


def _of_context(ctx: click.Context, loaded: ConfigFile | None, values: GivenValues) -> GivenValues:
    from agent.cli.context_defaults import run_values

    if loaded is not None and loaded.run.clusters:
        return {}
    return run_values(ctx, RUN_OPTIONS, values, {} if loaded is None else loaded.run.options)


def _layered(below: GivenValues, file: FileOptions) -> FileOptions:
    return FileOptions({**below, **file.options}, file.clusters)


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
    effective, settings = resolve(defaults(), values, file or FileOptions(), needs_brokers=needs_brokers)
    problems = [text for cluster in settings.clusters for text in _late_problems(cluster)]
    if problems:
        raise InvalidSettings(tuple(dict.fromkeys(problems)))
    return effective, settings


def defaults() -> GivenValues:
    """What each option is where nobody says anything."""
    ctx = click.Context(click.Command("run"))
    return {
        name: GivenValue(_default(option, ctx), ValueSource.DEFAULT, f"--{name}")
        for name, option in RUN_OPTIONS.items()
    }


def _default(option: click.Option, ctx: click.Context) -> Any:
    default = option.to_info_dict()["default"]
    if default is None:
        return () if option.multiple else None
    return option.type_cast_value(ctx, default)


def _flag(option: click.Option, value: Any) -> str:
    flags = option.secondary_opts if value is False and option.secondary_opts else option.opts
    return next(flag for flag in flags if flag.startswith("--"))


def _late_problems(cluster: ClusterSettings) -> list[str]:
    """What only those know who will use it: which analyzers and time zones there are."""
    from agent.cli.options import choose_analyzers
    from agent.kafka.source.brokerlog import time_zone
    from agent.kafka.source.errors import SourceMisconfigured

    about = "" if cluster.name is None else f"cluster {cluster.name}: "
    out = []
    try:
        choose_analyzers(cluster.analyzers.names, cluster.analyzers.tuning)
    except click.UsageError as error:
        out.append(about + error.message)
    try:
        time_zone(cluster.broker_log.time_zone)
    except SourceMisconfigured as error:
        out.append(f"{about}--broker-log-timezone: {error}")
    return out
