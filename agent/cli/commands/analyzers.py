"""`kshadow analyzers`: what looks for findings, by which rule, and what can be set."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from agent.cli.options import output_option
from agent.cli.output import print_rows
from agent.cli.tables import Column

_COLUMNS = {
    "analyzer": Column("ANALYZER"),
    "rule": Column("FIRES WHEN", folds=30),
    "set": Column("SETTINGS", folds=30, spare=1),
}


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from agent.cli.completion_candidates import AnalyzerName

    return AnalyzerName().shell_complete(ctx, parameter, incomplete)


@click.command()
@click.argument("names", metavar="[ANALYZER]…", nargs=-1, shell_complete=_complete)
@output_option()
def analyzers(names: tuple[str, ...], output: str) -> None:
    """List the analyzers: when each fires, its false alarms, its settings.

    With names the table shows everything of those; -o json has everything always. Settings are given to the commands
    that analyze with --tune.

    \b
    Examples:
      kshadow analyzers
      kshadow analyzers -o json
    """
    from analyzers.registry import AnalyzerConfigError, known_analyzers

    try:
        kinds = known_analyzers()
    except AnalyzerConfigError as error:
        raise click.UsageError(str(error)) from error
    if unknown := [name for name in names if name not in kinds]:
        raise click.UsageError(f"no analyzer is called {unknown[0]!r}; there are {', '.join(sorted(kinds))}")
    forms = [_form(name, kind) for name, kind in sorted(kinds.items()) if not names or name in names]
    if output != "table":
        print_rows(forms, output, _COLUMNS)
    elif not names:
        rows = [
            {**form, "set": ", ".join(f"{it['name']}={it['default']}" for it in form["settings"])} for form in forms
        ]
        print_rows(rows, output, _COLUMNS)
    else:
        for form in forms:
            click.echo(f"{form['analyzer']}\n\n{click.wrap_text(form['rule'])}\n")
            click.echo(click.wrap_text(f"False alarms: {form['false_alarms']}") + "\n")
            columns = {"name": Column("SETTING"), "default": Column("DEFAULT"), "help": Column("WHAT", folds=30)}
            print_rows(form["settings"], output, columns)


def _form(name: str, kind: Any) -> dict[str, Any]:
    return {
        "analyzer": name,
        "rule": " ".join(kind.rule.split()),
        "false_alarms": " ".join(kind.false_alarms.split()),
        "settings": [
            {"name": field.name, "default": field.default, "help": field.metadata.get("help", "")}
            for field in fields(kind.settings_class)
        ],
    }
