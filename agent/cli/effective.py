"""The settings of `kshadow run`, from click's parameters and the file: where the two come together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agent.cli.run_options import OPTIONS
from agent.cli.settings import Loaded, read_settings
from agent.config.given import Misconfigured, Rank, Value, Values
from agent.config.resolving import Effective, FileOptions, resolve
from agent.config.settings import ClusterSettings, RunSettings

_LOADED = "kshadow.loaded"
_RANKS = {ParameterSource.COMMANDLINE: Rank.COMMAND_LINE, ParameterSource.ENVIRONMENT: Rank.ENVIRONMENT}


def remember(ctx: click.Context, loaded: Loaded) -> None:
    """Keep what the file said for the commands below."""
    ctx.meta[_LOADED] = loaded


def remembered(ctx: click.Context) -> Loaded | None:
    """What the file said, if there is one."""
    loaded: Loaded | None = ctx.meta.get(_LOADED)
    return loaded


def run_settings(ctx: click.Context) -> RunSettings:
    """The settings that `kshadow run` was called with. A usage error says everything that cannot be."""
    loaded = remembered(ctx)
    try:
        return settle(given(ctx), in_file(ctx, loaded))[1]
    except Misconfigured as error:
        raise click.UsageError("\n".join(error.problems)) from None


def cluster_settings(ctx: click.Context, name: str | None) -> ClusterSettings | None:
    """One of the clusters that the file names, as `kshadow run` would read it with the options that came beside
    `--cluster`; None if it names none.
    """
    loaded = remembered(ctx)
    if loaded is None or not loaded.run.clusters:
        return None
    names = ", ".join(loaded.run.clusters)
    if name is None:
        raise click.UsageError(f"--cluster is needed: {loaded.path} has {names}")
    if name not in loaded.run.clusters:
        raise click.UsageError(f"--cluster: one of {names} expected, {name} came")
    try:
        settings = settle({k: v for k, v in given(ctx).items() if k != "cluster"}, loaded.run)[1]
    except Misconfigured as error:
        raise click.UsageError("\n".join(error.problems)) from None
    return next(it for it in settings.clusters if it.name == name)


def rereading(ctx: click.Context) -> tuple[Path, Callable[[], RunSettings]] | None:
    """The file, and what reads it again under the same command line and environment; None without a file.

    Raises `Misconfigured` then.
    """
    loaded = remembered(ctx)
    if loaded is None:
        return None
    path, top, values = loaded.path, ctx.find_root(), given(ctx)
    # Contexts are for people: one that is changed later changes no agent that runs.
    below = _of_context(ctx, loaded, values)
    group = top.command
    assert isinstance(group, click.Group)

    def read() -> RunSettings:
        again = read_settings(path, group, top)
        if again.problems:
            raise Misconfigured(tuple(again.problems))
        return settle(values, _over(below, again.run))[1]

    return path, read


def in_file(ctx: click.Context, loaded: Loaded | None, values: Values | None = None) -> FileOptions:
    """What the file says to `kshadow run`, over what the context in use does."""
    below = _of_context(ctx, loaded, given(ctx) if values is None else values)
    return _over(below, FileOptions() if loaded is None else loaded.run)


def _of_context(ctx: click.Context, loaded: Loaded | None, values: Values) -> Values:
    from agent.cli.in_context import run_values

    if loaded is not None and loaded.run.clusters:
        return {}
    return run_values(ctx, OPTIONS, values, {} if loaded is None else loaded.run.options)


def _over(below: Values, file: FileOptions) -> FileOptions:
    return FileOptions({**below, **file.options}, file.clusters)


def given(ctx: click.Context) -> Values:
    """What the command line and the environment say."""
    out: Values = {}
    for name, option in OPTIONS.items():
        assert option.name is not None, "a parameter has a name"
        source = ctx.get_parameter_source(option.name)
        if source in _RANKS:
            value = ctx.params[option.name]
            where = str(option.envvar) if source is ParameterSource.ENVIRONMENT else _flag(option, value)
            out[name] = Value(value, _RANKS[source], where)
    return out


def settle(values: Values, file: FileOptions | None, *, needs_brokers: bool = True) -> tuple[Effective, RunSettings]:
    """What is in force. Raises `Misconfigured`."""
    effective, settings = resolve(defaults(), values, file or FileOptions(), needs_brokers=needs_brokers)
    problems = [text for cluster in settings.clusters for text in _elsewhere_known(cluster)]
    if problems:
        raise Misconfigured(tuple(dict.fromkeys(problems)))
    return effective, settings


def defaults() -> Values:
    """What each option is where nobody says anything."""
    ctx = click.Context(click.Command("run"))
    return {name: Value(_default(option, ctx), Rank.DEFAULT, f"--{name}") for name, option in OPTIONS.items()}


def _default(option: click.Option, ctx: click.Context) -> Any:
    default = option.to_info_dict()["default"]
    if default is None:
        return () if option.multiple else None
    return option.type_cast_value(ctx, default)


def _flag(option: click.Option, value: Any) -> str:
    flags = option.secondary_opts if value is False and option.secondary_opts else option.opts
    return next(flag for flag in flags if flag.startswith("--"))


def _elsewhere_known(cluster: Any) -> list[str]:
    """What only those know who will use it: which analyzers and time zones there are."""
    from agent.cli.options import chosen_analyzers
    from agent.source.brokerlog import time_zone
    from agent.source.errors import SourceMisconfigured

    about = "" if cluster.name is None else f"cluster {cluster.name}: "
    out = []
    try:
        chosen_analyzers(cluster.analyzers.names, cluster.analyzers.tuned)
    except click.UsageError as error:
        out.append(about + error.message)
    try:
        time_zone(cluster.broker_log.time_zone)
    except SourceMisconfigured as error:
        out.append(f"{about}--broker-log-timezone: {error}")
    return out
