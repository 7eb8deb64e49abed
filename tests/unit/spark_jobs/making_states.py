"""What streams keep, as this version writes it, to be kept for later versions: `python -m
tests.unit.spark_jobs.making_states` after the `version` of a state, or the format of images, was raised.

Each state is that of a stream in the middle of a history; the other half is taken by whoever reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import inspect

from agent.core.diagnosis.api import WINDOW_MS, Finding, PartitionLoad
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.records import RecordBatch
from agent.history.rolling import in_order
from agent.history.rollup_reducer import Event, GroupRollup
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.migrations import FORMAT
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.partition_reducer import PartitionReducer, TaskState, analyzers_of
from spark_jobs.rows import PartitionLoads
from spark_jobs.streams.cluster_findings import STATE, FindingsState
from spark_jobs.streams.rolling import GROUP_STATE, GroupState, PendingEvent
from spark_jobs.streams.state_format import StateFormat
from tests import DATA
from tests.unit.cli.running import SEGMENTS
from tests.unit.serving.routes.replayed import of_path

KEPT = DATA / "spark_state"
FORMATS: dict[str, StateFormat[Any]] = {"rollup": GROUP_STATE, "findings": STATE}

# A group's rollups.

HOUR, MINUTE = 3_600_000, 60_000
T0 = 20_000 * 24 * HOUR
"""A midnight."""
MIDDLE = T0 + 95 * MINUTE
END = T0 + 26 * HOUR


def _event(kind: str, minute: float, **fields: Any) -> dict[str, Any]:
    at_ms = T0 + int(minute * MINUTE)
    told = {"event_id": f"{kind}-{minute}", "type": kind, "at_ms": at_ms, "partition": 3, "offset": int(minute * 10)}
    return {**told, "group_type": "consumer", **fields}


EVENTS = [
    _event("group_created", 2, observed=True),
    _event("member_joined", 3),
    _event("rebalance", 3, cause="member_joined", members=1, sync_ms=20, join_ms=3_000, stopped_partition_ms=0),
    _event("assignment_changed", 3, imbalance_ratio=1.0),
    _event("group_sample", 10, state="Stable", members=1, lag_records=40, lag_seconds=1.5),
    _event("member_joined", 62),
    _event("rebalance", 62, cause="member_joined", members=2, sync_ms=30, join_ms=900, stopped_partition_ms=5_400),
    _event("assignment_changed", 62, imbalance_ratio=1.5),
    _event("finding", 70, analyzer="rebalance_storm", state="firing"),
    _event("group_sample", 80, state="Stable", members=2, lag_records=7, lag_seconds=0.5),
    _event("member_left", 91, cause="session_timeout"),
    _event(
        "rebalance", 91, cause="session_timeout", members=1, sync_ms=1, join_ms=2_000, stopped_partition_ms=90_000
    ),
    _event("assignment_changed", 96, imbalance_ratio=1.0),
    _event("member_left", 99, cause="member_left"),
    _event("rebalance", 99, cause="member_left", members=0, sync_ms=0, join_ms=0, stopped_partition_ms=0),
    _event("group_emptied", 99),
    _event("finding", 130, analyzer="rebalance_storm", state="resolved"),
]


def rows_of_second_half(state: GroupState) -> list[tuple[str, dict[str, Any]]]:
    """The rows that come of a group from the middle of its history on."""
    import msgspec

    waiting = [msgspec.json.decode(it.body, type=Event) for it in state.waiting.values()]
    behind = [msgspec.convert(it, Event) for it in EVENTS if it["at_ms"] > MIDDLE]
    return [*state.rollup.take(in_order([*waiting, *behind])), *state.rollup.advance(END)]


def group_in_the_middle() -> GroupState:
    """A group's state up to the middle; what came within the ten minutes before it waits."""
    import msgspec

    rollup = GroupRollup("c", "g")
    before = [msgspec.convert(it, Event) for it in EVENTS if it["at_ms"] <= MIDDLE - 10 * MINUTE]
    list(rollup.take(in_order(before)))
    list(rollup.advance(MIDDLE - 10 * MINUTE))
    waiting = {
        it["event_id"]: PendingEvent(it["at_ms"], msgspec.json.encode(it).decode())
        for it in EVENTS
        if MIDDLE - 10 * MINUTE < it["at_ms"] <= MIDDLE
    }
    return GroupState(rollup, waiting, min(it.at_ms for it in waiting.values()))


# A partition's mirror.

PARTITION = 14


