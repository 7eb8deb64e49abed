"""`docs/reference/events.md`: every event of the history and its fields, from the declarations; real examples."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.events.events import EVENT_CLASSES, SAMPLE, Event
from agent.core.shadow import transitions
from agent.persistence.export.columns import COLUMNS, EVERY, Column, ColumnType
from tests.generate.docs.markdown import code, fenced, prose, table
from tests.unit.cli.running import SEGMENTS, kshadow, lines

HEAD = """\
# Events

What `kshadow replay` prints, and `kshadow run` writes with `--history-topic`, `--history-parquet` and `--otlp`;
`kshadow timeline`, `explain` and `findings` are made of the same. One JSON object an event, schema version 1. Times
are epoch milliseconds. An `event_id` is the same on every replay of the same log. Events come in the order of
(`at_ms`, `partition`, `offset`).

JSON Schemas of them, and recipes for `jq`: [machines.md](../machines.md). The same as columns of Parquet, and what
Spark makes of them: [TABLES.md](../../spark_jobs/TABLES.md).
"""
ABOUT = {
    SAMPLE: """\
How a group stood at one time: written only by an agent with `--history-samples`, no part of what the log tells.""",
    Finding.kind: """\
An analyzer's finding opened, changed its severity, or closed. The analyzers: [analyzers.md](analyzers.md).""",
}


def page() -> str:
    """The whole page."""
    found = examples()
    parts = [
        HEAD,
        "## Fields of every event\n",
        _fields([column for column in COLUMNS if column.types == EVERY]),
        *(_section(kind, found.get(kind)) for kind in EVENT_CLASSES),
        "## Causes\n",
        "Of rebalances, and of members that left. They are inferred unless `evidence` says who stated them: "
        "[how](../coordination.md#how-kshadow-infers-why).\n",
        table(("cause", "what it was"), ((code(it), it.info.about) for it in Cause)),
    ]
    return "\n".join(parts)


def examples() -> Mapping[str, Event]:
    """An event of each type of which a real broker's log tells: of rebalances, one in which a member went."""
    found: dict[str, Event] = {}
    for line in lines(kshadow("replay", SEGMENTS, "-o", "ndjson")):
        event: Event = json.loads(line)
        if event["type"] not in found or (event.get("left") and not found[event["type"]].get("left")):
            found[event["type"]] = event
    return found


def _section(kind: str, example: Event | None) -> str:
    own = [column for column in COLUMNS if kind in column.types]
    parts = [f"## {kind}\n", f"{_about(kind)}\n"]
    parts.append(_fields(own) if own else "It has no fields of its own.\n")
    if example is not None:
        parts += ["For example:\n", fenced(json.dumps(example, indent=2, ensure_ascii=False), "json")]
    return "\n".join(parts)


def _about(kind: str) -> str:
    if kind in ABOUT:
        return ABOUT[kind]
    (made,) = (it for it in vars(transitions).values() if getattr(it, "kind", None) == kind)
    assert made.__doc__ is not None
    return prose(made.__doc__.split("\n\n")[0])


def _fields(columns: list[Column]) -> str:
    return table(("field", "type", "what"), ((code(it.name), _type(it.kind), prose(it.about)) for it in columns))


_NAMES = {"int32": "integer", "int64": "integer", "double": "number", "bool": "boolean", "json": "any"}


def _type(kind: ColumnType) -> str:
    match kind:
        case str():
            return _NAMES.get(kind, kind)
        case tuple():
            return f"list of {_type(kind[0])}"
        case _:
            return f"object: {', '.join(code(name) for name in kind)}"
