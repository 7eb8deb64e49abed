"""Whether what is declared is what there is: goes through real states, attribute by attribute."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import Struct

from agent.core.diagnosis.api import Analyzer, ClusterAnalyzer, Settings
from agent.core.diagnosis.consumption import Consumption
from agent.core.diagnosis.engine import GroupAnalyzers, PartitionDiagnosis
from agent.core.events.recent import PartitionRecentEvents, RecentEvent
from agent.core.inference.commit_cadence import CommitCadence
from agent.core.records import LogId
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.kip848 import ConsumerGroup, ShareGroup, StreamsGroup
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.targets import TargetAssignments
from agent.core.state_fields import INTERNED, SHARED, declared_state
from agent.persistence.cluster_state import ClusterState
from analyzers import windows
from analyzers.stalled_consumer import StalledConsumer
from tests import examples
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.diagnosis.test_properties import timed
from tests.unit.core.shadow.build import run_of
from tests.unit.core.wire.vectors import CAPTURE, needs
from tests.unit.persistence.snapshot.cutting import ALL
from tests.unit.serving.routes.replayed import of_path
from tests.unit.simulation.generator.making import SMALL, a_cluster, runs

NO_STATE: dict[type, set[str]] = {
    # Rejects are for whoever logs them; a mirror's versions say whether that very object changed. Wakes follow from
    # what is due, and looks from who wants them; a view from its group.
    PartitionMirror: {
        "partition",
        "rejects",
        "_evidence_source",
        "_origin_source",
        "names_version",
        "_newest_times_ms",
    },
    PartitionDiagnosis: {
        "_mirror",
        "_makes",
        "observer",
        "_on_failure",
        "_wakes",
        "lag_source",
        "_look_ms",
        "_last_view",
    },
    # They follow from the keys; `moved` is the mirror's, and what was looked at that of who looks.
    CommittedOffsets: {
        "_groups",
        "_gone",
        "_slot_of",
        "_numbers",
        "_values",
        "_counts",
        "_group_of",
        "_free",
        "_fresh",
        "version",
        "moved",
        "looked",
        "_looking",
        "_index",
    },
    GroupAnalyzers: {"analyzers", "_found", "_restore"},  # what `watches` tells
    CommitCadence: {"_partitions", "_ownerships"},  # what `_holds` tells
    Consumption: {"_ends", "_slots", "_places", "_offsets", "_counts"},  # what `_now` and `_bases` tell
    ClassicGroup: {"_metadata"},  # what `_raw` tells
    PartitionRecentEvents: {"findings_complete_since"},  # `complete_since` stands for it
    # What `_tracks` and `_progress` tell; and, for a restart just then, that clients come back may be missed.
    StalledConsumer: {"_partition_tracks", "_progress_tracks", "_first_ms", "_back_ms"},
    windows.Occupant: {"member_id"},
    windows.SeatChains: {"_seats"},  # what `_here` tells
    windows.DepartureCounter: {"_sitting"},  # likewise
    TargetAssignments: {"slots_of"},
    # They follow from the members, and from what brokers say.
    **{
        cls: {"_libraries", "session", "coordinator_change", "write_pause"}
        for cls in (ConsumerGroup, ShareGroup, StreamsGroup)
    },
}
"""What is derived, or comes from the running configuration."""

SETTINGS = {"settings", "_window_ms"}
TIMES = {"open_after_ms", "close_after_ms"}


def attributes(it: object) -> dict[str, Any]:
    out = dict(getattr(it, "__dict__", {}))
    for cls in type(it).__mro__:
        out |= {name: getattr(it, name) for name in cls.__dict__.get("__slots__", ()) if hasattr(it, name)}
    return out


def state_of(it: Any) -> dict[str, Any]:
    """The attributes that are state; fails where one is neither declared nor known not to be."""
    cls, found, known = type(it), attributes(it), NO_STATE.get(type(it), set())
    if isinstance(it, Analyzer | ClusterAnalyzer):
        declared = cls.__dict__["STATE"]
        found |= {name: getattr(it, name) for name in declared if isinstance(getattr(cls, name, None), property)}
        assert found.keys() - SETTINGS == declared.keys() | known, cls
        return {name: found[name] for name in declared}
    declared = declared_state(cls)
    assert declared is not None, f"{cls} is not declared"
    found |= {name: getattr(it, name) for name in declared if isinstance(getattr(cls, name, None), property)}
    known = known | (TIMES if cls.__name__ == "Hysteresis" else set())
    if not issubclass(cls, tuple):
        assert found.keys() == declared.keys() | known, cls
    return {name: getattr(it, name) for name in declared}


def walk(it: Any, seen: dict[int, tuple[Any, int]]) -> None:
    """Count how often each object that changes is reached."""
    match it:
        case None | bool() | int() | float() | str() | bytes() | Enum() | RecentEvent() | Settings():
            return
        case FunctionType() | MethodType():
            raise AssertionError(f"{it} in a state")
    is_frozen = isinstance(it, Struct) and it.__struct_config__.frozen
    changes = not isinstance(it, tuple | frozenset) and not is_frozen and it is not windows._NOTHING
    if changes or type(it) in SHARED:
        before = seen.get(id(it), (it, 0))[1]
        seen[id(it)] = (it, before + 1)
        if before:
            return
    for value in inner(it):
        walk(value, seen)


def inner(it: Any) -> Iterator[Any]:
    if isinstance(it, Mapping):
        yield from it.keys()
        yield from it.values()
    elif isinstance(it, list | deque | set | frozenset) or type(it) is tuple:
        yield from it
    else:
        yield from state_of(it).values()


def check(state: ClusterState) -> set[str]:
    """Nothing that changes is held twice unless it may be; the classes that were held twice."""
    twice = set()
    for partition in state.partitions:
        seen: dict[int, tuple[Any, int]] = {}
        for it in state.partition_state(partition):
            walk(it, seen)
        for it, times in seen.values():
            if times > 1 and it:
                # What a value holds changes no more than it does: the same dict may be in many members.
                assert type(it) in SHARED or is_of_a_value(it, state, partition), f"{type(it)}: {it!r:.200}"
                twice.add(type(it).__name__)
    return twice


def is_of_a_value(it: object, state: ClusterState, partition: int) -> bool:
    """Whether it is held by a frozen struct or named tuple, which nobody changes."""
    held: set[int] = set()

    def collect(it: Any) -> None:
        if isinstance(it, None | bool | int | float | str | bytes | Enum | RecentEvent | Settings):
            return
        is_value = type(it) in INTERNED or (isinstance(it, Struct) and it.__struct_config__.frozen)
        for value in inner(it):
            if is_value:
                held.add(id(value))
            collect(value)

    for part in state.partition_state(partition):
        collect(part)
    return id(it) in held


def replayed(runs: Any, *, until_ms: int = 0) -> ClusterState:
    state = ClusterState(ALL, log=LogId("c", "t"))
    for run in runs:
        state.replay_batch(run)
    state.advance(until_ms)
    return state


def test_a_recorded_cluster() -> None:
    check(replayed(of_path(SEGMENTS)))


@needs(CAPTURE)
def test_the_captured_cluster() -> None:
    assert "LostMember" in check(replayed(of_path(CAPTURE / "segments")))


def test_a_generated_cluster() -> None:
    twice = check(replayed(runs(a_cluster().records), until_ms=SMALL.until_ms))
    assert {"RebalanceRound", "StormRound", "LostMember", "AbsentClient"} <= twice, "what may be held twice is"
    assert twice <= {cls.__name__ for cls in SHARED} | {"dict"}


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(timed(0))
def test_any_history(records: list[Any]) -> None:
    if records:
        check(replayed([run_of(records)]))


def test_what_is_not_declared_is_found() -> None:
    class Mirror(PartitionMirror):
        pass

    with pytest.raises(AssertionError, match="is not declared"):
        walk(Mirror(0), {})
    mirror = PartitionMirror(0)
    mirror.more = 1  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="PartitionMirror"):
        walk(mirror, {})


def test_a_counter_is_a_counter() -> None:
    state = replayed(of_path(SEGMENTS))
    partition = next(iter(state.partitions))
    other = ClusterState(ALL, log=LogId("c", "t"))
    other.restore(partition, state.capture(partition).encode())
    counter = other.mirror.partitions[partition].offsets.counts
    assert type(counter) is Counter
    assert counter[b"nobody's"] == 0