def halves() -> tuple[list[RecordBatch], list[RecordBatch]]:
    """The records of a recorded partition."""
    (run,) = of_path(SEGMENTS / f"__consumer_offsets-{PARTITION}")
    columns, middle = (run.offsets, run.timestamps_ms, run.keys, run.values), len(run) // 2
    halves = (RecordBatch(PARTITION, *(it[some] for it in columns)) for some in (slice(middle), slice(middle, None)))
    first, second = ([it] for it in halves)
    return first, second


def taken(reducer: PartitionReducer, runs: list[RecordBatch]) -> list[DiagnosisOutput]:
    """What comes of records."""
    return [*(it for run in runs for it in reducer.take(run)), *reducer.take_rest()]


def mirror_in_the_middle() -> bytes:
    """The image that a stream keeps of the partition."""
    reducer = PartitionReducer(PARTITION, TaskState(Diagnosis()))
    taken(reducer, halves()[0])
    return reducer.image()


# Findings of the cluster.

HOT = 5
BUSY, CALM = (900_000, "busy", 800_000), (900, "calm", 50)
HALF = 2
"""Windows that were judged; a finding opens with the one after them."""


def loads(first: int, last: int) -> list[PartitionLoads]:
    """What each of ten partitions took in, window by window; one has nearly all."""
    return [
        PartitionLoads(
            partition,
            T0 + last * WINDOW_MS,
            [
                (T0 + it * WINDOW_MS, PartitionLoad(*(BUSY if partition == HOT else CALM)), it)
                for it in range(first + 1, last + 1)
            ],
        )
        for partition in range(10)
    ]


def judged(whole: ClusterDiagnosis, told: list[PartitionLoads]) -> list[Finding]:
    """What a batch's loads show."""
    for note in told:
        note.add_to(whole)
    return [it for it in whole.advance(min(it.clock_ms or 0 for it in told), ()) if isinstance(it, Finding)]


def findings_in_the_middle() -> FindingsState:
    """The state after the first windows."""
    state = ClusterState(analyzers_of(Diagnosis())._replace(makes=()), remembers=False)
    judged(state.diagnosis, loads(0, HALF))
    return FindingsState(
        state.capture_cluster().encode(), [(it, T0 + HALF * WINDOW_MS) for it in range(10)], loads(HALF - 1, HALF)
    )


MADE = {"rollup": group_in_the_middle, "findings": findings_in_the_middle}


def layout(name: str) -> str:
    """The version of a state and its fields, as they are kept."""
    return f"version {FORMATS[name].version}\n{fields_of(FORMATS[name].kind)}\n"


def fields_of(kind: type) -> str:
    """Every field of a state and of what is in it, in words, a line a class."""
    met: dict[str, str] = {}
    _describe(inspect.type_info(kind), met)
    return "\n".join(f"{name}: {fields}" for name, fields in met.items())


def _describe(kind: inspect.Type, met: dict[str, str]) -> str:
    match kind:
        case inspect.StructType():
            name = kind.cls.__name__
            if name not in met:
                met[name] = ""
                met[name] = ", ".join(f"{it.encode_name} {_describe(it.type, met)}" for it in kind.fields)
            return name
        case inspect.NamedTupleType():
            return f"tuple[{', '.join(_describe(it.type, met) for it in kind.fields)}]"
        case inspect.DictType():
            return f"dict[{_describe(kind.key_type, met)}, {_describe(kind.value_type, met)}]"
        case inspect.ListType() | inspect.SetType():
            return f"{type(kind).__name__.removesuffix('Type').lower()}[{_describe(kind.item_type, met)}]"
        case inspect.TupleType():
            return f"tuple[{', '.join(_describe(it, met) for it in kind.item_types)}]"
        case inspect.UnionType():
            return " | ".join(_describe(it, met) for it in kind.types)
        case inspect.LiteralType():
            return f"literal[{', '.join(map(str, kind.values))}]"
        case _:
            return type(kind).__name__.removesuffix("Type").lower()


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    for name, format_ in FORMATS.items():
        file = KEPT / f"{name}.layout"
        before = file.read_text() if file.exists() else ""
        if before != layout(name) and before.startswith(f"version {format_.version}\n"):
            raise SystemExit(f"{name}: what is kept changed, and its version is {format_.version} still: raise it")
        file.write_text(layout(name))
        state = KEPT / f"{name}-{format_.version}.state"
        if not state.exists():
            state.write_bytes(format_.encode(MADE[name]()))
    image = Path(KEPT / f"mirror-{FORMAT}.state")
    if not image.exists():
        image.write_bytes(mirror_in_the_middle())


if __name__ == "__main__":
    main()
