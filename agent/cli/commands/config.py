"""`kshadow config`: which settings are in force and where each came from; what is wrong with a file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agent.cli.options import output_option
from agent.cli.output import print_rows, warn
from agent.cli.session import session_of
from agent.cli.tables import Column
from agent.config.value_source import GivenValue, GivenValues, InvalidSettings, ValueSource
from analyzers.formatting import count_text

_COLUMNS = {
    "cluster": Column("CLUSTER"),
    "option": Column("OPTION"),
    "value": Column("VALUE", folds=20),
    "source": Column("SOURCE"),
    "where": Column("WHERE", folds=20, spare=1),
}


@click.group()
def config() -> None:
    """Show the settings in force, or check a settings file.

    \b
    Examples:
      kshadow config show
      kshadow config show -o yaml --bootstrap-server localhost:9092 --lag-interval 1m
      kshadow config check kshadow.yaml
    """


class _Show(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Of options that it does not know click takes each letter for one: -o and -h within -XNAME=VALUE."""
        parted = ([it[:2], it[2:]] if it.startswith("-X") and it != "-X" else [it] for it in args)
        return super().parse_args(ctx, [part for parts in parted for part in parts])


@config.command(cls=_Show, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="[OPTIONS OF RUN]…", nargs=-1, type=click.UNPROCESSED)
@output_option()
@click.pass_context
def show(ctx: click.Context, arguments: tuple[str, ...], output: str) -> None:
    """Show the settings that `kshadow run` would have here, and where each comes from.

    Settings come from the options given here, the environment, the file of kshadow --config, and the context in use.
    Values of properties whose names contain password, secret, key, jaas or token are hidden.

    \b
    Examples:
      kshadow config show
      kshadow config show --no-lag --listen :9308
    """
    from agent.cli.run_options import declared
    from agent.cli.run_settings import file_options, given_values, settings_in_force, usage_errors
    from agent.config.settings import OPTIONS

    loaded = session_of(ctx).config_file
    if loaded is not None and loaded.problems:
        raise click.UsageError("\n".join(loaded.problems))
    # The file's values are taken typed, not through click's defaults.
    asked = declared.make_context("kshadow run", list(arguments), parent=click.Context(declared))
    with usage_errors():
        given = given_values(asked)
        effective, settings = settings_in_force(given, file_options(ctx, given), needs_brokers=False)
    layers: list[tuple[str | None, GivenValues]] = [*effective.clusters.items(), (None, effective.process)]
    rows = [
        _row(name, option, values[option], as_text=output == "table")
        for name, values in layers
        for option in OPTIONS
        if option in values
    ]
    several = None not in effective.clusters
    columns = {key: it for key, it in _COLUMNS.items() if several or key != "cluster"}
    print_rows(rows, output, columns)
    for warning in settings.warnings:
        warn(f"Warning: {warning}")


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.pass_context
def check(ctx: click.Context, file: Path | None) -> None:
    """Check a settings file and report all errors at once.

    Without FILE the file of kshadow --config is checked. It is checked alone, without the command line and the
    environment; only the values that it refers to must exist. The exit code is 2 if there is an error.

    \b
    Examples:
      kshadow config check kshadow.yaml
    """
    from agent.cli.config_file import read_config_file
    from agent.cli.run_settings import settings_in_force
    from agent.kafka.client import refusals_of_properties

    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    loaded = session_of(ctx).config_file if file is None else read_config_file(file, root.command, root)
    if loaded is None:
        raise click.UsageError("a FILE is needed (or --config, or KSHADOW_CONFIG)")
    problems = list(loaded.problems)
    warnings: tuple[str, ...] = ()
    try:
        _, settings = settings_in_force({}, loaded.run, needs_brokers=False)
        warnings = settings.warnings
        for it in settings.clusters:
            cluster = f"clusters: {it.name}: " if loaded.run.clusters else ""
            problems += [f"{loaded.path}: {cluster}{said}" for said in refusals_of_properties(it.conf)]
    except InvalidSettings as error:
        problems += error.problems
    for text in (*problems, *(f"Warning: {it}" for it in warnings)):
        warn(text)
    if problems:
        raise click.exceptions.Exit(2)
    said = f", {count_text(len(loaded.run.clusters), 'cluster')}" if loaded.run.clusters else ""
    click.echo(f"{loaded.path}: fine{said}")


def _row(cluster: str | None, option: str, value: GivenValue, *, as_text: bool) -> dict[str, Any]:
    from agent.config.settings import OPTIONS

    spec = OPTIONS[option]
    return {
        "cluster": cluster,
        "option": option,
        "value": (spec.show_text(value.value) or None) if as_text else spec.show(value.value),
        "source": str(value.source),
        "where": None if value.source is ValueSource.DEFAULT else value.place,
    }
