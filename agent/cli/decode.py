"""`kshadow decode`: every record of the topic, decoded, as Kafka's own tools print it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from agent.cli.options import output_option
from agent.cli.output import print_rows, warn


@click.command()
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option(
    "--payloads",
    type=click.Choice(["expand", "raw"]),
    default="expand",
    show_default=True,
    envvar="KSHADOW_PAYLOADS",
    show_envvar=True,
    help="A consumer member's subscription and assignment as fields, or as the base64 of their bytes.",
)
@output_option("ndjson")
@click.pass_context
def decode(ctx: click.Context, paths: tuple[str, ...], payloads: str, output: str) -> None:
    """Print every record of the topic, decoded.

    PATH is a .log segment, a directory __consumer_offsets-N, a directory that holds such directories, an
    .ndjson file of {"key": hex, "value": hex|null}, or - for such lines on standard input.

    What cannot be decoded is printed too, with the reason and its bytes; the exit code is then 1.

    \b
    Example:
      kshadow decode /var/lib/kafka/data/__consumer_offsets-15 | jq 'select(.key.type == 2)'
    """
    from agent.offline import decoded

    bad = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal bad
        for path in paths:
            for row in decoded(path, expand=payloads == "expand", on_problem=problem):
                bad += "error" in row
                yield row

    def problem(text: str) -> None:
        nonlocal bad
        bad += 1
        warn(text)

    columns = {"partition": "PARTITION", "offset": "OFFSET", "timestamp": "TIMESTAMP", "key": "KEY", "value": "VALUE"}
    print_rows(_for_table(rows()) if output == "table" else rows(), output, columns, empty="no records")
    if bad:
        warn(f"{bad} {'thing was' if bad == 1 else 'things were'} wrong with the data; see above")
        ctx.exit(1)


def _for_table(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from agent.cli.output import json_text, when

    for row in rows:
        value = row.get("value") or row.get("control") or row.get("error")
        yield {
            **row,
            "timestamp": when(row.get("timestamp")),
            "key": json_text(row["key"]) if "key" in row else row.get("keyHex"),
            "value": value if isinstance(value, str) else json_text(value),
        }
