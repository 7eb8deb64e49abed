"""`kshadow schema`: the JSON Schemas of what kshadow prints, writes and answers."""

from __future__ import annotations

import click

from agent.cli.options import output_option
from agent.cli.output import print_rows, print_value
from agent.cli.tables import Column

_COLUMNS = {
    "name": Column("SCHEMA"),
    "about": Column("OF", folds=20),
    "said_by": Column("PRINTED OR ANSWERED BY", folds=24),
}
OPENAPI = "openapi"


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@output_option()
def schema(name: str | None, output: str) -> None:
    """List the JSON Schemas of events and answers, or print one.

    A schema describes one item, where a command prints a list as one of them. Within a version fields, words and
    types of events are only added: pass over what you do not know. The name openapi prints the OpenAPI document of
    the agent's API.

    \b
    Examples:
      kshadow schema
      kshadow schema event
      kshadow schema openapi -o yaml
    """
    from agent.presentation.schemas import DOCUMENTS, VERSION, document

    form = output if output in ("ndjson", "yaml") else "json"
    if name is None:
        rows = [
            {"name": it, "version": VERSION, "about": one.about, "many": one.many, "said_by": list(one.printed_by)}
            for it, one in DOCUMENTS.items()
        ]
        print_rows(rows, output, _COLUMNS)
        return
    if name == OPENAPI:
        from agent.serving.openapi import openapi

        print_value(openapi(), form)
        return
    if name not in DOCUMENTS:
        raise click.UsageError(f"no schema is called {name!r}; there are {', '.join(DOCUMENTS)}, {OPENAPI}")
    print_value(document(name), form)
