"""`kshadow decode`: every record of the topic, decoded, as Kafka's own tools print it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from agent.cli.options import SOURCE_PATH, option, output_option
from agent.cli.output import Column, line_text, print_lines, print_rows, warn
from agent.cli.text import MAX_LIST, iso_time, json_text
from agent.common.text import printable_truncated

JsonObject = dict[str, Any]

_COLUMNS = {
    "partition": Column("PARTITION"),
    "offset": Column("OFFSET"),
    "timestamp": Column("TIMESTAMP", spare=1),
    "key": Column("KEY", folds=20),
    "value": Column("VALUE", folds=24),
}


@click.command()
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=SOURCE_PATH)
@option(
    "--payloads",
    type=click.Choice(["expand", "raw"]),
    default="expand",
    help="A consumer member's subscription and assignment as fields, or as the base64 of their bytes.",
)
@output_option("ndjson")
@click.pass_context
def decode(ctx: click.Context, paths: tuple[str, ...], payloads: str, output: str) -> None:
    """Print every record of the topic, decoded.

    PATH is a .log segment, a directory __consumer_offsets-N, a directory that holds such directories, an
    .ndjson file of {"key": hex, "value": hex|null}, or - for such lines on standard input.

    A record that cannot be decoded is printed too, with the reason and its bytes. So is a damaged piece of
    a file, whose records cannot be told apart, with its place. The exit code is then 1.

    \b
    Examples:
      kshadow decode /var/lib/kafka/data -o table
      kshadow decode /var/lib/kafka/data/__consumer_offsets-15 | jq 'select(.key.type == 2)'
    """
    from agent.cli.data_source import source_errors_reported
    from agent.runtime.decoding import decoded, decoded_lines
    from agent.runtime.offline import check_readable, is_single_use

    undecodable = 0

    expand = payloads == "expand"

    def rows() -> Iterator[JsonObject]:
        nonlocal undecodable
        for path in paths:
            for row in decoded(path, expand=expand):
                undecodable += "error" in row
                yield row

    def lines() -> Iterator[str]:
        nonlocal undecodable
        for path in paths:
            for line, is_sound in decoded_lines(path, expand=expand, to_text=line_text):
                undecodable += not is_sound
                yield line

    with source_errors_reported():
        check_readable(paths)
        if output == "ndjson":
            print_lines(lines(), at_once=any(map(is_single_use, paths)))
        else:
            print_rows(map(_for_table, rows()) if output == "table" else rows(), output, _COLUMNS, empty="no records")
    if undecodable:
        what = "1 record or piece" if undecodable == 1 else f"{undecodable} records or pieces"
        warn(f'{what} could not be decoded: in the output with the reason, under "error"')
        ctx.exit(1)


def _for_table(row: JsonObject) -> JsonObject:
    """Short texts for people: `offset_commit group=payments topic=orders partition=3`, `v3 offset=1025 …`."""
    from agent.core.wire.records import RECORD_TYPES

    match row:
        case {"byte": byte, "error": {"message": message}}:
            key, value = f"damaged from byte {byte}", message
        case {"error": {"message": message}}:
            key, value = f"undecodable {row.get('keyHex') or ''}", message
        case {"control": outcome}:
            key, value = "transaction marker", outcome
        case {"key": {"type": number, "data": data}, "value": entry}:
            key = f"{RECORD_TYPES[number].name} {_fields(data)}"
            value = "tombstone" if entry is None else _versioned(entry)
        case payload:
            key, value = str(payload["name"]), _versioned(payload)
    return {
        **row,
        "timestamp": iso_time(row.get("timestamp")),
        "key": [printable_truncated(key, MAX_LIST)],
        "value": [printable_truncated(value, MAX_LIST)],
    }


def _versioned(entry: JsonObject) -> str:
    return f"v{entry['version']} {_fields(entry['data'])}"


def _fields(form: JsonObject) -> str:
    texts = ((name, value if isinstance(value, str) else json_text(value)) for name, value in form.items())
    return " ".join(f"{name}={text}" for name, text in texts)
