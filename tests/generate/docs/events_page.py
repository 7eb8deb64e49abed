"""`docs/reference/events.md`: every event of the history and its fields, from the declarations; real examples."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding
from agent.core.events.events import EVENT_CLASSES, SAMPLE, Event
from agent.core.inference.origins import OriginInfo, OriginKind
from agent.core.shadow import transitions
from agent.persistence.export.columns import COLUMNS, EVERY, Column, ColumnType
from tests.generate.docs.markdown import code, fenced, prose, table
from tests.unit.cli.running import SEGMENTS, kshadow, lines

HEAD = """\
# Events

`kshadow replay` prints these events, and `kshadow run` writes them with `--history-topic`, `--history-parquet` and
`--otlp`; `kshadow timeline`, `explain` and `findings` are computed from them. Each event is one JSON object, schema
version 1. Times are epoch milliseconds. An `event_id` is the same on every replay of the same log. Events are
ordered by (`at_ms`, `partition`, `offset`).

JSON Schemas, and recipes for `jq`: [machines.md](../machines.md). The columns in Parquet, and Spark's tables:
[TABLES.md](../../spark_jobs/TABLES.md).
"""
ABOUT = {
    SAMPLE: """\
The state of a group at one time, written only by an agent with `--history-samples`; it is not in the log.""",
    Finding.kind: """\
An analyzer's finding opened, changed its severity, or closed. The analyzers: [analyzers.md](analyzers.md).

The `summary`, `numbers` and `advice` of an open finding are as of `at_ms`: what the analyzer sees later is in no
event until the severity changes or the finding closes.""",
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
        "## Origins\n",
        "Of members that left or joined: what happened to their pods, with `--kubernetes` "
        "([what each is told by](../kubernetes-evidence.md#origins)).\n",
        table(
            ("origin", "of", "what happened"),
            ((code(it), _of(it.info), prose(it.info.about)) for it in OriginKind),
        ),
    ]
    return "\n".join(parts)


def _of(info: OriginInfo) -> str:
    return " and ".join([*(["departures"] if info.is_departure else []), *(["joins"] if info.is_join else [])])


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
