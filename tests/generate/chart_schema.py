"""The part of the chart's values.schema.json that is made of the options of `kshadow run`.

To write it anew: `python -m tests.generate.chart_schema`.
"""

from __future__ import annotations

import json
from typing import Any

import click

from agent.cli.run_options import RUN_OPTIONS
from agent.common.timespec import parse_duration
from agent.config.options import MinDuration, NameValue, Size
from agent.config.settings import OPTIONS, PER_CLUSTER
from tests.generate import chart_spark_values
from tests.live.helm.chart.rendering import CHART

FILE = CHART / "values.schema.json"

CHARTS_OWN = frozenset(name for name, spec in OPTIONS.items() if spec.chart != "config")
"""Options that the chart gives by itself: its templates refuse them, and say which value they come from."""

OF_A_CLUSTER = frozenset(name for name in PER_CLUSTER if OPTIONS[name].chart != "chart")

_SCALAR = {"type": ["string", "number", "boolean"]}
_FROM_FILE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["file"],
    "properties": {"file": {"type": "string", "minLength": 1}},
}
_PARTITIONS = OPTIONS["partitions"].type
_UNITS_MS = {unit: parse_duration(f"1{unit}") for unit in ("ms", "s", "m", "h", "d", "w")}


def definitions() -> dict[str, Any]:
    """JSON Schema definitions: `options` for `config`, `clusterOptions` for an entry of `config.clusters`."""
    top = {name: {} if name in CHARTS_OWN else schema_of(option) for name, option in RUN_OPTIONS.items()}
    top["clusters"] = {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
        "additionalProperties": {"$ref": "#/definitions/clusterOptions"},
        "description": "Several clusters in one agent, by name, each with options of its own.",
    }
    cluster = {name: schema_of(option) for name, option in RUN_OPTIONS.items() if name in OF_A_CLUSTER}
    return {"clusterOptions": _strict(cluster), "options": _strict(top)}


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def schema_of(option: click.Option) -> dict[str, Any]:
    """What a file may say to an option; what only the agent can judge is left to it."""
    return {**_values(option), "description": option.help}


def _values(option: click.Option) -> dict[str, Any]:
    it = option.type
    if option.is_flag:
        return {"type": "boolean"}
    if isinstance(it, NameValue):
        return {"type": "object", "additionalProperties": {"anyOf": [_SCALAR, _FROM_FILE]}}
    if option.multiple:
        return {"type": "array", "items": {"type": "string", "minLength": 1}}
    if isinstance(it, click.Choice):
        return {"enum": list(it.choices)}
    if isinstance(it, click.IntRange | click.FloatRange):
        bounds = {k: v for k, v in {"minimum": it.min, "maximum": it.max}.items() if v is not None}
        return {"type": "integer", **bounds} if isinstance(it, click.IntRange) else _fractions(it, bounds)
    if isinstance(it, MinDuration):
        return _durations(it)
    if isinstance(it, Size):  # a bare number is a value of it, as of partitions
        return {"type": ["string", "integer"], "minimum": 0, "pattern": "^[0-9]{1,15}(([KMGTkmgt][Ii]?)?[Bb])?$"}
    if it is _PARTITIONS:
        return {"type": ["string", "integer"], "minimum": 0, "pattern": "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"}
    return {"type": "string", "minLength": 1}


def _durations(it: MinDuration) -> dict[str, Any]:
    """Those of at least so long, where one unit says it; sums such as `1s500ms` are left to the agent."""
    least = {unit: _at_least(-(-it.least_ms // size)) for unit, size in _UNITS_MS.items()}
    one = "|".join(f"0*{number}{unit}" for unit, number in least.items())
    never = "never|" if it.never else ""
    return {"type": "string", "pattern": f"^({never}{one}|([0-9]+({'|'.join(_UNITS_MS)})){{2,}})$"}


def _fractions(it: click.FloatRange, bounds: dict[str, float]) -> dict[str, Any]:
    """A number, or the text that `helm --set` makes of a fraction; its bounds are 0.1 or 1, and a power of ten."""
    tenths = {0.1: "0\\.[1-9][0-9]*|", 1: ""}[it.min or 0]
    digits = len(str(it.max)) - 1
    text = f"^({tenths}[1-9][0-9]{{0,{digits - 1}}}\\.[0-9]+)$"
    return {"type": ["number", "string"], **bounds, "pattern": text}


def _at_least(limit: int) -> str:
    """A regular expression for whole numbers from `limit` on, without zeros in front; it is one digit and zeros."""
    digit, zeros = int(str(limit)[0]), len(str(limit)) - 1
    if limit != digit * 10**zeros:
        raise ValueError(f"expected one digit and zeros, got {limit}")
    longer = f"[1-9][0-9]{{{zeros + (digit > 1)},}}"
    return f"([{digit}-9][0-9]{{{zeros}}}|{longer})" if digit > 1 else longer


def text() -> str:
    """The whole file, with these definitions in it."""
    schema = json.loads(FILE.read_text())
    schema["definitions"] |= definitions() | chart_spark_values.definitions(schema_of)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
