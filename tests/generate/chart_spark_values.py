"""The part of the chart's values.schema.json about Spark's jobs, made of the commands and of the jobs they start.

It has `tests.generate.chart_schema`'s shape: that writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from agent.cli.commands.spark import spark
from agent.config.options import NameValue
from agent.tools.spark_submit.jobs import Job

COMMANDS = ("backfill", "rollup", "report")
"""Those that end. A stream is the operator's."""
_NOT_IN_A_POD = frozenset({"dry-run", "help"})


def definitions(schema_of: Callable[[click.Option], dict[str, Any]]) -> dict[str, Any]:
    """JSON Schema definitions: `sparkBackfill` and the like for a job's options, `sparkRollupJob` and the like for an
    application's job."""
    out = {f"spark{it.capitalize()}": _options(it, schema_of) for it in COMMANDS}
    _, components = msgspec.json.schema_components([Job], ref_template="#/definitions/spark{name}Job")
    return out | {f"spark{name}Job": _bare(it) for name, it in components.items()}


def _bare(schema: Any) -> Any:
    """Without words, which are about the jobs' Python."""
    if isinstance(schema, list):
        return [_bare(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    gone = ("title", "description", "default")
    return {
        name: {key: _bare(one) for key, one in it.items()} if name == "properties" else _bare(it)
        for name, it in schema.items()
        if name not in gone
    }


def options(command: str) -> dict[str, click.Option]:
    """Name → option, of a command."""
    found = {max(it.opts, key=len).removeprefix("--"): it for it in spark.commands[command].params}
    return {name: it for name, it in found.items() if isinstance(it, click.Option) and name not in _NOT_IN_A_POD}


def _options(command: str, schema_of: Callable[[click.Option], dict[str, Any]]) -> dict[str, Any]:
    known = options(command)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _values(it, schema_of) for name, it in known.items()},
        "required": [name for name, it in known.items() if it.required],
    }


def _values(option: click.Option, schema_of: Callable[[click.Option], dict[str, Any]]) -> dict[str, Any]:
    out = schema_of(option)
    if isinstance(option.type, NameValue):
        # A command line has no files to read values from.
        out["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    return out
